"""A pinned load in a process of its own: as long as it lives retention leaves its checkpoint, and no longer. Retention is
that of a training that goes on, or `unbroken rm` where none does."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import unbroken
from helpers import child, finish

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cli"))
import program

LOAD = """
import os, signal, sys, numpy, unbroken

class Model:
    w, is_first = numpy.zeros(3), True
    def state_dict(self):
        if self.is_first:  # it is held, and nothing of it is read yet
            print("held", flush=True)
            if sys.stdin.readline() == "die":
                os.kill(os.getpid(), signal.SIGKILL)
        self.is_first = False
        return {"w": self.w}
    def load_state_dict(self, state):
        self.w = state["w"]

model = Model()
found = unbroken.load(sys.argv[1], into={"model": model}, pin=sys.argv[2] == "pin")
print(found.name, model.w.tolist())
"""


def train(path, until, body=lambda step: None, **more):
    model = {"w": np.zeros(3)}
    with unbroken.Run(path, every=1, keep_last=1, **more) as run:
        run.attach(model=model)
        for step in run.steps(until):
            run.drain()
            model["w"] += 1
            body(step)


def loader(path, pin="pin", **more):
    process = child(LOAD, path, pin, stdin=subprocess.PIPE, **more)
    assert process.stdout.readline() == "held\n", process.stderr.read()
    return process


def end(process, word):
    process.stdin.write(word)
    return finish(process)


def killed_load(path):
    status, _, err = end(loader(path), "die")
    assert status == -signal.SIGKILL, err
    assert len(list((path / "pins").iterdir())) == 1


def records(path, kind):
    return sum(f'"type":"{kind}"' in slot.read_text() for slot in (path / "journal").iterdir())


def kept(path):
    return {c["name"]: c["kept_by"] for c in program.unbroken_json("ls", path)[1]["checkpoints"]}


def look_until_beat(path, count):
    """It is kept all the time."""
    (heart,) = (path / "pins").iterdir()
    while int(heart.read_text()) < count:
        assert "pin" in kept(path)["2.a1"]


def test_a_pinned_load_keeps_its_checkpoint_through_many_saves(run_dir, monkeypatch):
    """Longer than a heartbeat that stands still would."""
    monkeypatch.setenv("UNBROKEN_PIN_LASTS", "8s")
    train(run_dir, 2)
    held = loader(run_dir)
    assert kept(run_dir)["2.a1"] == ["last", "pin"]
    train(run_dir, 14, lambda step: look_until_beat(run_dir, step))
    assert kept(run_dir)["2.a1"] == ["pin"]
    status, out, err = end(held, "go on\n")
    assert (status, out) == (0, "2.a1 [2.0, 2.0, 2.0]\n"), err
    assert not list((run_dir / "pins").iterdir())
    train(run_dir, 16)
    assert "2.a1" not in kept(run_dir)


def test_the_pin_of_a_killed_load_lapses_and_not_before(run_dir, monkeypatch):
    train(run_dir, 2)
    killed_load(run_dir)
    train(run_dir, 8)  # which is over long before five minutes
    assert kept(run_dir)["2.a1"] == ["pin"]
    monkeypatch.setenv("UNBROKEN_PIN_LASTS", "1ms")
    train(run_dir, 14)
    assert "2.a1" not in kept(run_dir)
    assert not list((run_dir / "pins").iterdir())


def test_a_load_without_a_pin_loses_its_checkpoint(run_dir):
    train(run_dir, 2)
    read = loader(run_dir, "no pin")
    train(run_dir, 6)
    assert not (run_dir / "pins").exists()
    status, out, err = end(read, "go on\n")
    assert (status, out) == (0, "6.a2 [6.0, 6.0, 6.0]\n"), err


def test_what_begins_from_a_run_that_goes_on_holds_it_meanwhile(run_dir, tmp_path):
    model = {"w": np.zeros(3)}

    def begin(step):
        with unbroken.Run(tmp_path / f"new-{step}", init_from=run_dir) as run:
            run.attach(model=model)
            list(run.steps(1))

    train(run_dir, 3, lambda step: step and begin(step))
    begin(9)  # it was closed: nothing is written into it
    assert records(run_dir, "PIN") == records(run_dir, "UNPIN") == 2
    assert not list((run_dir / "pins").iterdir())


def rm(path, *flags, **env):
    status, said = program.unbroken_json("rm", path, "2", *flags, env=env)
    return said["removed"] if status == 0 else (status, said["error"]["message"])


def test_rm_removes_what_a_dead_load_pinned_once_two_looks_saw_no_heartbeat(run_dir, tmp_path):
    train(run_dir, 2)
    killed_load(run_dir)
    train(run_dir, 4)
    here, there = ({"XDG_STATE_HOME": str(tmp_path / name)} for name in ("here", "there"))
    refused = (78, f"{run_dir}: checkpoint 2.a1 is kept by: pin; if its reader is dead, the same command removes it after 5m 0s")
    assert rm(run_dir, **here) == refused
    assert rm(run_dir, **here) == refused == rm(run_dir, "--force", **here)
    assert rm(run_dir, UNBROKEN_PIN_LASTS="1ms", **there)[0] == 78, "who looks for the first time has seen nothing"
    assert rm(run_dir, UNBROKEN_PIN_LASTS="1ms", HOME="", XDG_STATE_HOME="")[0] == 78
    assert rm(run_dir, UNBROKEN_PIN_LASTS="1ms", HOME="", XDG_STATE_HOME="")[0] == 78, "and wrote nothing down"
    (notes,) = (tmp_path / "there" / "unbroken").iterdir()
    notes.write_text(notes.read_text().replace('"boot":"', '"boot":"x'))
    assert rm(run_dir, UNBROKEN_PIN_LASTS="1ms", **there)[0] == 78
    assert rm(run_dir, UNBROKEN_PIN_LASTS="1ms", **here) == "2.a1"
    assert not list((run_dir / "pins").iterdir()) and not list((tmp_path / "here" / "unbroken").iterdir())


def test_rm_leaves_what_a_live_load_pinned(run_dir, tmp_path):
    env = {"UNBROKEN_PIN_LASTS": "20s"}
    train(run_dir, 2)
    held = loader(run_dir, env=env)
    train(run_dir, 4)
    state = {"XDG_STATE_HOME": str(tmp_path)}
    assert rm(run_dir, **env, **state)[0] == 78
    look_until_beat(run_dir, 3)
    assert rm(run_dir, UNBROKEN_PIN_LASTS="1ms", **state)[0] == 78, "its heart has beaten"
    assert end(held, "go on\n")[0] == 0
    assert rm(run_dir, **state) == "2.a1"


def test_an_export_holds_what_it_reads_where_the_run_may_go_on(run_dir, tmp_path):
    def export(step):
        assert program.unbroken("export", run_dir, "--to", tmp_path / f"{step}.safetensors")[0] == 0

    train(run_dir, 3, lambda step: step and export(step))
    export(9)  # it was closed: nothing is written into it
    assert records(run_dir, "PIN") == records(run_dir, "UNPIN") == 2
    assert not list((run_dir / "pins").iterdir())


CLOSED = """
import sys, numpy, unbroken
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(model={"w": numpy.zeros(3)})
    list(run.steps(3))
print("closed", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("command", ["keep", "rm", "load"])
def test_a_run_stays_closed_whoever_appends_to_it(run_dir, command):
    alive = child(CLOSED, run_dir, stdin=subprocess.PIPE)
    assert alive.stdout.readline() == "closed\n", alive.stderr.read()
    if command == "load":
        unbroken.load(run_dir, pin=True)
    else:
        assert program.unbroken(command, run_dir, "1", *(["--force"] if command == "rm" else []))[0] == 0
    train(run_dir, 4)
    assert finish(alive)[0] == 0
