"""A run that is long enough for a fold: read by the program, by the reader of docs/format, and by a restart."""

import shutil
import subprocess
import sys

import program
import pytest
from program import unbroken_json

sys.path.insert(0, str(program.ROOT / "tools"))

import format_reader  # noqa: E402

STEPS = 100


@pytest.fixture(scope="module")
def long_run():
    with program.memory_folder() as folder:
        run = folder / "run"
        program.train(run, STEPS // 2, code=program.SAVING)
        program.train(run, STEPS, code=program.SAVING)
        assert len(program.journal_files(run)) > 257
        yield run


@pytest.fixture
def run(long_run, tmp_path):
    return shutil.copytree(long_run, tmp_path / "run")


def fold_of(run):
    (fold,) = (run / "fold").iterdir()
    assert fold.name.startswith(f"{256:020}-")
    return fold


def flip(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def listed(run):
    status, found = unbroken_json("ls", run)
    assert status == 0
    return found


def test_the_fold_is_what_the_records_come_to(run):
    fold_of(run)
    status, found = unbroken_json("verify", run)
    assert (status, found["ok"], found["journal"]["errors"]) == (0, True, [])
    journal = format_reader.Run(run).journal
    assert [fold["slot"] for fold in journal.fold.summaries] == [256]
    assert journal.damaged_folds() == []
    names = {checkpoint["name"] for checkpoint in listed(run)["checkpoints"]}
    assert names == {checkpoint.save.name for checkpoint in journal.loadable()}


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_a_fold_that_is_damaged_is_reported_and_costs_nothing_else(run, how):
    before, fold = listed(run), fold_of(run)
    name = f"fold/{fold.name}"
    if how == "flipped":
        flip(fold)
    else:
        fold.unlink()
    assert listed(run) == before
    status, found = unbroken_json("verify", run)
    assert status == 65
    (error,) = found["journal"]["errors"]
    assert error["object"] == name and ("missing" in error["what"]) == (how == "missing")
    status, found = unbroken_json("doctor", run)
    assert status == 65 and found["resumable"]
    assert name in [finding["object"] for finding in found["findings"]]
    tool = [sys.executable, program.ROOT / "tools/format_reader.py", run, "verify"]
    read = subprocess.run(tool, capture_output=True, text=True)
    assert read.returncode == 65 and read.stdout.startswith(f"{name} at 0: ")
    assert f"step {STEPS}" in program.train(run, STEPS + 1)
    assert listed(run)["checkpoints"][0]["step"] == STEPS + 1
