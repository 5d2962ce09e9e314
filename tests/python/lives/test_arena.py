"""The memory that snapshots take: said at start, and capped where that is wanted."""

import re

import pytest
import torch

import unbroken
from unbroken import Misconfigured, StorageUnavailable

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
