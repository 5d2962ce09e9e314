"""Loaders of others: torchdata's StatefulDataLoader in `steps`, and the order that a loader without state draws."""

import random

import pytest
import torch

import unbroken
from helpers import stops_at

stateful_dataloader = pytest.importorskip("torchdata.stateful_dataloader")


class Counted(torch.utils.data.IterableDataset):
    """Reads its share of the numbers; its state is the place."""

    def __init__(self, length):
        self.length, self.place = length, 0

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        worker, count = (0, 1) if info is None else (info.id, info.num_workers)
        mine = range(worker, self.length, count)
        while self.place < len(mine):
            self.place += 1
            yield mine[self.place - 1]
        self.place = 0

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


def loader(data, workers, shuffle):
    return stateful_dataloader.StatefulDataLoader(
        data, batch_size=3, shuffle=shuffle, num_workers=workers, collate_fn=list
    )


CASES = [(0, True), (2, True), (0, False), (2, None)]


@pytest.mark.parametrize("workers, shuffle", CASES)
@pytest.mark.parametrize("stops", [[2], [4], [5, 6, 7, 8, 9]])
def test_it_continues_and_shifts_no_generator(run_dir, workers, shuffle, stops):
    def life(path):
        torch.manual_seed(1), random.seed(1)
        data = Counted(10) if shuffle is None else list(range(10))
        with unbroken.Run(path) as run:
            return [
                (step, run.epoch, batch, torch.rand(()).item())
                for step, batch in run.steps(11, loader(data, workers, shuffle))
            ]

    want, got = life(run_dir / "straight"), []
    for stop in stops:
        with stops_at(stop):
            got += life(run_dir / "stopped")
    got += life(run_dir / "stopped")
    if shuffle is None:  # resumed at the very end of an epoch, it goes on with the next one and does not say so
        want, got = ([(step, *rest) for step, _, *rest in lives] for lives in (want, got))
        assert got == want
        return
    assert got == want
    assert [epoch for _, epoch, *_ in want] == [0] * 4 + [1] * 4 + [2] * 3


class Drawing:
    """Its order is drawn where an iterator is made, and is part of its state."""

    def __init__(self):
        self.left = []

    def __iter__(self):
        self.left = self.left or torch.randperm(50).tolist()
        while self.left:
            yield self.left.pop()

    def state_dict(self):
        return {"left": self.left}

    def load_state_dict(self, state):
        self.left = state["left"]


@pytest.mark.parametrize("make", [Drawing, lambda: loader(range(50), 0, True)])
def test_epochs_differ_where_the_loop_draws_nothing(run_dir, make):
    torch.manual_seed(1)
    with unbroken.Run(run_dir) as run:
        items = {}
        for _, batch in run.steps(100 if make is Drawing else 34, make()):
            items.setdefault(run.epoch, []).append(batch)
    assert len(items[0]) == len(items[1]) and items[0] != items[1]
