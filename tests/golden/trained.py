"""A training that is the same every time, for the run that tests/golden keeps: `trained.py DIR STEPS
[RESUME]`.

It needs NumPy only and attaches something of every kind that a state can hold. tools/make_golden.py ran it once with
the version that the folder names; tests/golden/test_trained.py goes on from there with the present one.
"""

import collections
import random
import sys

import numpy as np

import unbroken

EVERY = 3


def make_state():
    """What is attached, as it is before the first step."""
    return {
        "weights": np.zeros((270, 1000), np.float32),  # more than one chunk of sums, and git packs it well
        "table": {
            dtype: np.arange(6).astype(dtype).reshape(2, 3)
            for dtype in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint8", "bool",
                          "complex64", "complex128")
        },
        "tree": {
            "empty": {}, "list": [1, [2.5, None], (3, "four")], "big": 10**30, "negative": -(2**63), "bytes": b"\x00\xff",
            "text": "\u00e9\u4e16\U0001f600", "nan": float("nan"), "infinity": float("-inf"), "zero": -0.0, "a.b\\c": True,
            1: "one", "1": "text one", "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
            "counted": collections.Counter("abca", steps=0), "set": {3, 1, 2}, "scalar": np.float32(0.1), "complex": 1 + 2j,
        },
        "chance": {"python": random.Random(7), "numpy": np.random.default_rng(8)},
    }  # fmt: skip


def train(state, step):
    """One step: a function of the state alone."""
    noise = state["chance"]["numpy"].standard_normal(1000).astype(np.float32)
    state["weights"][step % 4] += noise * np.float32(0.5)
    for array in state["table"].values():
        array[...] = np.roll(array, 1)
    state["tree"]["list"][0] = state["chance"]["python"].randrange(1000)
    state["tree"]["counted"]["steps"] += 1
    return float(np.abs(state["weights"]).mean())


def main(directory, steps, resume="newest"):
    random.seed(5)
    np.random.seed(6)
    state = make_state()
    with unbroken.Run(directory, every=EVERY, keep_last=3, resume=resume) as run:
        run.attach(**state)
        for step in run.steps(steps):
            loss = train(state, step)
            run.state["best"] = min(loss, run.state.get("best", loss))
            run.log(loss=loss)
            run.drain()  # so that the same saves are made, verified and collected in every run of this


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
