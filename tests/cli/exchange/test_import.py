"""import: foreign checkpoints become runs; what they hold, what is refused, and that nothing of them runs."""

import argparse
import datetime
import json
import os
import random
import shlex
import struct
from collections import Counter, defaultdict, deque
from pathlib import Path

import numpy as np
import program
import pytest
from program import unbroken, unbroken_json

torch = pytest.importorskip("torch")
import unbroken as product  # noqa: E402

HOSTILE = Path(__file__).resolve().parents[2] / "hostile"


def brought_in(source, tmp_path, *more):
    """What load() makes of an imported file; the import itself has to go well."""
    target = tmp_path / "imported"
    status, out, err = unbroken("import", source, "--to", target, *more, "--json")
    assert status == 0, err
    said = json.loads(out)
    assert said["directory"] == str(target)
    status, report = unbroken_json("verify", target)
    assert status == 0 and report["ok"] and len(report["checkpoints"]) == 1
    return product.load(target), said


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape
        raw = [t.detach().contiguous().reshape(-1).view(torch.uint8) if t.numel() else t for t in (a, b)]
        assert torch.equal(*raw)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple, deque)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


def everything():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7, "loss": float("nan"), "big": 2**70,
        "negative": -(2**70), "unsigned": 2**64 - 1, "name": "caf\u00e9", "raw": b"\x00\xff\x80", "set": {1, 2}, "none": None,
        "frozen": frozenset([3]), "complex": 1 + 2j, "tuple": (1, (2,)), "size": torch.Size([1, 2]), "dtype": torch.bfloat16,
        "counter": Counter("aab"), "deque": deque([1], 3), "default": defaultdict(None, {1: 2}), "flags": [True, False],
        "f8": torch.arange(4.0).to(torch.float8_e4m3fn), "u16": torch.arange(3).to(torch.uint16), "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3), "transposed": torch.arange(6).reshape(2, 3).t(), "c64": torch.ones(2, dtype=torch.complex64),
        "part": torch.arange(10.0)[3:7],
        "expanded": torch.rand(1, 3).expand(4, 3), "last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "rng": torch.get_rng_state(), "numpy": np.arange(6.0).reshape(2, 3), "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "numpy_rng": np.random.RandomState(3).get_state(), "python_rng": random.Random(1).getstate(), "numpy_scalar": np.float32(2),
    }  # fmt: skip


def plain(value):
    """As it comes back: NaN is not equal to itself, so it stands as its text."""
    return {**value, "loss": str(value["loss"])}


@pytest.mark.parametrize("is_new", [True, False])
def test_a_file_of_torch_save_comes_back_as_it_is(tmp_path, is_new):
    saved = everything()
    saved["parameter"] = torch.nn.Parameter(torch.ones(2))
    torch.save(saved, tmp_path / "a.pt", _use_new_zipfile_serialization=is_new)
    found, said = brought_in(tmp_path / "a.pt", tmp_path, "--step", "40")
    assert (said["step"], said["name"], said["attempt"]) == (40, "40.a1", 1)
    saved["parameter"] = saved["parameter"].detach()
    assert type(found) is not None and found.step == 40
    same(plain(saved), plain(dict(found)))


def test_names_are_those_of_the_module(tmp_path):
    torch.save({"model": torch.nn.Linear(2, 2).state_dict(), "7": torch.ones(1)}, tmp_path / "a.pth")
    brought_in(tmp_path / "a.pth", tmp_path)
    _, shown = unbroken_json("show", tmp_path / "imported")
    assert [t["name"] for t in shown["tensors"]] == ['"7"', "model.bias", "model.weight"]
    torch.save({"a.b": torch.zeros(2), "a": {"b": torch.ones(2)}}, tmp_path / "b.pth")
    status, out, err = unbroken("import", tmp_path / "b.pth", "--to", tmp_path / "two")
    assert status == 0, err
    _, shown = unbroken_json("show", tmp_path / "two")
    assert [t["name"] for t in shown["tensors"]] == ["a.b", "a\\.b"]


def test_tied_tensors_stay_tied(tmp_path):
    w = torch.rand(4, 4)
    torch.save({"a": w, "b": w, "c": w.t()}, tmp_path / "a.bin")
    found, said = brought_in(tmp_path / "a.bin", tmp_path)
    assert said["tensors"] == 2
    _, shown = unbroken_json("show", tmp_path / "imported")
    assert [t.get("same_as") for t in shown["tensors"]] == [None, "a", None]
    assert torch.equal(found["c"], w.t())


def test_what_is_no_dict_gets_a_name(tmp_path):
    torch.save([torch.ones(2), 3], tmp_path / "a.pt")
    found, _ = brought_in(tmp_path / "a.pt", tmp_path)
    same({"object": [torch.ones(2), 3]}, dict(found))


def test_a_safetensors_file_keeps_its_keys(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    saved = {"model.0.weight": torch.rand(3, 2), "b": torch.arange(3), "e": torch.zeros(0, 2), "h": torch.ones(2).bfloat16()}
    safetensors.save_file(saved, tmp_path / "a.safetensors")
    found, said = brought_in(tmp_path / "a.safetensors", tmp_path)
    assert said["step"] == 0 and said["name"] == "0.a1"
    assert set(found) == set(saved) and all(torch.equal(found[key], saved[key]) for key in saved)


def test_an_exported_file_comes_back_with_its_names_and_digests(trained, tmp_path):
    assert unbroken("export", trained, "--to", tmp_path / "out.safetensors")[0] == 0
    brought_in(tmp_path / "out.safetensors", tmp_path)
    before, after = (unbroken_json("show", place)[1]["tensors"] for place in (trained, tmp_path / "imported"))
    assert [(t["name"], t["digest"]) for t in before] == [(t["name"], t["digest"]) for t in after]


def test_a_directory_of_dcp_comes_back_as_it_is(tmp_path):
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    saved = {key: value for key, value in everything().items() if key != "loss"}
    saved["list"] = [torch.ones(2), torch.zeros(3)]
    dcp.save(saved, checkpoint_id=tmp_path / "dcp")
    found, _ = brought_in(tmp_path / "dcp", tmp_path)
    want = json_keys(saved)
    assert set(found) == set(want)
    for key in want:
        same(want[key], found[key])


def json_keys(value):
    """DCP itself writes keys as texts, and dicts of every kind as plain ones."""
    if isinstance(value, dict):
        return {str(key): json_keys(item) for key, item in value.items()}
    return [json_keys(item) for item in value] if type(value) is list else value


@pytest.mark.parametrize("dim", [0, 1])
def test_shards_of_dcp_are_put_together(tmp_path, dim):
    """Two writers that hold half a tensor each, as a fully sharded training writes it."""
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties, TensorStorageMetadata,
    )  # fmt: skip
    import pickle

    whole = torch.arange(24.0).reshape(4, 6)
    directory = tmp_path / "dcp"
    directory.mkdir()
    chunks, where = [], {}
    for rank, part in enumerate(whole.chunk(2, dim)):
        path = directory / f"__{rank}_0.distcp"
        torch.save(part.clone(), path)
        offsets = torch.Size([rank * part.shape[0], 0] if dim == 0 else [0, rank * part.shape[1]])
        chunks.append(ChunkStorageMetadata(offsets=offsets, sizes=part.shape))
        where[MetadataIndex("w", offsets)] = _StorageInfo(path.name, 0, path.stat().st_size)
    tensors = {"w": TensorStorageMetadata(TensorProperties(dtype=torch.float32), whole.shape, chunks)}

    def write():
        (directory / ".metadata").write_bytes(pickle.dumps(Metadata(tensors, None, where)))

    write()
    found, _ = brought_in(directory, tmp_path)
    assert torch.equal(found["w"], whole)
    for bend in (lambda: chunks.pop(), lambda: chunks.extend([chunks[0], chunks[0]])):
        bend()
        write()
        refused(directory, tmp_path / "none")
    where[MetadataIndex("w", chunks[0].offsets)] = _StorageInfo("../../etc/passwd", 0, 10)
    write()
    refused(directory, tmp_path / "none", "no file of this directory")


# -- Refusals


def refused(source, target, *words, env=None):
    status, out, err = unbroken("import", source, "--to", target, "--json", env=env)
    assert status == 65, (source, status, err)
    error = json.loads(out)["error"]
    assert error["exit_code"] == 65 and all(word in error["message"] for word in words), error
    assert not target.exists() and not [p for p in target.parent.iterdir() if "importing" in p.name]
    return error["message"]


@pytest.mark.parametrize("path", sorted((HOSTILE / "torch_zip").iterdir()), ids=lambda path: path.name)
def test_hostile_files_are_refused_and_nothing_of_them_runs(path, tmp_path):
    if path.name.startswith("ok-"):
        brought_in(path, tmp_path)
    else:
        refused(path, tmp_path / "none")
    assert not (tmp_path / "RAN").exists() and not Path("RAN").exists()


@pytest.mark.parametrize("path", sorted((HOSTILE / "pickle").iterdir()), ids=lambda path: path.name)
def test_hostile_pickles_are_refused_and_nothing_of_them_runs(path, tmp_path):
    """Each as the pickle of a file of torch.save."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", path.read_bytes())
        archive.writestr("a/data/0", bytes(16))
    if path.name.startswith("ok-"):
        brought_in(tmp_path / "a.pt", tmp_path)
    else:
        refused(tmp_path / "a.pt", tmp_path / "none")
    assert not (tmp_path / "RAN").exists() and not Path("RAN").exists()


@pytest.mark.parametrize("name", ["os-system", "eval", "exec-2", "newobj", "inst", "stack-global", "torch-hub"])
def test_a_refusal_names_what_is_not_on_the_list(name, tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", (HOSTILE / "pickle" / name).read_bytes())
    named = {"os-system": "os.system", "eval": "builtins.eval", "exec-2": "__builtin__.exec", "newobj": "subprocess.Popen",
             "inst": "os.system", "stack-global": "os.system", "torch-hub": "torch.hub.load"}  # fmt: skip
    refused(tmp_path / "a.pt", tmp_path / "none", named[name])


KEPT_IN_NO_RUN = {
    "torch.device": torch.device("cuda:0"), "argparse.Namespace": argparse.Namespace(rate=1), "pathlib.PosixPath": Path("/a"),
    "a tensor that is stored conj": torch.ones(2).to(torch.complex64).conj(), "NumPy's type U1": np.array(["a"]),
    "torch._utils._rebuild_sparse_tensor": torch.eye(2).to_sparse(), "a storage": torch.ones(2).untyped_storage(),
    "torch._utils._rebuild_qtensor": torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.quint8),
    "torch.nn.modules.linear.Linear": torch.nn.Linear(1, 1), "datetime.timedelta": datetime.timedelta(1),
    "a big-endian": np.arange(3, dtype=">i4"),
}  # fmt: skip


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("what", KEPT_IN_NO_RUN)
def test_what_no_run_can_hold_is_named_and_the_next_command_goes_without_it(what, is_new, tmp_path):
    value = KEPT_IN_NO_RUN[what]
    torch.save({"a": {"list": [1, {"it is": value}], "w": torch.ones(2)}, "args": value, "n": 1}, tmp_path / "a.pt",
               _use_new_zipfile_serialization=is_new)  # fmt: skip
    if "qtensor" in what and not is_new:  # the old form says nowhere how long a storage of a class of its own is
        refused(tmp_path / "a.pt", tmp_path / "run", "torch.QUInt8Storage")
        return
    message = refused(tmp_path / "a.pt", tmp_path / "run", "2 values in it", f'a.list.1.it is ({what}', f"args ({what}")
    assert "nothing of it was run" in message
    _, error = unbroken_json("import", tmp_path / "a.pt", "--to", tmp_path / "run")
    command = shlex.split(error["error"]["next_command"])
    assert command[0] == "unbroken"
    status, _, err = unbroken(*command[1:])
    assert status == 0, err
    same({"a": {"list": [1, {}], "w": torch.ones(2)}, "n": 1}, dict(product.load(tmp_path / "run")))


def test_an_entry_is_left_out_where_that_is_asked_for(tmp_path):
    torch.save({"model": {"w": torch.ones(2)}, "optimizer": {"m": torch.ones(2)}}, tmp_path / "a.pt")
    found, said = brought_in(tmp_path / "a.pt", tmp_path, "--without", "opt*")
    assert list(found) == ["model"] and said["tensors"] == 1
    status, error = unbroken_json("import", tmp_path / "a.pt", "--to", tmp_path / "two", "--without", "nothing")
    assert status == 78 and "no entry of that name" in error["error"]["message"]


def test_a_defaultdict_comes_back_without_its_factory(tmp_path):
    torch.save({"a": defaultdict(list, {1: [2]})}, tmp_path / "a.pt")
    status, _, err = unbroken("import", tmp_path / "a.pt", "--to", tmp_path / "run")
    assert status == 0 and "a comes back as a defaultdict, without its factory" in err
    same({"a": defaultdict(None, {1: [2]})}, dict(product.load(tmp_path / "run")))


class Runs:
    def __reduce__(self):
        return os.system, ("touch RAN",)


def test_a_real_pickle_of_code_is_refused(tmp_path):
    torch.save({"w": torch.ones(2), "x": Runs()}, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", tmp_path / "none", "posix.system")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "b.pt")
    refused(tmp_path / "b.pt", tmp_path / "none", "torch.nn.modules.linear.Linear")
    directory = tmp_path / "dcp"
    directory.mkdir()
    import pickle

    (directory / ".metadata").write_bytes(pickle.dumps(Runs()))
    refused(directory, tmp_path / "none", "posix.system")
    assert not Path("RAN").exists()


@pytest.mark.parametrize("is_new", [True, False])
def test_a_file_cut_anywhere_is_refused(tmp_path, is_new):
    torch.save({"w": torch.arange(4.0), "n": [1, 2.5, "x"]}, tmp_path / "a.pt", _use_new_zipfile_serialization=is_new)
    whole = (tmp_path / "a.pt").read_bytes()
    lengths = sorted({0, 1, 2, 3, len(whole) - 1, *random.Random(1).sample(range(len(whole)), 40)})
    for length in lengths:
        (tmp_path / "cut.pt").write_bytes(whole[:length])
        refused(tmp_path / "cut.pt", tmp_path / "none")


def test_a_flipped_bit_in_a_tensor_is_found(tmp_path):
    torch.save({"w": torch.arange(1000.0)}, tmp_path / "a.pt")
    whole = bytearray((tmp_path / "a.pt").read_bytes())
    whole[whole.index(struct.pack("<2f", 500, 501))] ^= 1
    (tmp_path / "a.pt").write_bytes(whole)
    refused(tmp_path / "a.pt", tmp_path / "none", "checksum")


def test_a_file_without_checksums_is_said(tmp_path):
    torch.save({"w": torch.ones(3)}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    status, _, err = unbroken("import", tmp_path / "a.pt", "--to", tmp_path / "run")
    assert status == 0 and "no checksums" in err


def test_what_is_in_the_way_stays(tmp_path, trained):
    torch.save({"w": torch.ones(3)}, tmp_path / "a.pt")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes").write_text("mine")
    for target in (tmp_path / "full", trained, tmp_path / "a.pt"):
        status, error = unbroken_json("import", tmp_path / "a.pt", "--to", target)
        assert status == 78 and "there already" in error["error"]["message"]
    assert (tmp_path / "full/notes").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert unbroken("import", tmp_path / "a.pt", "--to", tmp_path / "empty/")[0] == 0
    assert unbroken("ls", tmp_path / "empty")[0] == 0


def test_how_a_mistake_ends(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.pt").write_text("not a checkpoint at all")
    torch.save({"w": torch.ones(3)}, tmp_path / "a.pt")
    run = tmp_path / "run"
    assert unbroken("import", tmp_path / "missing.pt", "--to", run)[0] == 66
    assert unbroken("import", tmp_path / "folder", "--to", run)[0] == 66
    assert unbroken("import", tmp_path / "text.pt", "--to", run)[0] == 65
    assert unbroken("import", tmp_path / "a.pt")[0] == 78
    assert unbroken("import", tmp_path / "a.pt", "--to", run, "--step", "-1")[0] == 78
    assert not run.exists()


def test_a_training_goes_on_from_an_imported_checkpoint(tmp_path):
    torch.save({"w": np.full((8, 8), 2, np.float32)}, tmp_path / "a.pt")
    brought_in(tmp_path / "a.pt", tmp_path, "--step", "3")
    code = """
import sys, numpy as np, unbroken
w = np.zeros((8, 8), np.float32)
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(w=w)
    print(run.restore(), w[0, 0])
"""
    status, out, err = program.run(program.python(code, tmp_path / "imported"))
    assert status in (0, 65), err
    if status == 0:
        assert out.split() == ["3", "2.0"]
