"""Small things that several tests share."""

import json
import os
from contextlib import contextmanager

import unbroken


FULL = ("no_space", "StorageFull", "the disk is full", "")


def life(path, steps, body=lambda run, step: None, **more):
    """One life; the yielded steps."""
    seen = []
    with unbroken.Run(path, **more) as run:
        for step in run.steps(steps):
            seen.append(step)
            body(run, step)
    return seen


def records(path):
    """The records of a run's journal, in order."""
    return [json.loads(slot.read_bytes().split(b"\n")[0]) for slot in sorted((path / "journal").iterdir())]


@contextmanager
def stops_at(step):
    """UNBROKEN_STEPS for one life."""
    before = os.environ.get("UNBROKEN_STEPS")
    os.environ["UNBROKEN_STEPS"] = str(step)
    try:
        yield
    finally:
        if before is None:
            del os.environ["UNBROKEN_STEPS"]
        else:
            os.environ["UNBROKEN_STEPS"] = before


def bits(value):
    """A value in a form that compares by bits: tensors and arrays as dtype, shape and bytes."""
    import numpy
    import torch

    if isinstance(value, torch.Tensor):
        from unbroken._state import tensors

        return ("tensor", str(value.dtype), tuple(value.shape), tensors.to_bytes(value))
    if isinstance(value, numpy.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(bits(item) for item in value)
    if isinstance(value, float):
        return value.hex()
    return value


def child(code, *arguments, env=None, **more):
    """Runs Python code in a process of its own, on the core that the tests use."""
    import subprocess
    import sys
    from pathlib import Path

    here = Path(__file__).resolve().parent
    lines = [f"import sys; sys.path[:0] = [{str(here)!r}, {str(here.parents[1] / 'python')!r}]"]
    if sys.modules["unbroken._core"].__name__ == "fake_core":
        lines.append("import fake_core; sys.modules['unbroken._core'] = fake_core")
    return subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines) + "\n" + code, *map(str, arguments)],
        env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def finish(process, timeout=120):
    """(status, stdout, stderr)."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err
