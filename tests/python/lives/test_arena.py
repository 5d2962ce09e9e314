"""The memory that snapshots take: said at start, and capped where that is wanted."""

import json
import re
import sys
from types import SimpleNamespace

import pytest
import torch

import unbroken
from helpers import child, finish
from unbroken import Misconfigured, StorageUnavailable
from unbroken._start.memory import SnapshotMemory

needs_core = pytest.mark.skipif(sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core")
MIB = 1 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def training(directory, optimizer_class, steps, **options):
    """The most memory that snapshots took, in bytes."""
    model = torch.nn.Linear(256, 256)
    optimizer = optimizer_class(model.parameters())
    with unbroken.Run(directory, every=1, **options) as run:
        run.attach(model=model, optimizer=optimizer)
        for _ in run.steps(steps):
            model(torch.ones(1, 256)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            run.save()
        return run.stats()["arena_bytes"]


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, lambda p: torch.optim.SGD(p, momentum=0.9), torch.optim.SGD])
def test_says_at_start_how_large_a_snapshot_will_be(run_dir, capfd, optimizer):
    held = training(run_dir, optimizer, 2)
    said = re.findall(r"arena: ([\d.]+) (\w+) a snapshot", capfd.readouterr().err)
    number, unit = said[0]
    assert len(said) == 1 and held == pytest.approx(float(number) * UNITS[unit], rel=0.15)
    training(run_dir, optimizer, 3)
    assert re.findall(r"arena: ([\d.]+) (\w+) a snapshot", capfd.readouterr().err) == said, "with the state that is there"


def test_says_so_where_it_grows(run_dir, capfd):
    with unbroken.Run(run_dir, every=1) as run:
        for step in run.steps(3):
            run.state["more"] = torch.ones(1 << (18 + step))
    assert "arena: " in capfd.readouterr().err


def test_no_snapshot_is_larger_than_the_cap(run_dir, capfd):
    with pytest.raises(StorageUnavailable, match="more than arena=100.0 KiB"):
        training(run_dir, torch.optim.SGD, 3, arena="100KiB")
    assert "save 1.a1 failed: a snapshot takes" in capfd.readouterr().err
    assert unbroken.Run(run_dir).newest is None


def test_a_cap_that_holds_one_snapshot_makes_the_next_wait_for_it(tmp_path):
    assert training(tmp_path / "run", torch.optim.SGD, 5, arena="400KiB") <= 400 << 10


@pytest.mark.parametrize("arena", [8, "8", "much", "-1GiB", ""])
def test_a_cap_that_is_no_size_is_refused(run_dir, arena):
    with pytest.raises(Misconfigured, match="arena"):
        unbroken.Run(run_dir, arena=arena)


FIRST_SAVE = """
import json, re, sys
import numpy, unbroken

def rss():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) << 10

weights = numpy.ones(64 << 17)  # 64 MiB
with unbroken.Run(sys.argv[1]) as run:
    run.attach(weights=weights)
    for step in run.steps(2):
        if step == 0:
            while run.stats()["arena_bytes"] < weights.nbytes:
                pass
            before, held = rss(), run.stats()["arena_bytes"]
        else:
            print(json.dumps([held, rss() - before]))
"""


@needs_core
def test_the_first_save_takes_no_memory_any_more(run_dir):
    status, out, err = finish(child(FIRST_SAVE, run_dir), timeout=600)
    assert status == 0, err
    held, grown = json.loads(out)
    assert held >= 64 * MIB and grown < 16 * MIB, "in pages that it is the first to touch"


class Own(torch.optim.Adam):
    """Nobody knows what it keeps."""


def reserved(directory, optimizer_class):
    """What is asked for ahead of the first save: (bytes, of these what the optimizer is going to take as well)."""
    asked = []
    model = torch.nn.Linear(512, 512)
    with unbroken.Run(directory) as run:
        run.attach(model=model, optimizer=optimizer_class(model.parameters()))
        memory = SnapshotMemory()
        memory.expect(run._attached)
        for _ in range(2):  # once in a life
            memory.take_ahead(SimpleNamespace(reserve=lambda *sizes: asked.append(sizes)))
    return asked, sum(p.nbytes for p in model.parameters())


def test_takes_memory_ahead_for_what_an_optimizer_is_going_to_keep(run_dir):
    [(nbytes, needed_besides)], parameters = reserved(run_dir, torch.optim.Adam)
    assert 3 * parameters < nbytes < 3.1 * parameters and needed_besides == 2 * parameters


def test_takes_none_ahead_where_the_first_snapshot_may_be_any(run_dir):
    assert reserved(run_dir, Own)[0] == []


ENDS = """
import os, sys
import numpy, unbroken
run = unbroken.Run(sys.argv[1])
run.attach(weights=numpy.zeros(256 << 17))
next(iter(run.steps(1)))
if sys.argv[2] == "fork" and os.fork() == 0:
    run.stats()  # inert, as the rest of it
    sys.exit(0)
if sys.argv[2] == "fork":
    assert os.wait()[1] == 0
run.close()
"""


@needs_core
@pytest.mark.parametrize("how", ["close", "fork"])
def test_a_run_can_end_and_fork_while_its_memory_is_taken(run_dir, how):
    status, _, err = finish(child(ENDS, run_dir, how), timeout=600)
    assert status == 0, err


def test_lack_of_memory_is_no_matter_of_the_storage(run_dir):
    with pytest.raises(StorageUnavailable) as failed:
        training(run_dir, torch.optim.SGD, 1, arena="100KiB")
    assert failed.value.next_command == "free -h; cat /proc/self/cgroup"
