"""Data sets of the loader's tests, and lives of loaders that stop and go on."""

import random

import numpy
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from helpers import bits


class Augmented(Dataset):
    """Items that hold their index and a draw of each global generator."""

    def __init__(self, length=23, offset=0):
        self.length, self.offset = length, offset

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        draws = random.random(), numpy.random.random(), torch.rand((), dtype=torch.float64).item()
        return torch.tensor([self.offset + index, *draws], dtype=torch.float64)


class Batched(Augmented):
    """The same, fetched a batch at a time."""

    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Stream(IterableDataset):
    """Numbers that the workers share out, in runs of their own shuffle, with a draw beside each."""

    def __init__(self, length=25):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        worker, count = (0, 1) if info is None else (info.id, info.num_workers)
        mine = list(range(worker, self.length, count))
        random.shuffle(mine)
        for item in mine:
            yield item, random.random(), torch.rand(()).item()


class Remembering(IterableDataset):
    """Numbers with a state; the order of a pass depends on the passes before it, and the state moves at its end."""

    def __init__(self, length=25, draws=True):
        self.length, self.draws, self.place, self.passes = length, draws, 0, 0
        self.read = 0  # items made, however often

    def __iter__(self):
        info = get_worker_info()
        worker, count = (0, 1) if info is None else (info.id, info.num_workers)
        mine = list(range(worker, self.length, count))
        random.Random(self.passes).shuffle(mine)
        while self.place < len(mine):
            self.place += 1
            self.read += 1
            yield mine[self.place - 1], self.passes, numpy.random.random() if self.draws else 0.0
        self.place, self.passes = 0, self.passes + 1

    def state_dict(self):
        return {"place": self.place, "passes": self.passes, "tensor": torch.tensor([self.place])}

    def load_state_dict(self, state):
        assert state["tensor"].item() == state["place"]
        self.place, self.passes = state["place"], state["passes"]


class FromIterator(IterableDataset):
    """Its iterator knows the place, the data set does not."""

    def __init__(self, length=25):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        return Counting(*((0, 1) if info is None else (info.id, info.num_workers)), self.length)


class Counting:
    def __init__(self, first, step, end):
        self.next, self.step, self.end = first, step, end

    def __iter__(self):
        return self

    def __next__(self):
        if self.next >= self.end:
            raise StopIteration
        self.next += self.step
        return self.next - self.step, random.random()

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def pull(loader, count):
    """`count` batches over the ends of epochs, by bits."""
    return [(loader.epoch, bits(batch)) for batch, _ in ((loader._unbroken_next(), 0) for _ in range(count))]


def in_lives(make, stops, total):
    """`total` batches from one loader after another; each one but the first goes on where the one before stopped."""
    got, state = [], None
    for i, stop in enumerate([*stops, total]):
        loader = make(i)
        if state is not None:
            loader.load_state_dict(state)
        got += pull(loader, stop - len(got))
        state = loader.state_dict()
    return got
