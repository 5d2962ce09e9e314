"""Samplers of the user: told again up to the position, checked by a hash, drawing from streams of their own."""

import random

import numpy
import pytest
import torch
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, WeightedRandomSampler

import unbroken
from data_sets import in_lives, pull
from helpers import stops_at
from unbroken import StateMismatch
from unbroken.torch import DataLoader


class OwnGenerator:
    """Draws as it goes, from a generator that it keeps from epoch to epoch."""

    def __init__(self, sort):
        self.rng = {"python": random.Random, "numpy": numpy.random.default_rng}[sort](7)

    def __iter__(self):
        for _ in range(10):
            yield int(self.rng.random() * 10)


class Global:
    def __iter__(self):
        order = list(range(10))
        random.shuffle(order)
        for index in order:
            numpy.random.random()
            yield index


class Stateful:
    """Without a generator: each epoch begins where the one before ended."""

    def __init__(self):
        self.start = 0

    def __iter__(self):
        start, self.start = self.start, self.start + 3
        yield from ((start + i) % 10 for i in range(10))

    def state_dict(self):
        return {"start": self.start}

    def load_state_dict(self, state):
        self.start = state["start"]


DATA = list(range(10))
SAMPLERS = {
    "list": lambda: [3, 1, 4, 1, 5, 9, 2, 6, 5, 3],
    "random": lambda: RandomSampler(DATA),
    "own torch": lambda: RandomSampler(DATA, replacement=True, generator=torch.Generator().manual_seed(5)),
    "weighted": lambda: WeightedRandomSampler([1.0 + i for i in range(10)], 10),
    "own python": lambda: OwnGenerator("python"),
    "own numpy": lambda: OwnGenerator("numpy"),
    "global": Global,
    "stateful": Stateful,
    "distributed": lambda: DistributedSampler(DATA, num_replicas=2, rank=1, seed=4),
}


def make(name, workers=0, **more):
    return DataLoader(DATA, 3, seed=2, sampler=SAMPLERS[name](), num_workers=workers, collate_fn=list, **more)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.failure("huggingface/datasets#7901")
def test_every_stop_continues(name):
    want = pull(make(name), 12)
    if name not in ("list", "stateful"):
        first, second = ([batch for epoch, batch in want if epoch == e] for e in (0, 1))
        assert first != second
    for stop in range(1, 12):
        assert in_lives(lambda i: make(name), [stop], 12) == want, stop
    assert in_lives(lambda i: make(name, workers=2 * (i % 2)), [1, 3, 6], 12) == want


@pytest.mark.parametrize("workers", [0, 2])
def test_batch_samplers_and_those_they_hold(workers):
    def one(i):
        inner = RandomSampler(DATA, generator=torch.Generator().manual_seed(9))
        return DataLoader(DATA, batch_sampler=BatchSampler(inner, 4, False), collate_fn=list, num_workers=workers)

    want = pull(one(0), 9)
    assert [len(batch) for _, batch in want[:3]] == [4, 4, 2] and want[0][1] != want[3][1]
    assert in_lives(one, [1, 4, 5], 9) == want
    assert len(one(0)._unbroken_generators()) == 1


def test_keys_that_are_no_numbers():
    data = {"a": 1, "b": 2, "c": 3}
    loader = DataLoader(data, 2, sampler=["c", "a", "b"], collate_fn=list, seed_samples=True)
    assert list(loader) == [[3, 1], [2]]


def test_a_sampler_that_does_not_repeat_itself_is_a_mismatch_and_nothing_is_touched(run_dir):
    class Other(Global):
        """Seeded by the machine."""

        rng = random.SystemRandom()

        def __iter__(self):
            yield from (self.rng.randrange(10) for _ in range(60))

    def loader():
        return DataLoader(DATA, 20, sampler=Other(), collate_fn=list)

    with unbroken.Run(run_dir) as run:
        for _ in run.steps(2, loader()):
            pass
    values = {"w": torch.zeros(3)}
    with unbroken.Run(run_dir) as run:
        with pytest.raises(StateMismatch) as caught:
            run.steps(5, loader())
    assert [name for name, _, _ in caught.value.changed] == ["loader.sampler"]
    assert values["w"].tolist() == [0, 0, 0]


def test_a_sampler_of_another_length_is_a_mismatch():
    first = DataLoader(DATA, 2, sampler=[1, 2, 3, 4], collate_fn=list)
    pull(first, 2)
    second = DataLoader(DATA, 2, sampler=[1, 2], collate_fn=list)
    with pytest.raises(StateMismatch, match="an end"):
        second.load_state_dict(first.state_dict())
    assert second.position == 0


def test_a_sampler_is_not_the_keyed_order():
    with pytest.raises(StateMismatch, match="loader.sampler"):
        DataLoader(DATA, 3, seed=2, collate_fn=list).load_state_dict(make("list").state_dict())


def test_steps_continue_through_a_run_whose_body_draws(run_dir):
    def life(path):
        torch.manual_seed(1), random.seed(1)
        with unbroken.Run(path, every=1) as run:
            return [
                (step, batch, random.random(), torch.rand(1).item()) for step, batch in run.steps(10, make("random"))
            ]

    want, got = life(run_dir / "straight"), []
    for stop in (1, 4, 6):
        with stops_at(stop):
            got += life(run_dir / "stopped")
    assert got + life(run_dir / "stopped") == want
