"""A save that falls due while another is in flight."""

import pytest

import unbroken
from unbroken import Misconfigured

BUSY = [({"busy": "queue"}, '"skip" or "wait"'), ({"max_wait": "1s"}, 'busy="wait"'), ({"busy": "wait", "max_wait": 5}, "with its unit")]


@pytest.mark.parametrize("given, said", BUSY)
def test_what_a_busy_save_cannot_be_told(run_dir, given, said):
    with pytest.raises(Misconfigured, match=said):
        unbroken.Run(run_dir, **given)


def test_a_step_can_wait_for_the_save_in_flight(run_dir):
    with unbroken.Run(run_dir, every=1, keep_last=9, busy="wait", max_wait="1min") as run:
        for step in run.steps(6):
            run.state["step"] = step
        assert run.stats()["saves"] >= 5 and run.stats()["saves_skipped"] == 0
