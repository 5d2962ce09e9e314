"""Where a run lies decides nothing: moved, entered from elsewhere, with other times on its files, beside other people's files."""

import os
import shutil
import sys

import numpy
import pytest
import unbroken
from helpers import life

pytestmark = pytest.mark.skipif(sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core")


def train(path, steps, **more):
    """Saves each step; (the step that it went on from, what it found then)."""
    w = numpy.zeros(3)
    with unbroken.Run(path, every=1, **more) as run:
        run.attach(w=w)
        found = run.restore(), w.tolist()
        for _ in run.steps(steps):
            w += 1
            run.save()
    return found


@pytest.mark.failure("Lightning-AI/pytorch-lightning#19294")
def test_a_run_goes_on_from_another_place(tmp_path, monkeypatch):
    """Begun by a relative path; then from another working directory, moved, copied, and through a symbolic link."""
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    train("runs/first", 2)
    monkeypatch.chdir(tmp_path)
    assert train("a/runs/first", 3) == (2, [2, 2, 2])
    shutil.move(tmp_path / "a", tmp_path / "moved")
    assert unbroken.load("moved/runs/first").name == "3.a2"
    shutil.copytree("moved/runs/first", "copied")
    assert train("copied", 5) == (3, [3, 3, 3])
    os.symlink("moved", "link")
    assert train("link/runs/first", 4) == (3, [3, 3, 3])


@pytest.mark.parametrize("what", ["missing", "empty", "stale", "of itself", "junk"])
@pytest.mark.failure("Lightning-AI/pytorch-lightning#21110", "huggingface/transformers#22170")
def test_no_pointer_is_needed_or_believed(tmp_path, what):
    """The only advisory file is the hint: what is committed decides."""
    train(tmp_path / "run", 2)
    hint = tmp_path / "run/hint"
    early = hint.read_bytes()
    train(tmp_path / "run", 4)
    hint.unlink()
    if what == "of itself":
        hint.symlink_to("hint")
    elif what != "missing":
        hint.write_bytes({"empty": b"", "stale": early, "junk": b"{]"}[what])
    assert unbroken.load(tmp_path / "run").step == 4
    assert train(tmp_path / "run", 5) == (4, [4, 4, 4])


@pytest.mark.parametrize("times", ["alike", "reversed", "in the future"])
@pytest.mark.failure("huggingface/transformers#26961", "ray-project/ray#3781")
def test_times_of_files_decide_nothing(tmp_path, times):
    train(tmp_path / "run", 3, keep_last=3)
    for i, folder in enumerate(sorted((tmp_path / "run/data").iterdir(), reverse=times == "reversed")):
        at = {"alike": 1e9, "reversed": 1e9 + i, "in the future": 4e9 - i}[times]
        for entry in [*folder.iterdir(), folder]:
            os.utime(entry, (at, at))
    assert train(tmp_path / "run", 4, keep_last=3)[0] == 3
    left = sorted(folder.name[:17] for folder in (tmp_path / "run/data").iterdir())
    assert left == ["step-000000000002", "step-000000000003", "step-000000000004"]


@pytest.mark.failure("google/orbax#394")
def test_what_somebody_else_put_there_stays(tmp_path):
    """A copy of a checkpoint under a name of one's own, a folder of a life that never was, notes and links."""
    run = tmp_path / "run"
    train(run, 4)
    (first, *_) = sorted((run / "data").iterdir())
    others = [run / "data/kept-by-me", run / "data/step-000000000099.a0099.t0", run / "old/data", run / "notes"]
    for other in others:
        shutil.copytree(first, other)
    os.symlink("/nowhere", run / "data/link")
    others.append(run / "data/link")
    for steps in (8, 12):
        train(run, steps)
        assert all(os.path.lexists(other) for other in others)
    assert all(len(list(other.iterdir())) == len(list(others[0].iterdir())) > 3 for other in others[:-1])


@pytest.mark.failure("NVIDIA-NeMo/Speech#14259")
def test_the_first_line_names_the_place_that_was_looked_at(tmp_path, monkeypatch, capsys):
    """A run that lies one level deeper is no run of this place: where the job ran before it is refused, else said."""
    train(tmp_path / "runs/deeper", 2)
    capsys.readouterr()
    with monkeypatch.context() as patched, pytest.raises(unbroken.NothingToResume, match=str(tmp_path / "runs")):
        patched.setenv("UNBROKEN_RESUMED", "1")
        life(tmp_path / "runs", 1)
    life(tmp_path / "runs", 1)
    assert f"fresh start: no run in {tmp_path / 'runs'}\n" in capsys.readouterr().err
