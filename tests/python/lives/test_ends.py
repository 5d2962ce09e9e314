"""However a life ends, the next one goes on from the newest that was committed, at a boundary, with one history."""

import json
import os
import signal
import sys

import numpy
import pytest
import unbroken
from helpers import child, finish

pytestmark = pytest.mark.skipif(sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core")

ENDS = {
    "KILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "TERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "raise": "raise ValueError",
    "exit": "sys.exit(3)",
    "_exit": "os._exit(3)",
    "abort": "os.abort()",
    "thread": "threading.Thread(target=os._exit, args=(3,)).start(); threading.Event().wait()",
    "memory": "resource.setrlimit(resource.RLIMIT_AS, (1, 1)); bytearray(1 << 30)",
}
LIFE = """
import os, resource, signal, sys, threading, numpy, unbroken
w, end, at = numpy.zeros(100), sys.argv[2], 6
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(w=w)
    print(run.restore(), flush=True)
    for step in run.steps(10):
        w += 1
        run.drain()
        if step == at and run.attempt == 1:
            exec(end)
print(run.newest, w[0])
"""


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.failure("Lightning-AI/pytorch-lightning#20542", "facebookresearch/fairchem#1051")
def test_every_end_leads_to_the_same_resume_point(tmp_path, how):
    status, out, _ = finish(child(LIFE, tmp_path / "run", ENDS[how]))
    assert status != 0 and out == "0\n"
    assert (status == 75) == (how == "TERM")
    status, out, err = finish(child(LIFE, tmp_path / "run", ENDS[how]))
    assert (status, out) == (0, f"{7 if how == 'TERM' else 6}\n10.a2 10.0\n"), err


def stopped_at(path, at):
    """A life of four steps whose state changes line by line, and SIGTERM at one line of it: (status, lines there are)."""
    passed, a, b = 0, {"n": -1, "m": -1}, numpy.full(4, -1)

    def trace(frame, event, argument):
        nonlocal passed
        if event == "call" and "/unbroken/" not in frame.f_code.co_filename and frame.f_code is not body.__code__:
            return None
        passed += event == "line"
        if event == "line" and passed == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return trace

    def body(run, step):
        a["n"] = step
        b[:2] += 1
        run.log(loss=step)
        b[2:] += 1
        a["m"] = step

    try:
        with unbroken.Run(path, every=2) as run:
            run.attach(a=a, b=b)
            run.restore()
            sys.settrace(trace)
            try:
                for step in run.steps(4):
                    body(run, step)
            finally:
                sys.settrace(None)
    except unbroken.Interrupted as stop:
        return stop.code, passed
    return None, passed


@pytest.mark.parametrize("part", range(4))
@pytest.mark.failure("Lightning-AI/pytorch-lightning#21406", "goodfire-ai/spd#677")
def test_a_signal_at_any_line_leaves_a_state_of_a_boundary(tmp_path, part):
    """At one line after another, of the body and of the package: never half a body, and nothing of it is lost."""
    status, lines = stopped_at(tmp_path / "straight", 0)
    assert status is None and lines > 200
    places, stopped = range(1 + part, lines, max(4, lines // 100)), 0
    for at in places:
        path = tmp_path / str(at)
        status, passed = stopped_at(path, at)
        if passed < at:  # it ended before: the lines of a wait differ from life to life
            assert status is None, (at, passed)
            continue
        stopped += 1
        assert status == 75, at
        found = unbroken.load(path)
        assert found["a"] == {"n": found.step - 1, "m": found.step - 1}, at
        assert found["b"].tolist() == [found.step - 1] * 4, at
    assert stopped > len(places) * 8 // 10


FULL = """
import resource, sys, numpy, unbroken
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))  # a file of 64 KiB and no more
big = numpy.zeros(1 << 20)
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(big=big)
    for step in run.steps(4):
        big += 1
        run.drain()
        if step == 2:
            saving = run.save(wait=False)
        print(step, run.newest, run.health["state"], flush=True)
        if step == 3:
            print(type(saving.durable.exception()).__name__, flush=True)
"""


@pytest.mark.failure("pytorch/pytorch#175248", "rwth-i6/returnn#1829", "google/orbax#605")
def test_storage_that_takes_no_more_ends_nothing_but_the_last_save(tmp_path):
    """Where a write fails in native code there is an error to catch; training goes on, and the file that was begun is removed."""
    status, out, err = finish(child(FULL, tmp_path / "run"))
    assert status == 74 and "StorageFull" in err, err
    assert out.splitlines() == ["0 None green", *(f"{step} None red" for step in (1, 2, 3)), "StorageFull"]
    assert not list((tmp_path / "run").rglob("*.safetensors"))
    more = FULL.replace("(1 << 16, 1 << 16)", "(1 << 26, 1 << 26)")
    status, out, err = finish(child(more, tmp_path / "run"))
    assert status == 0 and out.splitlines()[-2:] == ["3 3.a2 green", "NoneType"], out + err


# -- one history


LOGS = """
import os, signal, sys, unbroken
total = {"loss": 0}
with unbroken.Run(sys.argv[1], every=5) as run:
    run.attach(total=total)
    for step in run.steps(20):
        if step == int(sys.argv[2]):
            run.drain()
            os.kill(os.getpid(), signal.SIGKILL)
        total["loss"] += 1
        run.log(loss=total["loss"], life=run.attempt)
"""


def history(path):
    """step -> metrics, by the rule of docs/format/journal.md: of a step in several lives the newest one counts."""
    found = {}
    for file in sorted((path / "metrics").glob("*.jsonl")):
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            assert entry["attempt"] == int(file.stem[1:]) == entry["life"]
            found[entry["step"]] = entry
    return found


@pytest.mark.failure("wandb/wandb#4482")
def test_the_history_of_metrics_has_one_value_a_step(tmp_path):
    """Steps between a checkpoint and a crash are there twice, each with its life, and the later one counts; none is dropped."""
    lives = (8, 13, 14, -1)
    for at in lives:
        status, _, err = finish(child(LOGS, tmp_path / "run", at))
        assert status == (0 if at < 0 else -signal.SIGKILL), err
    found = history(tmp_path / "run")
    assert [found[step]["loss"] for step in sorted(found)] == list(range(1, 21)) and sorted(found) == list(range(1, 21))
    assert [found[step]["life"] for step in sorted(found)] == sorted(found[step]["life"] for step in found)
    assert len({entry["life"] for entry in found.values()}) > 2
