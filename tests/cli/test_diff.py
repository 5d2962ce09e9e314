"""diff: what is no difference of bytes, and is one all the same."""

from program import train, unbroken, unbroken_json

KINDS = """
import sys, numpy as np, torch, unbroken.torch
one = torch.ones(2)
before = {"kind": one.clone(), "tied": [one, one], "plain": np.ones(2), "tensor": 7, "int": 1.0, "zero": 0.0, "text": 1,
          "nan": float("nan"), "same": one}
after = {"kind": np.ones(2, np.float32), "tied": [one, one.clone()], "plain": 7, "tensor": np.ones(2), "int": 1, "zero": -0.0, "text": "1",
         "nan": "NaN", "same": one}
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(x=np.zeros(1))
    for step in run.steps(2):
        run.state.clear()
        run.state.update(before if step == 0 else after)
        run.save()
"""


def test_diff_tells_kinds_ties_and_values_that_read_alike(tmp_path):
    train(tmp_path / "run", code=KINDS)
    status, said = unbroken_json("diff", tmp_path / "run", "1", "2")
    assert status == 1 and said["only_in_a"] == said["only_in_b"] == []
    digests = {t["name"]: t["digest"] for t in unbroken_json("show", tmp_path / "run", "1")[1]["tensors"]}
    f32, f64 = digests["state.same"], digests["state.plain"]
    assert {c["name"].removeprefix("state."): (c["a"], c["b"]) for c in said["changed"]} == {
        "kind": (f"tensor F32[2] {f32}", f"array F32[2] {f32}"),
        "tied.1": (f"{f32} (the same as state.tied.0)", f32),
        "plain": (f"F64[2] {f64}", 7),
        "tensor": (7, f"F64[2] {f64}"),
        "int": (1.0, 1),
        "zero": (0.0, 0.0),
        "text": (1, "1"),
        "nan": ({"float": "7ff8000000000000"}, "NaN"),
    }
    out = unbroken("diff", tmp_path / "run", "1", "2")[1]
    for line in ('~ state.text  1 -> "1"', "~ state.int  1.0 -> 1", "~ state.zero  0.0 -> -0.0", '-> "NaN"'):
        assert line in out
