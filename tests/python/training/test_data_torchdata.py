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
        mine = self.share(*(0, 1) if info is None else (info.id, info.num_workers))
        while self.place < len(mine):
            self.place += 1
            yield mine[self.place - 1]
        self.place = 0

    def share(self, worker, count):
        return range(worker, self.length, count)

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


class Uneven(Counted):
    """The first worker reads nearly all; the other one ends long before it."""

    def share(self, worker, count):
        return range(worker, self.length if count == 1 else self.length - 2 if worker == 0 else 3)


def loader(data, workers, shuffle, **more):
    return stateful_dataloader.StatefulDataLoader(
        data, batch_size=3, shuffle=shuffle, num_workers=workers, collate_fn=list, **more
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
    assert got == want
    assert [epoch for _, epoch, *_ in want] == [0] * 4 + [1] * 4 + [2] * 3


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("data, stops", [(Counted, [6]), (Counted, [5, 6, 7]), (Uneven, [2]), (Uneven, [3, 4, 5, 6]), (Uneven, [8, 10])])
def test_a_worker_that_had_ended_does_not_begin_again(run_dir, data, stops, persistent):
    """Also where it had only for its own part: the first worker has 12 items of 23, or 12 of 14."""
    length, batches = (16, 6) if data is Counted else (14, 5)

    def life(path):
        with unbroken.Run(path, every=1) as run:
            feed = loader(data(length), 2, None, persistent_workers=persistent)
            return [(step, run.epoch, batch) for step, batch in run.steps(13, feed)]

    want, got = life(run_dir / "straight"), []
    for stop in stops:
        with stops_at(stop):
            got += life(run_dir / "stopped")
    got += life(run_dir / "stopped")
    assert got == want
    assert [epoch for _, epoch, _ in want] == [step // batches for step in range(13)]


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
