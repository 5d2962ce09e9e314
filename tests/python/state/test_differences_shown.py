"""Values in the messages of a mismatch: whole where they are short, else cut."""

import pytest
import torch

import unbroken
from unbroken import StateMismatch
from unbroken._state.tree import encode, text


def test_a_generator_in_place_of_a_counter_takes_one_line(run_dir):
    with unbroken.Run(run_dir) as run:
        run.attach(one=torch.Generator(), two={"count": 3})
        for _ in run.steps(1):
            pass
    with unbroken.Run(run_dir) as run:
        run.attach(one={"count": 3}, two=torch.Generator())
        with pytest.raises(StateMismatch) as refused:
            run.restore()
    assert "bytes" in str(refused.value) and ("two", "dict", "torch.Generator") in refused.value.changed
    assert max(map(len, str(refused.value).splitlines())) < 500


def test_what_is_short_stands_whole():
    assert text(0.1) == "0.1" and text("adam") == "'adam'" and text(None) == "None"
    long = text("x" * 5000)
    assert len(text(encode(10**5000))) < 300  # more digits than Python writes
    assert long.startswith("'xxx") and long.endswith("(5002 characters)") and len(long) < 300


def test_a_number_that_python_does_not_write_is_part_of_a_mismatch(run_dir):
    with unbroken.Run(run_dir) as run:
        run.attach(one={"count": torch.zeros(2)})
        for _ in run.steps(1):
            pass
    with unbroken.Run(run_dir) as run:
        run.attach(one={"count": 10**5000})
        with pytest.raises(StateMismatch, match=r"live .*\(50.. characters\)"):
            run.restore()
