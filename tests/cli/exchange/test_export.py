"""export: what is in the file, by the real safetensors library; what is refused; that it is whole or not there."""

import shutil

import numpy as np
import program
import pytest
from program import run, unbroken, unbroken_json

safetensors = pytest.importorskip("safetensors.numpy")
torch = pytest.importorskip("torch")

TIED = """
import sys, torch, unbroken
torch.manual_seed(1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.outer = torch.nn.Linear(4, 4, bias=False)
        self.outer.weight = self.inner.weight
        self.register_buffer("halves", torch.arange(6, dtype=torch.bfloat16).reshape(2, 3))
        self.register_buffer("nothing", torch.zeros(0, 3))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(model=model, optimizer=optimizer, extra={"a.b": torch.ones(3), "c": torch.ones(2)})
    for step in run.steps(2):
        model.outer(model.inner(torch.ones(1, 4))).sum().backward()
        optimizer.step()
        run.save()
torch.save(model.state_dict(), sys.argv[1] + ".pt")
"""


@pytest.fixture(scope="module")
def tied(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tied") / "run"
    status, out, err = run(program.python(TIED, directory))
    assert status == 0, err
    return directory


def exported(directory, tmp_path, *more):
    target = tmp_path / "out.safetensors"
    status, said = unbroken_json("export", directory, "--to", target, *more)
    assert status == 0 and said["file"] == str(target), said
    assert target.stat().st_size == said["bytes"]
    return target


def test_everything_under_every_name(tied, tmp_path):
    from safetensors.torch import load_file

    found = load_file(exported(tied, tmp_path))
    _, shown = unbroken_json("show", tied)
    assert sorted(found) == sorted(t["name"] for t in shown["tensors"])
    state = torch.load(str(tied) + ".pt", weights_only=True)
    for name, tensor in state.items():
        assert torch.equal(found[f"model.{name}"], tensor), name
    assert "optimizer.state.inner.weight.momentum_buffer" in found


def test_one_attach_name_is_left_out_of_the_names(tied, tmp_path):
    from safetensors.torch import load_file

    found = load_file(exported(tied, tmp_path, "--only", "model"))
    state = torch.load(str(tied) + ".pt", weights_only=True)
    assert sorted(found) == sorted(state)
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
    model = torch.nn.Module()  # a module takes it as it is
    model.inner, model.outer = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False)
    model.load_state_dict(found, strict=False)


def test_several_or_globs_keep_their_names(tied, tmp_path):
    with_both = safetensors_names(exported(tied, tmp_path, "--only", "model", "--only", "extra"))
    assert {"model.inner.weight", "model.outer.weight", "extra.c", "extra.a\\.b"} <= set(with_both)
    by_glob = safetensors_names(exported(tied, tmp_path, "--only", "*.bias", "--force"))
    assert by_glob == ["model.inner.bias"]
    status, error = unbroken_json("export", tied, "--to", tmp_path / "x.safetensors", "--only", "nothing.*")
    assert status == 78 and "model" in error["error"]["message"] and not (tmp_path / "x.safetensors").exists()


def safetensors_names(path):
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        assert file.metadata()["format"] == "pt"
        return sorted(file.keys())


def test_an_older_one_by_name(trained, tmp_path):
    newest = safetensors.load_file(exported(trained, tmp_path))["w"]
    older = safetensors.load_file(exported(trained, tmp_path, "8", "--force"))["w"]
    assert newest.dtype == np.float32 and newest.shape == (8, 8) and not np.array_equal(newest, older)
    status, error = unbroken_json("export", trained, "5", "--to", tmp_path / "y.safetensors")
    assert status == 66 and "12.a1" in error["error"]["message"]


def test_a_file_that_is_there_stays_without_force(trained, tmp_path):
    target = tmp_path / "out.safetensors"
    target.write_text("mine")
    status, error = unbroken_json("export", trained, "--to", target)
    assert status == 78 and "--force" in error["error"]["next_command"] and target.read_text() == "mine"
    assert unbroken("export", trained, "--to", target, "--force")[0] == 0
    assert "w" in safetensors.load_file(target)
    assert [path.name for path in tmp_path.iterdir()] == ["out.safetensors"]


@pytest.mark.parametrize("name", ["out.pt", "out", "out.safetensors.tmp"])
def test_only_safetensors_are_written(trained, tmp_path, name):
    assert unbroken("export", trained, "--to", tmp_path / name)[0] == 78
    assert unbroken("export", trained)[0] == 78


def test_a_missing_folder_and_a_full_disk(trained, tmp_path):
    status, _, err = unbroken("export", trained, "--to", tmp_path / "no/out.safetensors")
    assert status == 78 and str(tmp_path / "no") in err
    status, _, err = run(["bash", "-c", f"ulimit -f 1; trap '' XFSZ; exec {program.PROGRAM} export {trained} --to "
                          f"{tmp_path}/big.safetensors"])  # fmt: skip
    assert status == 74, err
    assert list(tmp_path.iterdir()) == []


def flip(directory, save):
    shard = next((directory / "data").glob(f"step-{save:012d}.*/*.safetensors"))
    raw = bytearray(shard.read_bytes())
    raw[-1] ^= 1
    shard.write_bytes(raw)


def test_damage_is_found_while_reading(copied, tmp_path):
    flip(copied, 12)
    target = tmp_path / "out.safetensors"
    status, error = unbroken_json("export", copied, "12", "--to", target)
    assert status == 65 and "shard" in error["error"]["message"] and not target.exists()
    status, said, err = unbroken("export", copied, "--to", target)
    assert status == 0 and "12.a1" in err and "8.a1" in said
    shutil.rmtree(copied / "data")
    assert unbroken("export", copied, "12", "--to", tmp_path / "none.safetensors")[0] == 65
    assert not list(tmp_path.glob("*partial*"))


def test_memory_is_bounded(tmp_path):
    """96 MiB go through a process that never holds half of that."""
    code = program.SAVING.replace("np.zeros((8, 8)", "np.zeros((24576, 1024)")
    code = code.replace("chance.standard_normal(w.shape).astype(np.float32)", "1")
    program.train(tmp_path / "run", 1, 1, code=code)
    # A small process in between: what a child has at most includes what its parent had when it was made.
    watch = "import resource, subprocess, sys; print(subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode, " \
            "resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    command = [program.PROGRAM, "export", tmp_path / "run", "--to", tmp_path / "o.safetensors"]
    _, out, err = run(program.python(watch, *command))
    status, peak_kib = map(int, out.split())
    assert status == 0 and peak_kib < 48 << 10, (out, err)
    assert safetensors.load_file(tmp_path / "o.safetensors")["w"].nbytes == 96 << 20
