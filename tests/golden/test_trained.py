"""A run that a released version really made, and what this version makes of it: read, verified, resumed, written again.

tests/golden/v*/trained was left by two lives of trained.py; the second went back to step 6. golden_test.cc keeps the
bytes of what the encoders write; here is a whole run, with everything that a state can hold.
"""

import json
import pathlib
import shutil
import struct
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools"), str(HERE.parent / "cli")]

import format_reader  # noqa: E402
import program  # noqa: E402
import trained  # noqa: E402

VERSIONS = sorted(path.parent.name for path in HERE.glob("v*/trained"))
#: newest first, as the second life left it
LISTED = [("9.a2", True), ("7.a2", True), ("7.a1", False), ("6.a1", True)]


@pytest.fixture(params=VERSIONS)
def kept(request):
    return HERE / request.param / "trained"


@pytest.fixture
def copied(kept, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(kept, directory)
    return directory


def exactly(value):
    """Equal for two values that are alike to the last bit, and of one kind."""
    if isinstance(value, np.ndarray | np.generic):
        return ("array", isinstance(value, np.generic), str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    if isinstance(value, dict):
        return (type(value).__name__, [(exactly(key), exactly(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [exactly(item) for item in value])
    return (type(value).__name__, value)


def state_after(steps):
    """What was attached, and the loss, after so many steps."""
    state, best = trained.make_state(), None
    for step in range(steps):
        loss = trained.train(state, step)
        best = loss if best is None else min(best, loss)
    return state, best


def check(loaded, steps):
    """`loaded` is what a reader gives for the checkpoint of that step."""
    state, best = state_after(steps)
    for name in ("weights", "table", "tree"):
        assert exactly(loaded[name]) == exactly(state[name]), name
    assert loaded["state"] == {"best": best}
    words = np.frombuffer(loaded["chance"]["python"]["words"], "<u4")
    assert [*words.tolist(), loaded["chance"]["python"]["position"]] == list(state["chance"]["python"].getstate()[1])
    numpy_state = {**state["chance"]["numpy"].bit_generator.state, "spawned": 0}
    assert exactly(loaded["chance"]["numpy"]) == exactly(numpy_state)


def test_there_is_one_of_every_version():
    assert VERSIONS == sorted(path.name for path in HERE.glob("v*")) != []


def test_the_program_lists_and_verifies_it(copied):
    status, said = program.unbroken_json("ls", copied)
    assert status == 0 and [(c["name"], c["lineage"]) for c in said["checkpoints"]] == LISTED
    status, said = program.unbroken_json("verify", copied)
    assert status == 0 and said["ok"] and [c["name"] for c in said["checkpoints"]] == [name for name, _ in LISTED]


@pytest.mark.parametrize("name", [name for name, _ in LISTED])
def test_both_readers_read_what_was_trained(name, copied):
    import unbroken

    steps = int(name.split(".")[0])
    check(unbroken.load(copied, at=name, torch=False), steps)
    run = format_reader.Run(copied)
    assert run.verify(run.checkpoint(name)) == []
    check(run.load(run.checkpoint(name))[0], steps)


def test_it_is_resumed(copied):
    import unbroken

    said = program.train(copied, 12, code=f"import runpy; runpy.run_path({str(HERE / 'trained.py')!r}, None, '__main__')")
    assert "resumed from 9.a2" in said
    check(unbroken.load(copied, torch=False), 12)
    newest = program.unbroken_json("ls", copied)[1]["checkpoints"][0]
    assert newest["name"] == "12.a3" and newest["lineage"]


def objects(directory):
    """What depends on nothing but the state: shards, their sums, and indexes but for the nonce."""
    out = {}
    for path in sorted(directory.glob("data/*/shard-*")):
        key = (path.parent.name, path.suffix)
        out[key] = path.read_bytes()
        if path.suffix == ".json":
            index = json.loads(out[key].splitlines()[0])
            assert index.pop("nonce") in path.name
            out[key] = index
    return out


def test_the_same_training_writes_the_same_bytes(tmp_path):
    """With the version that is written now."""
    sys.path.insert(0, str(HERE.parents[1] / "tools"))
    import make_golden

    make_golden.run_lives(tmp_path / "run")
    now, then = objects(tmp_path / "run"), objects(HERE / VERSIONS[-1] / "trained")
    assert now.keys() == then.keys()
    for key in now:
        assert now[key] == then[key], key
