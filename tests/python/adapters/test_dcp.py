"""torch.distributed.checkpoint in one process: what dcp saves by Writer comes back by Reader, and by everything else."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import unbroken  # noqa: E402
import unbroken.dcp  # noqa: E402
from helpers import bits  # noqa: E402
from torch.distributed import checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402
from unbroken import functional  # noqa: E402
from unbroken.dcp import Reader, Writer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def let_go():
    yield
    functional.release()


def trained(seed=1, steps=2):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).pow(2).sum().backward()
        optimizer.step()
    return model, optimizer


def state_of(model, optimizer, **more):
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), **more}


EXTRA = {"step": 7, "note": "a.b", "list": [1, {"x": torch.arange(3)}], "pair": (1, 2.5), "half": torch.ones(2).bfloat16()}


def test_save_and_load(run_dir):
    model, optimizer = trained()
    saved = state_of(model, optimizer, **EXTRA)
    dcp.save(saved, storage_writer=Writer(run_dir), checkpoint_id="7")
    other, moments = trained(2)
    fresh = {"step": 0, "note": "", "list": [0, {"x": torch.zeros(3, dtype=torch.int64)}], "pair": (), "half": torch.zeros(2).bfloat16()}
    live = state_of(other, moments, **fresh)
    reader = Reader(run_dir)
    dcp.load(live, storage_reader=reader)
    assert bits(live) == bits(saved) and (reader.name, reader.step) == ("7.a1", 7)
    assert bits(other.state_dict()) == bits(model.state_dict())


def test_stateful_objects_and_the_step_that_follows(run_dir):
    model, optimizer = trained()
    writer = Writer(run_dir)
    for _ in range(2):
        dcp.save({"model": model, "optimizer": optimizer}, storage_writer=writer)
    assert writer.saving.name == "1.a1"
    other, moments = trained(2)
    dcp.load({"model": other, "optimizer": moments}, storage_reader=Reader(run_dir))
    assert bits(other.state_dict()) == bits(model.state_dict())
    assert bits(moments.state_dict()) == bits(optimizer.state_dict())


def test_async_save(run_dir):
    model, optimizer = trained()
    saved = bits(dict(model.state_dict()))
    future = dcp.async_save({"model": model.state_dict()}, storage_writer=Writer(run_dir))
    with torch.no_grad():
        model[0].weight.zero_()
    future.result()
    live = {"model": trained(3)[0].state_dict()}
    dcp.load(live, storage_reader=Reader(run_dir))
    assert bits(dict(live["model"])) == saved


def test_a_directory_by_checkpoint_id(run_dir):
    dcp.save({"x": torch.ones(2)}, storage_writer=Writer(), checkpoint_id=run_dir)
    live = {"x": torch.zeros(2)}
    dcp.load(live, storage_reader=Reader(), checkpoint_id=run_dir)
    assert live["x"].tolist() == [1, 1]
    with pytest.raises(unbroken.Misconfigured, match="not a step"):
        dcp.save(live, storage_writer=Writer(run_dir), checkpoint_id="best")
    with pytest.raises((CheckpointException, unbroken.Misconfigured)):
        dcp.save(live, storage_writer=Writer())


def test_an_older_checkpoint_by_name(run_dir):
    writer = Writer(run_dir)
    for step in (3, 5):
        dcp.save({"x": torch.full((2,), step)}, storage_writer=writer, checkpoint_id=step)
    live = {"x": torch.zeros(2, dtype=torch.int64)}
    reader = Reader(run_dir)
    dcp.load(live, storage_reader=reader, checkpoint_id="3.a1")
    assert live["x"].tolist() == [3, 3]
    dcp.load(live, storage_reader=reader)
    assert live["x"].tolist() == [5, 5]


@pytest.mark.parametrize("names", [("rng", "state", "x"), ("dcp",)])
def test_names_that_are_ours_are_free_here(run_dir, names):
    saved = {name: torch.full((2,), i) for i, name in enumerate(names)}
    dcp.save(saved, storage_writer=Writer(run_dir))
    live = {name: torch.zeros(2, dtype=torch.int64) for name in names}
    dcp.load(live, storage_reader=Reader(run_dir))
    assert bits(live) == bits(saved)


def test_what_a_run_saved(run_dir):
    model, optimizer = trained()
    with unbroken.Run(run_dir) as run:
        run.attach(model=model)
        for _ in run.steps(3):
            with torch.no_grad():
                model[0].weight.add_(1)
    other, _ = trained(2)
    dcp.load({"model": other}, storage_reader=Reader(run_dir))
    assert bits(other.state_dict()) == bits(model.state_dict())
    assert unbroken.load(run_dir).step == 3


def test_a_run_goes_on_from_what_dcp_saved(run_dir):
    model, _ = trained()
    dcp.save({"model": model}, storage_writer=Writer(run_dir), checkpoint_id=40)
    loaded = unbroken.load(run_dir)
    assert loaded.step == 40 and bits(loaded["model"]) == bits(dict(model.state_dict()))


def failure(caught):
    return caught.value.failures[0][0]


def test_errors(run_dir):
    with pytest.raises(unbroken.NothingToResume):
        Reader(run_dir)
    with pytest.raises(CheckpointException) as caught:
        dcp.save({"x": object()}, storage_writer=Writer(run_dir))
    assert isinstance(failure(caught), unbroken.Misconfigured) and "x" in str(failure(caught))
    dcp.save({"x": torch.ones(2), "y": torch.ones(2)}, storage_writer=Writer(run_dir))
    live = {"x": torch.zeros(2), "y": torch.zeros(2).double()}
    with pytest.raises(CheckpointException) as caught:
        dcp.load(live, storage_reader=Reader(run_dir))
    assert failure(caught).changed == [("y", "F32[2]", "F64[2]")]
    assert live["x"].tolist() == [0, 0], "a refused load changes nothing"
    shard = next((run_dir / "data").glob("*/*.safetensors"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(CheckpointException) as caught:
        dcp.load({"x": torch.zeros(2)}, storage_reader=Reader(run_dir))
    assert shard.name in str(failure(caught))  # dcp itself turns what read_metadata raises into an AssertionError


def test_to_a_file_of_torch_and_back(run_dir, tmp_path):
    from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner

    saved = state_of(*trained(), **EXTRA)
    dcp.save(saved, storage_writer=Writer(run_dir))
    found = {}
    dcp.state_dict_loader._load_state_dict(found, storage_reader=Reader(run_dir), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    assert bits(found["model"]) == bits(dict(saved["model"])) and found["pair"] == (1, 2.5)


def test_a_directory_of_dcps_own_is_named(tmp_path):
    dcp.save({"x": torch.ones(3)}, checkpoint_id=tmp_path / "plain")
    with pytest.raises(unbroken.NothingToResume, match="torch.distributed.checkpoint's own") as caught:
        Reader(tmp_path / "plain")
    assert caught.value.next_command == f"unbroken import {tmp_path}/plain --to DIR"
