"""What `log` takes, and what it says of the rest."""

import json

import numpy
import pytest

import unbroken
from helpers import records
from unbroken import Misconfigured


TOO_LARGE = [("i", 10**400), ("i", -(10**400)), ("i", numpy.array([10**400]))]


@pytest.mark.parametrize("name, value", [*TOO_LARGE, ("\ud800", 1), ("a\udfff", 1.0), ("", 1), ("step", 1), ("attempt", 1)])
def test_what_no_file_can_hold_is_refused_by_name_and_ends_nothing(run_dir, name, value):
    weights = numpy.zeros(3)
    with unbroken.Run(run_dir) as run:
        run.attach(weights=weights)
        for step in run.steps(2):
            with pytest.raises(Misconfigured, match="^log: "):
                run.log(**{name: value})
            run.log(largest=10**308, step_of_mine=step)
        run.save()
    noted = [record["body"]["metrics"] for record in records(run_dir) if record["type"] == "COMMIT"]
    assert noted[-1] == {"largest": 1e308, "step_of_mine": 1}


def test_what_does_not_fit_into_a_checkpoint_is_said_once(run_dir, capsys):
    with unbroken.Run(run_dir, every=1, keep_best=("zz", "min")) as run:
        run.attach(weights=numpy.zeros(3))
        for _ in run.steps(3):
            run.log(self=5, zz=1, **{f"m{i:03}": i for i in range(200)})
            run.save()
    lines = [line for line in capsys.readouterr().err.splitlines() if "do not fit into a checkpoint, such as m" in line]
    assert len(lines) == 1 and "of 202 metrics" in lines[0] and "metrics/a0001.jsonl only" in lines[0]
    assert [json.loads(line)["self"] for line in (run_dir / "metrics/a0001.jsonl").read_text().splitlines()] == [5, 5, 5]
    assert unbroken.load(run_dir, at="best:zz").step == 1
