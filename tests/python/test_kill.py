"""Real processes that are killed, or meet: what is acknowledged is resumed, and the end is the undisturbed run's."""

import random
import signal
import sys

import pytest
import unbroken
from helpers import bits, child, finish

pytestmark = pytest.mark.skipif(sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core")

TRAIN = """
import sys, numpy, unbroken
n, takeover = int(sys.argv[2]), len(sys.argv) > 3
x = {"w": numpy.zeros((64, 64)), "seen": 0}
with unbroken.Run(sys.argv[1], every=3, takeover=takeover) as run:
    run.attach(x=x)
    for step in run.steps(n):
        x["w"] += numpy.random.standard_normal((64, 64))
        x["seen"] += 1
        run.log(norm=float(abs(x["w"]).sum()))
        print(step, run.newest, flush=True)
"""
SEEDED = "import numpy; numpy.random.seed(5)\n" + TRAIN


def test_killed_at_random_and_continued_to_the_same_end(tmp_path):
    assert finish(child(SEEDED, tmp_path / "straight", 120))[0] == 0
    rng, acknowledged, kills = random.Random(2), 0, 0
    while True:
        process = child(SEEDED, tmp_path / "killed", 120)
        first, stop = None, rng.randrange(2, 40)
        for line in process.stdout:
            step, newest = line.split()
            first = int(step) if first is None else first
            acknowledged = max(acknowledged, 0 if newest == "None" else int(newest.split(".")[0]))
            if int(step) - first >= stop and kills < 8:
                kills += 1
                process.send_signal(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
                break
        for line in process.stdout:
            newest = line.split()[1]
            acknowledged = max(acknowledged, 0 if newest == "None" else int(newest.split(".")[0]))
        status, _, err = finish(process)
        assert status in (0, -signal.SIGKILL, 75), err
        if status == 0:
            break
        with_next = unbroken.load(tmp_path / "killed") if acknowledged else None
        assert with_next is None or with_next.step >= acknowledged
    assert kills > 2
    straight, killed = (unbroken.load(tmp_path / name) for name in ("straight", "killed"))
    assert killed.attempt > 2 and killed.step == 120
    assert bits(killed["x"]) == bits(straight["x"])


def test_two_processes_on_one_directory(tmp_path):
    first = child(TRAIN, tmp_path / "run", 10**6)
    first.stdout.readline()
    status, _, err = finish(child(TRAIN, tmp_path / "run", 10))
    assert status == 78 and str(first.pid) in err.splitlines()[-1]
    second = child(TRAIN, tmp_path / "run", 10**6, "takeover")
    assert second.stdout.readline()
    status, _, err = finish(first)
    assert status == 82 and "attempt" in err.splitlines()[-1]
    second.send_signal(signal.SIGTERM)
    status, _, err = finish(second)
    assert status == 75, err
