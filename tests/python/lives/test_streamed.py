"""Snapshots for which there is too little memory: they go through a window, and the training waits for the storage."""

import contextlib
import json
import os
import re
import resource
import signal
import sys
from pathlib import Path

import numpy
import pytest
import torch
import unbroken
from helpers import child, finish

pytestmark = pytest.mark.skipif(sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core")

MIB = 1 << 20
ARENA = "32MiB"  # no window is smaller
WINDOW = "goes through a window of"
STEPS = 6

# A state of 54 MiB and more, of which a part is not contiguous; prints what is left at the end.
TRAINING = """
import hashlib, json, signal, os
import torch, unbroken
def trained(path, steps, arena, at=lambda step: None, **options):
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(1200, 1800), torch.nn.Linear(1800, 1200))
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data = parameter.data.t().contiguous().t()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with unbroken.Run(path, arena=arena, **options) as run:
        run.attach(model=model, optimizer=optimizer)
        for step in run.steps(steps):
            optimizer.zero_grad()
            model(torch.randn(2, 1200)).square().mean().backward()
            optimizer.step()
            at(step)
        stats = run.stats()
    bits = b"".join(p.detach().contiguous().numpy().tobytes() for p in model.parameters())
    return hashlib.sha256(bits).hexdigest(), stats
"""
KILLED = TRAINING + """
def at(step):
    if step == 3 and sys.argv[2] != "0":
        os.kill(os.getpid(), int(sys.argv[2]))
print(json.dumps(trained(sys.argv[1], int(sys.argv[3]), sys.argv[4], at, every=1, busy="wait")))
"""


def lived(path, kill=0, arena=ARENA, status=0):
    """(digest, stats, stderr)"""
    got, out, err = finish(child(KILLED, path, int(kill), STEPS, arena))
    assert got == status, err
    digest, stats = json.loads(out.splitlines()[-1]) if status == 0 else (None, None)
    return digest, stats, err


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    digest, stats, err = lived(tmp_path_factory.mktemp("whole") / "run", arena="1GiB")
    assert WINDOW not in err
    return digest


@pytest.mark.parametrize("kill, status", [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 75)])
def test_a_run_that_is_larger_than_its_arena_goes_on_bit_for_bit(run_dir, undisturbed, kill, status):
    _, _, err = lived(run_dir, kill, status=status)
    assert err.count(WINDOW) == 1, err
    assert re.search(r"warning: a snapshot takes 49\.\d MiB, more than arena=32\.0 MiB: 17\.\d MiB are missing", err), err
    digest, stats, err = lived(run_dir)
    assert f"resumed from {3 if kill == signal.SIGKILL else 4}.a1" in err or "resumed from 2.a1" in err, err
    assert digest == undisturbed
    assert stats["saves_failed"] == 0 and stats["last"]["lazy_bytes"] == 0 and stats["last"]["streamed"]
    assert stats["arena_bytes"] <= 32 * MIB


def test_a_save_takes_no_more_memory_than_its_window(run_dir):
    """Beside the state: a window, the blocks of reading back, and what is imported on the way."""
    code = """
import json, re, numpy, unbroken
def kernel(key):
    with open("/proc/self/status") as lines:
        return int(re.search(rf"^{key}:\\s+(\\d+)", lines.read(), re.MULTILINE).group(1)) << 10
unbroken.save({"a": numpy.zeros(3)}, sys.argv[1] + ".small")
arrays = [numpy.full(32 << 17, i, float) for i in range(8)]
before = kernel("VmRSS")
with unbroken.Run(sys.argv[1], arena=sys.argv[2], every=1) as run:
    run.attach(arrays=arrays)
    for step in run.steps(3):
        arrays[step] += 1
        run.save()
    run.drain()
print(json.dumps(kernel("VmHWM") - before))
"""
    for arena, most in (("64MiB", 64), ("1GiB", 600)):
        status, out, err = finish(child(code, f"{run_dir}-{arena}", arena))
        assert status == 0, err
        extra = json.loads(out) / MIB
        assert extra <= most + 32, f"{extra:.0f} MiB"
        if arena == "1GiB":
            assert extra > 256, "it had all the memory that it wanted"
    assert unbroken.load(f"{run_dir}-64MiB")["arrays"][2][0] == 3


def test_a_save_that_cannot_be_written_fails_and_the_run_goes_on(run_dir, capfd):
    array = numpy.arange(6 << 20, dtype=float)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with unbroken.Run(run_dir, arena=ARENA, every=1) as run:
        run.attach(array=array)
        run.restore()
        for step in range(3):
            array += 1
            resource.setrlimit(resource.RLIMIT_FSIZE, (20 * MIB if step == 1 else limits[0], limits[1]))
            run.step()
            run.drain()
            assert run.newest == ("3.a1" if step == 2 else "1.a1")
    assert run.health["saves_failed"] == 1
    err = capfd.readouterr().err
    assert "save 2.a1 failed" in err and "EFBIG" in err and "training goes on" in err and err.count(WINDOW) == 1
    assert unbroken.load(run_dir)["array"][5] == 8


def test_a_flipped_byte_of_one_is_found(run_dir):
    array = numpy.arange(6 << 20, dtype=float)
    with unbroken.Run(run_dir, arena=ARENA, every=1) as run:
        run.attach(array=array)
        for _ in run.steps(2):
            array += 1
            run.save()
    shard = next((run_dir / "data").glob("step-000000000002.*/*.safetensors"))
    with shard.open("r+b") as file:
        file.seek(33 * MIB)
        byte = file.read(1)[0]
        file.seek(33 * MIB)
        file.write(bytes([byte ^ 4]))
    loaded = unbroken.load(run_dir)
    assert loaded.name == "1.a1" and loaded["array"][5] == 6


GROUP = Path("/sys/fs/cgroup/memory") / f"unbroken-test-{os.getpid()}"


@pytest.fixture
def group():
    """A memory cgroup of version 1, for processes that put themselves into it."""
    try:
        GROUP.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made: {error}")
    yield GROUP
    with contextlib.suppress(OSError):
        GROUP.rmdir()


GROUPED = """
import json, os
from pathlib import Path
import numpy, unbroken
unbroken.save({"a": numpy.zeros(3)}, sys.argv[1] + ".small")
group = Path(sys.argv[2])
(group / "cgroup.procs").write_text(str(os.getpid()))
arrays = [numpy.full(32 << 17, i, float) for i in range(8)]
limit = int((group / "memory.usage_in_bytes").read_text()) + (110 << 20)
(group / "memory.limit_in_bytes").write_text(str(limit))
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(arrays=arrays)
    for step in run.steps(3):
        arrays[step] += 1
        run.save()
print(unbroken.save({"arrays": arrays}, sys.argv[1] + ".functional"))
"""


def test_what_a_cgroup_leaves_is_no_more_than_is_taken(run_dir, group):
    status, _, err = finish(child(GROUPED, run_dir, group))
    assert status == 0, err
    assert re.search(r"warning: a snapshot takes 256\.\d MiB, more than the \d+\.\d MiB of memory that are left", err), err
    for path in (run_dir, f"{run_dir}.functional"):
        assert unbroken.load(path)["arrays"][2][0] == 3
