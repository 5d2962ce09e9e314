"""The data loader: exact at every batch of several epochs, drawing from no generator."""

import inspect
import itertools
import random

import numpy
import pytest
import torch

import unbroken
from helpers import stops_at
from unbroken import Misconfigured, StateMismatch
from unbroken.torch import DataLoader

SHAPES = list(itertools.product([1, 7, 12], [1, 3, 4, 12], [False, True], [False, True]))
SHAPES = [(n, b, s, d) for n, b, s, d in SHAPES if not (d and b > n)]


def make(length, batch_size, shuffle, drop_last, **more):
    return DataLoader(list(range(length)), batch_size, shuffle, seed=3, drop_last=drop_last, collate_fn=list, **more)


def straight(*shape, epochs=3):
    loader = make(*shape)
    return [(loader.epoch, batch) for _ in range(epochs) for batch in loader]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.failure("huggingface/accelerate#3242", "meta-pytorch/data#1437", "mosaicml/streaming#869")
def test_every_stop_of_three_epochs_continues_exactly(shape):
    want = straight(*shape)
    assert len(want) == 3 * len(make(*shape))
    for stop in range(len(want) + 1):
        first = make(*shape)
        got = [(first._unbroken_next(), first.epoch)[::-1] for _ in range(stop)]
        state = first.state_dict()
        second = make(*shape)
        second.load_state_dict(state)
        assert second.state_dict() == state
        got += [(second._unbroken_next(), second.epoch)[::-1] for _ in range(len(want) - stop)]
        assert got == want, stop


@pytest.mark.parametrize("shape", SHAPES)
def test_each_epoch_holds_every_item_once(shape):
    length, batch_size, shuffle, drop_last = shape
    loader, orders = make(*shape), []
    for _ in range(3):
        batches = list(loader)
        assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
        items = [item for batch in batches for item in batch]
        assert len(items) == (length // batch_size * batch_size if drop_last else length)
        assert len(set(items)) == len(items)
        orders.append(items)
    if shuffle and length == 12:
        assert len({tuple(order) for order in orders}) == 3
    elif not shuffle:
        assert orders[0] == sorted(orders[0]) and orders[0] == orders[2]


def test_a_loaded_state_is_taken_up_by_the_next_iterator_in_plain_loops():
    want = straight(12, 5, True, False)
    first, got = make(12, 5, True, False), []
    for batch in first:
        got.append((first.epoch, batch))
        if len(got) == 2:
            break
    second = make(12, 5, True, False)
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        got += [(second.epoch, batch) for batch in second]
    assert got == want


@pytest.mark.parametrize("stops", [[1], [3], [4], [5], [3, 4, 8, 9], list(range(1, 12))])
@pytest.mark.failure(
    "huggingface/accelerate#3242", "Lightning-AI/pytorch-lightning#19815", "Lightning-AI/pytorch-lightning#850",
    "facebookresearch/fairseq2#1042", "verl-project/verl#7401", "Lightning-AI/litgpt#2313",
)  # fmt: skip
def test_steps_continues_at_every_batch_and_epoch_edge(run_dir, stops):
    def life(path):
        with unbroken.Run(path, every=2) as run:
            return [(step, run.epoch, tuple(batch)) for step, batch in run.steps(12, make(10, 3, True, False))]

    want, got = life(run_dir / "straight"), []
    for stop in stops:
        with stops_at(stop):
            got += life(run_dir / "killed")
    got += life(run_dir / "killed")
    assert got == want
    assert [epoch for _, epoch, _ in want] == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.failure("huggingface/transformers#5605")
def test_a_window_of_batches_that_was_begun_comes_again(run_dir):
    """Four batches make a step: a life that ends among them is followed by one that takes all four."""
    def life(path, count=None):
        loader, seen = make(30, 3, True, False), []
        with unbroken.Run(path, every=1) as run:
            run.attach(loader=loader)
            step = began = run.restore()
            while True:
                for batch in loader:
                    seen.append((step, loader.epoch, batch))
                    step = run.step(accumulate=4)
                    run.drain()  # a save that is in flight lets the next one be skipped
                    if len(seen) == count or step == 6:
                        return began, seen

    _, want = life(run_dir / "straight")
    assert len(want) == 24 and [epoch for _, epoch, _ in want] == [0] * 10 + [1] * 10 + [2] * 4
    for count in range(1, 23):
        _, first = life(run_dir / str(count), count)
        began, second = life(run_dir / str(count))
        assert [entry for entry in first if entry[0] < began] + second == want, count
        assert began == count // 4


def test_it_draws_from_no_global_generator(run_dir):
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    before = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    loader = DataLoader(torch.arange(20), 3, True)
    with unbroken.Run(run_dir) as run:
        for _ in run.steps(10, loader):
            pass
    assert (random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


def test_batches_are_collated_as_torch_does():
    data = torch.utils.data.TensorDataset(torch.arange(6.0), torch.arange(6))
    x, y = next(iter(DataLoader(data, 4)))
    assert x.tolist() == [0, 1, 2, 3] and y.dtype == torch.int64


@pytest.mark.parametrize(
    "change", [{"batch_size": 4}, {"shuffle": False}, {"drop_last": True}, {"seed": 9}, {"length": 11}]
)
@pytest.mark.failure("facebookresearch/fairseq#5344", "k2-fsa/icefall#548")
def test_other_settings_are_a_mismatch_before_anything_is_written(run_dir, change):
    settings = {"length": 10, "batch_size": 3, "shuffle": True, "drop_last": False, "seed": 3}

    def loader(length, batch_size, shuffle, **more):
        return DataLoader(range(length), batch_size, shuffle, collate_fn=list, **more)

    with unbroken.Run(run_dir) as run:
        for _ in run.steps(5, loader(**settings)):
            pass
    with unbroken.Run(run_dir) as run:
        with pytest.raises(StateMismatch) as caught:
            run.steps(9, loader(**{**settings, **change}))
        ((name, saved, live),) = caught.value.changed
        key = next(iter(change))
        assert (name, saved, live) == (f"loader.{key}", repr(settings[key]), repr(change[key]))


@pytest.mark.failure("facebookresearch/fairseq#5344")
def test_a_position_behind_the_end_is_refused():
    loader = make(10, 3, False, False)
    for bad in ({"position": 5}, {"position": -1}, {"epoch": -1}):
        with pytest.raises(StateMismatch):
            loader.load_state_dict({**loader.state_dict(), **bad})
    assert loader.position == 0


@pytest.mark.parametrize(
    "more",
    [
        {"batch_size": 0}, {"batch_size": 2.0}, {"seed": -1}, {"seed": 2**64}, {"num_workers": -1},
        {"num_workers": True}, {"prefetch_factor": 2}, {"persistent_workers": True}, {"timeout": 3},
        {"num_workers": 1, "prefetch_factor": 0}, {"fingerprint": [1]}, {"sampler": [0], "shuffle": True},
        {"batch_sampler": [[0]], "batch_size": 2}, {"batch_sampler": [[0]], "drop_last": True},
        {"batch_size": None, "drop_last": True}, {"generator": torch.Generator()}, {"in_order": False},
    ],
)  # fmt: skip
def test_nonsense_is_refused_by_name(more):
    with pytest.raises(Misconfigured, match=list(more)[-1]):
        DataLoader([1], **more)


def test_an_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError, match="out_of_order"):
        DataLoader([1], out_of_order=False)


def test_every_keyword_of_torchs_loader_is_known():
    theirs = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
    assert theirs.keys() <= inspect.signature(DataLoader.__init__).parameters.keys()
    plain = {name: one.default for name, one in theirs.items() if one.default is not one.empty}
    assert [batch.tolist() for batch in DataLoader([1, 2], **plain)] == [[1], [2]]
    given = DataLoader([1], pin_memory_device="cuda")
    assert given._fetcher.pin_memory_device == "cuda"


def test_the_state_of_an_earlier_version_fits():
    loader = make(10, 3, True, False)
    loader.load_state_dict({"batch_size": 3, "drop_last": False, "shuffle": True, "seed": 3, "length": 10,
                            "epoch": 1, "position": 2})  # fmt: skip
    assert loader._unbroken_next() == straight(10, 3, True, False)[6][1]


@pytest.mark.failure("facebookresearch/fairseq2#1042", "verl-project/verl#7401")
def test_an_empty_epoch_is_an_error_and_not_an_endless_loop(run_dir):
    with unbroken.Run(run_dir) as run, pytest.raises(Misconfigured, match="no batch"):
        next(run.steps(3, DataLoader([1], 2, drop_last=True)))


@pytest.mark.failure("mosaicml/streaming#437")
def test_an_iterable_without_state_is_refused(run_dir):
    with unbroken.Run(run_dir) as run, pytest.raises(Misconfigured, match="state_dict"):
        run.steps(3, [1, 2, 3])


class Foreign:
    """Somebody else's loader: it draws when an iterator is made, and its state at the end of an epoch is the end."""

    def __init__(self, length):
        self.length, self.position = length, 0

    def __iter__(self):
        torch.randint(9, (1,)), random.random()
        return self._items()

    def _items(self):
        while self.position < self.length:
            self.position += 1
            yield self.position - 1
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


@pytest.mark.parametrize("stops", [[2], [4], [5], [3, 4, 7, 8], list(range(1, 11))])
@pytest.mark.failure("verl-project/verl#7401", "huggingface/transformers#17055")
def test_a_foreign_loader_continues_and_its_iterators_shift_no_generator(run_dir, stops):
    def life(path):
        torch.manual_seed(1), random.seed(1)
        with unbroken.Run(path) as run:
            return [
                (step, run.epoch, batch, random.random(), torch.rand(1).item())
                for step, batch in run.steps(11, Foreign(4))
            ]

    want, got = life(run_dir / "straight"), []
    for stop in stops:
        with stops_at(stop):
            got += life(run_dir / "killed")
    got += life(run_dir / "killed")
    assert got == want
    assert [epoch for _, epoch, *_ in want] == [0] * 4 + [1] * 4 + [2] * 3


@pytest.mark.parametrize("stop", [2, 4, 5, 6, 8])
def test_phases_with_loaders_of_their_own(run_dir, stop):
    def life(path):
        seen = []
        with unbroken.Run(path) as run:
            for step, batch in run.steps(5, make(10, 3, True, False)):
                seen.append((step, run.epoch, batch))
            for step, batch in run.steps(9, make(8, 3, True, False)):
                seen.append((step, run.epoch, batch))
        return seen

    want = life(run_dir / "straight")
    with stops_at(stop):
        got = life(run_dir / "killed")
    assert got + life(run_dir / "killed") == want
    assert len(want) == 9
