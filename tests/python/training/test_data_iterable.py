"""Data sets that are read from their beginning: by their own state, by that of their iterator, or by passing over."""

import pytest

import unbroken
from data_sets import FromIterator, Remembering, Stream, in_lives, pull
from helpers import stops_at
from unbroken import Misconfigured, StateMismatch
from unbroken.torch import DataLoader

KINDS = {"stream": Stream, "state": Remembering, "iterator": FromIterator}
SETTINGS = [(0, False), (2, False), (2, True), (3, False)]


def make(kind, workers, persistent=False, **more):
    options = {"batch_size": 3, "seed": 5, "num_workers": workers, "persistent_workers": persistent} | more
    return DataLoader(KINDS[kind]() if isinstance(kind, str) else kind, **options)


def epochs_of(kind, workers, persistent=False, **more):
    """Three epochs, and in how many batches each ends."""
    loader = make(kind, workers, persistent, **more)
    want = []
    while loader.epoch < 3:
        want += pull(loader, 1)
    return want[:-1]


@pytest.mark.parametrize("workers, persistent", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.failure(
    "meta-pytorch/data#1437", "meta-pytorch/data#1251", "huggingface/datasets#7901", "huggingface/datasets#8145",
)  # fmt: skip
def test_it_goes_on_after_any_batch(kind, workers, persistent, capfd):
    want = epochs_of(kind, workers, persistent)
    per_epoch = [sum(epoch == e for epoch, _ in want) for e in range(3)]
    assert per_epoch[0] == per_epoch[1] == per_epoch[2] >= 9
    each = per_epoch[0]
    every = range(1, len(want)) if workers == 0 else [1, 2, each - 1, each, each + 1, each + 4]
    capfd.readouterr()
    for stop in every:
        assert in_lives(lambda i: make(kind, workers, persistent), [stop], len(want)) == want, stop
    stops = [each + 1, each + 3, each + 4]  # all in one epoch
    assert in_lives(lambda i: make(kind, workers, persistent), stops, len(want)) == want
    assert ("passed over" in capfd.readouterr().err) == (kind == "stream")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["stream", "state"])
def test_per_sample_seeds_and_dropped_tails(kind, workers):
    more = {"seed_samples": True, "drop_last": True}
    want = epochs_of(kind, workers, **more)
    assert len(want) == 3 * (8 if workers == 0 else 8)
    for stop in (3, 8, 9, 13):
        assert in_lives(lambda i: make(kind, workers, **more), [stop], len(want)) == want, stop


def test_items_without_batches():
    want = epochs_of("stream", 2, batch_size=None)
    assert len(want) == 75
    assert in_lives(lambda i: make("stream", 2, batch_size=None), [7, 25, 26], 75) == want


@pytest.mark.failure("mosaicml/streaming#437")
def test_a_state_is_used_and_nothing_is_read_again():
    first = make("state", 0)
    pull(first, 5)
    data = Remembering()
    second = make(data, 0)
    second.load_state_dict(first.state_dict())
    pull(second, 1)
    assert data.read == 3


def test_what_is_passed_over_is_said_once(capfd):
    first = make("stream", 0)
    pull(first, 5)
    second = make("stream", 0)
    second.load_state_dict(first.state_dict())
    capfd.readouterr()
    pull(second, 20)
    said = [line for line in capfd.readouterr().err.splitlines() if "passed over" in line]
    assert said == ["unbroken: loader: Stream has no state_dict: 5 batches of epoch 0 are read again and passed over"]


def test_the_number_of_workers_belongs_to_the_state():
    state = make("stream", 2).state_dict()
    with pytest.raises(StateMismatch) as caught:
        make("stream", 0).load_state_dict(state)
    assert caught.value.changed == [("loader.num_workers", "2", "0")]


def test_a_map_and_an_iterable_are_not_taken_for_each_other():
    with pytest.raises(StateMismatch, match="loader.kind"):
        make("stream", 0).load_state_dict(DataLoader(range(25), 3, seed=5).state_dict())


@pytest.mark.failure("Lightning-AI/litgpt#2313")
def test_the_epoch_is_told():
    class Told(Stream):
        def __iter__(self):
            yield from (self.epoch * 100 + i for i in range(4))

        def set_epoch(self, epoch):
            self.epoch = epoch

    loader = DataLoader(Told(), 2, collate_fn=list)
    assert [batch for _ in range(2) for batch in loader] == [[0, 1], [2, 3], [100, 101], [102, 103]]


@pytest.mark.parametrize("more", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]], "batch_size": 1}])
def test_an_order_from_outside_is_refused(more):
    with pytest.raises(Misconfigured, match="order of its own"):
        make("stream", 0, **more)


def test_a_pass_without_a_batch_is_an_error():
    with pytest.raises(Misconfigured, match="no batch"):
        pull(make(iter([1, 2, 3]), 0, collate_fn=list), 3)


@pytest.mark.parametrize("kind, workers", [("stream", 0), ("state", 2), ("iterator", 0)])
def test_steps_continue_through_a_run(run_dir, kind, workers):
    def life(path):
        with unbroken.Run(path, every=2) as run:
            return [(step, run.epoch, str(batch)) for step, batch in run.steps(22, make(kind, workers))]

    want, got = life(run_dir / "straight"), []
    for stop in (2, 9, 10, 13):
        with stops_at(stop):
            got += life(run_dir / "stopped")
    assert got + life(run_dir / "stopped") == want
