"""`max_bandwidth=`: saves at a rate."""

import pytest

import unbroken


@pytest.mark.parametrize("rate", [5, "", "200MB", "fast/s", "0.5B/s"])
def test_that_is_no_rate_is_refused_before_anything_is_made(run_dir, rate):
    with pytest.raises(unbroken.Misconfigured, match="max_bandwidth"):
        unbroken.Run(run_dir, max_bandwidth=rate)
    assert not run_dir.exists()


def test_leaves_a_save_what_it_is(run_dir):
    with unbroken.Run(run_dir, every=1, max_bandwidth="1GB/s") as run:
        for step in run.steps(3):
            run.state["steps"] = list(range(step))
    saved = unbroken.load(run_dir)
    assert saved.step == 3
