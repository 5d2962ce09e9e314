"""every="auto" from Python: keywords, what is said, what is measured."""

import os

import numpy as np
import pytest

import unbroken
from unbroken import Misconfigured


@pytest.mark.parametrize("name", ["mtti", "rpo", "every_min", "every_max"])
def test_durations_have_units_and_errors_name_the_keyword(run_dir, name):
    for wrong in (3600, 1.5, True, "", "3600", "soon", "-5min", "10 min", ["1h"]):
        with pytest.raises(Misconfigured, match=name) as caught:
            unbroken.Run(run_dir, **{name: wrong})
        assert caught.value.exit_code == 78
    assert not os.path.exists(run_dir) or not os.listdir(run_dir)
    unbroken.Run(run_dir, **{name: "2h"}).close()


def test_bounds_that_contradict_each_other_are_refused(run_dir):
    for wrong in ({"every_min": "10min", "every_max": "5min"}, {"rpo": "1min", "every_min": "2min"}, {"mtti": "0s"},
                  {"mtti": "1e-12s"}, {"rpo": "1e-12s"}, {"every_max": "1e-10s"}, {"every": "1e-12s"}):
        with pytest.raises(Misconfigured):
            unbroken.Run(run_dir, **wrong)
    for every in (50, "10min"):
        with pytest.raises(Misconfigured, match='rpo: belongs to every="auto"'):
            unbroken.Run(run_dir, every=every, rpo="1h")
    unbroken.Run(run_dir, every=50, mtti="1h").close()


def test_the_environment_says_mtti_instead(run_dir, monkeypatch):
    monkeypatch.setenv("UNBROKEN_MTTI", "often")
    with pytest.raises(Misconfigured, match="UNBROKEN_MTTI"):
        unbroken.Run(run_dir, mtti="4h")
    monkeypatch.setenv("UNBROKEN_MTTI", "4h")
    unbroken.Run(run_dir, mtti="1h").close()


def test_what_a_life_measured_can_be_asked(run_dir):
    with unbroken.Run(run_dir, mtti="1h") as run:
        assert run.stats()["last"] is None
        run.attach(weights=np.zeros(100))
        for _ in run.steps(5):
            pass
        run.drain()
        stats = run.stats()
    assert set(stats) >= {"arena_bytes", "saves", "saves_skipped", "saves_failed", "wait_s", "step_s", "interval_s",
                          "decide_ns", "last"}  # fmt: skip
    assert stats["saves"] == 2 and stats["last"]["step"] == 5
    last = stats["last"]
    assert 0 < last["wait_s"] == last["staged_s"] < last["durable_s"] < last["verified_s"] and last["bytes"] >= 800


def test_the_arithmetic_is_said_at_the_start(run_dir, capfd):
    for n in (3, 6):
        with unbroken.Run(run_dir, mtti="1h") as run:
            run.attach(weights=np.zeros(100))
            for _ in run.steps(n):
                pass
    said = [line for line in capfd.readouterr().err.splitlines() if "auto: every " in line]
    assert "no save was measured yet" in said[0] and "d = " in said[-1]


def test_a_save_never_falls_due_within_accumulated_steps(run_dir):
    with unbroken.Run(run_dir, every_max="1ms", keep_last=50) as run:
        run.attach(weights=np.zeros(100))
        run.restore()
        for _ in range(40):
            run.step(accumulate=4)
        run.drain()
        assert run.stats()["last"]["step"] <= 10
