"""Workers: the order and the augmentation are those of one process, whatever stops in between."""

import itertools
import os
import random
import select
import signal
import subprocess
import sys
import threading

import numpy
import pytest
import torch

import unbroken
from data_sets import Augmented, Batched, in_lives, pull
from helpers import child, finish, stops_at
from unbroken import StateMismatch
from unbroken.torch import DataLoader, sources
from unbroken.torch.seeds import derive, seed_all

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:'pin_memory' argument")


def make(workers, dataset=None, **more):
    options = {"batch_size": 4, "shuffle": True, "seed": 3, "seed_samples": True, "num_workers": workers} | more
    return DataLoader(dataset or Augmented(), **options)


@pytest.fixture(scope="module")
def want():
    return pull(make(0), 18)  # three epochs of six batches, the last of three items


@pytest.mark.parametrize(
    "workers, more",
    [(1, {}), (2, {"persistent_workers": True}), (4, {"prefetch_factor": 3}), (2, {"pin_memory": True})],
)
@pytest.mark.failure("starVLA/starVLA#351")
def test_augmentation_is_alike_for_any_number_of_workers(want, workers, more):
    assert pull(make(workers, **more), 18) == want


def test_a_batch_fetch_of_the_data_set_is_seeded_by_item_too(want):
    assert pull(make(0, Batched()), 18) == want


@pytest.mark.failure("fangchangma/sparse-to-dense.pytorch#19")
def test_augmentation_differs_by_item_epoch_and_seed(want):
    draws = [row for _, batch in want for row in numpy.frombuffer(batch[3], numpy.float64).reshape(-1, 4)[:, 1]]
    assert len(set(draws)) == len(draws) == 3 * 23
    assert pull(make(0, seed=4), 18) != want


def test_what_collating_draws_is_alike_too():
    def collate(items):
        return torch.stack(items) * torch.rand(()) + random.random()

    assert pull(make(2, collate_fn=collate), 8) == pull(make(0, collate_fn=collate), 8)


WORKERS = [0, 1, 2, 4]


@pytest.mark.parametrize("case", range(20))
@pytest.mark.failure("meta-pytorch/data#1251", "starVLA/starVLA#351")
def test_lives_with_other_numbers_of_workers(want, case):
    rng = random.Random(case)
    stops = sorted(rng.sample(range(1, 18), 2) if case % 2 else rng.sample(range(7, 12), 3))  # all in one epoch
    workers = rng.choices([0, 0, 1, 2, 2, 4], k=4)
    persistent = rng.random() < 0.5
    got = in_lives(
        lambda i: make(workers[i], persistent_workers=bool(workers[i]) and persistent), stops, 18
    )
    assert got == want, (stops, workers)


def ids(workers):
    return make(workers, range(23), collate_fn=list)


def ways_to_stop(epoch, count):
    """Each choice of so many places in an epoch of six batches, both edges among them."""
    return itertools.combinations(range(6 * epoch, 6 * epoch + 7), count)


def test_hundreds_of_ways_to_stop_up_to_three_times_in_an_epoch():
    want = pull(ids(0), 18)
    within = [stops for epoch in range(3) for count in (1, 2, 3) for stops in ways_to_stop(epoch, count)]
    across = [*itertools.combinations(range(1, 18), 2)]
    rng = random.Random(1)
    thrice = [tuple(6 * epoch + at for epoch in range(3) for at in sorted(rng.sample(range(6), 3))) for _ in range(100)]
    ways = {*within, *across, *thrice}
    assert len(ways) > 300 and sum(len(stops) >= 3 for stops in ways) > 200
    for stops in ways:
        assert in_lives(lambda i: ids(0), stops, 18) == want, stops


@pytest.mark.parametrize("epoch", range(3))
@pytest.mark.parametrize("places", [(0, 1, 2), (2, 3, 4), (4, 5, 6), (0, 3, 6), (1, 3, 5)])
def test_three_stops_in_an_epoch_with_workers(epoch, places):
    stops = [6 * epoch + place for place in places]
    want = pull(ids(0), 18)
    assert in_lives(lambda i: ids(2), stops, 18) == want


@pytest.mark.failure("mosaicml/streaming#619")
def test_the_position_is_what_was_handed_out_not_what_was_prefetched():
    loader = make(2, prefetch_factor=2)
    pull(loader, 1)
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (0, 1)
    other = make(0)
    other.load_state_dict(state)
    assert other.state_dict() | {"num_workers": 2} == state


@pytest.mark.failure("determined-ai/determined#6708")
def test_a_state_loaded_after_the_workers_were_made_counts(want):
    first = make(2)
    pull(first, 8)
    second = make(2, persistent_workers=True)
    pull(second, 2)  # its workers are there, and have read ahead
    second.load_state_dict(first.state_dict())
    assert pull(second, 10) == want[8:]


@pytest.mark.failure("huggingface/datasets#7447")
def test_a_resumed_epoch_is_followed_by_whole_ones(want):
    first = make(2, persistent_workers=True)
    pull(first, 5)
    second = make(2, persistent_workers=True)
    second.load_state_dict(first.state_dict())
    assert [len(list(second)) for _ in range(3)] == [1, 6, 6]


@pytest.mark.failure("open-mmlab/mmengine#1205", "openvdb/fvdb-reality-capture#159")
def test_only_what_is_left_of_an_epoch_is_read():
    read = []

    class Counted(Augmented):
        def __getitem__(self, index):
            read.append(index)
            return super().__getitem__(index)

    loader = make(0, Counted(10_000), fingerprint="counted")
    loader.load_state_dict(make(0, Counted(10_000), fingerprint="counted").state_dict() | {"position": 2400})
    pull(loader, 1)
    assert len(read) == 4


@pytest.mark.failure("huggingface/transformers#17055")
def test_the_trainers_generators_are_not_shifted():
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    before = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    for workers in (0, 2):
        pull(make(workers), 7)
        pull(make(workers, shuffle=False, sampler=torch.utils.data.RandomSampler(range(23))), 7)
    assert (random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


@pytest.mark.failure("fangchangma/sparse-to-dense.pytorch#19")
def test_without_per_sample_seeds_a_resumed_worker_does_not_repeat_its_draws():
    first = make(1, seed_samples=False)
    batches = pull(first, 3)
    second = make(1, seed_samples=False)
    second.load_state_dict(first.state_dict())
    draws = [numpy.frombuffer(b[3], numpy.float64).reshape(-1, 4)[:, 1] for _, b in batches + pull(second, 3)]
    draws = numpy.concatenate(draws).tolist()
    assert len(set(draws)) == len(draws)


def resumed(make_one, stop, capfd):
    """What is said where a loader goes on after some batches."""
    first, second = make_one(), make_one()
    pull(first, stop)
    assert "drawn" not in capfd.readouterr().err
    second.load_state_dict(first.state_dict())
    pull(second, 9)
    return capfd.readouterr().err


def test_a_resume_says_once_that_draws_in_workers_are_others(capfd):
    said, drawing = "give DataLoader seed_samples=True", {"seed_samples": False}
    assert resumed(lambda: make(2, **drawing), 3, capfd).count(said) == 1
    assert resumed(lambda: make(2, fingerprint="mine", **drawing), 3, capfd).count(said) == 1
    assert resumed(lambda: make(2, persistent_workers=True, **drawing), 6, capfd).count(said) == 1
    silent = [(2, None, 3, {}), (0, None, 3, drawing), (2, None, 6, drawing), (2, list(range(23)), 3, drawing)]
    for workers, data, stop, more in silent:
        assert said not in resumed(lambda: make(workers, data, **more), stop, capfd), (workers, data, stop)


def test_an_item_that_cannot_be_read_comes_again(want):
    class Failing(Augmented):
        broken = True

        def __getitem__(self, index):
            if index == 5 and self.broken:
                raise OSError("no such item")
            return super().__getitem__(index)

    data = Failing()
    loader, got = make(0, data, fingerprint="x"), []
    while len(got) < 18:
        try:
            got += pull(loader, 1)
        except OSError:
            data.broken = False
    assert got == want


def test_a_data_set_that_raises_stop_iteration_does_not_end_the_epoch():
    class Ending(Augmented):
        def __getitem__(self, index):
            raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        pull(make(0, Ending()), 1)


def test_no_batches_but_items():
    want = [pull(make(workers, batch_size=None), 50) for workers in (0, 2)]
    assert want[0] == want[1]
    assert in_lives(lambda i: make(2 * (i % 2), batch_size=None), [10, 23, 40], 50) == want[0]


class Inspecting(torch.utils.data.Dataset):
    def __init__(self):
        self.opened = None

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return (index, self.opened, torch.utils.data.get_worker_info().dataset is self)


def open_in_worker(worker):
    torch.utils.data.get_worker_info().dataset.opened = f"by {worker}"


def test_the_users_worker_init_fn_sees_the_users_data_set():
    loader = DataLoader(Inspecting(), 2, num_workers=2, collate_fn=list, worker_init_fn=open_in_worker)
    items = [item for batch in loader for item in batch]
    assert items == [(i, f"by {i // 2 % 2}", True) for i in range(6)]


def test_workers_of_another_start_method(want):
    loader = make(1, multiprocessing_context="spawn", fingerprint="x")
    assert pull(loader, 2) == want[:2]


# -- what the data is known by


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.failure("k2-fsa/icefall#548")
def test_another_content_of_the_same_length_is_a_mismatch(run_dir, workers):
    with unbroken.Run(run_dir) as run:
        for _ in run.steps(3, make(0)):
            pass
    with unbroken.Run(run_dir) as run, pytest.raises(StateMismatch) as caught:
        run.steps(9, make(workers, Augmented(offset=1)))
    assert [name for name, _, _ in caught.value.changed] == ["loader.fingerprint"]
    assert caught.value.exit_code == 65


def test_the_users_fingerprint_counts_and_is_in_the_provenance(run_dir):
    def loader(fingerprint):
        return DataLoader([object()] * 9, 2, collate_fn=len, fingerprint=fingerprint)

    with unbroken.Run(run_dir) as run:
        for _ in run.steps(3, loader("2024-01-01")):
            pass
    core = unbroken._native.core
    provenance = core.Reader(str(run_dir), "newest").saved.provenance
    assert provenance["data.loader"] == "9 items, fingerprint 2024-01-01"
    with unbroken.Run(run_dir) as run, pytest.raises(StateMismatch) as caught:
        run.steps(4, loader("2024-01-02"))
    assert caught.value.changed == [("loader.fingerprint", "2024-01-01", "2024-01-02")]
    with unbroken.Run(run_dir) as run:
        assert [step for step, _ in run.steps(4, loader(None))] == [3]  # nothing to compare


def test_items_that_are_not_plain_are_said_once(capfd):
    class Own(Augmented):
        draw = random.Random(4)

        def __getitem__(self, index):
            return self.draw.random()

    for data in ([object()] * 9, Own()):
        loader = DataLoader(data, 2, collate_fn=list)
        pull(loader, 2), loader.state_dict(), pull(loader, 9)
        assert loader.state_dict()["fingerprint"] is None
        assert capfd.readouterr().err.count("fingerprint=") == 1
    pull(make(0), 1)
    assert capfd.readouterr().err == ""


def test_the_trainer_opens_nothing_that_its_workers_open():
    class Opening(Augmented):
        def __getitem__(self, index):
            assert torch.utils.data.get_worker_info() is not None
            return super().__getitem__(index)

    assert make(2, Opening()).state_dict()["fingerprint"] == make(0).state_dict()["fingerprint"]


# -- signals

STOPPED = """
import sys, torch, unbroken
from unbroken.torch import DataLoader, sources
from unbroken.torch.seeds import derive, seed_all

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        return index

with unbroken.Run(sys.argv[1], every=1000) as run:
    loader = DataLoader(Slow(), 2, num_workers=2, persistent_workers=True)
    for step, batch in run.steps(1000, loader):
        workers = [worker.pid for worker in loader._iterator._workers]
        if step == 3:
            print(*workers, flush=True)
            sys.stdin.readline()
"""


@pytest.mark.failure("GaTech-RL2/EgoVerse#621")
def test_a_signal_to_the_whole_group_saves_once_and_ends_with_75(tmp_path):
    process = child(STOPPED, tmp_path / "run", start_new_session=True, stdin=subprocess.PIPE)
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGTERM)
    status, _, err = finish(process)
    assert status == 75, err
    assert err.count("stopped by SIGTERM") == 1 and "saved as 4.a1" in err and "killed by signal" not in err
    assert unbroken.load(tmp_path / "run").step == 4


def test_workers_end_with_a_killed_trainer(tmp_path):
    process = child(STOPPED, tmp_path / "run", stdin=subprocess.PIPE)
    workers = [int(pid) for pid in process.stdout.readline().split()]
    handles = [os.pidfd_open(pid) for pid in workers]
    process.kill()
    finish(process)
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(60_000), "a worker outlives its trainer"
        os.close(handle)


def test_steps_with_workers_through_a_run(run_dir):
    def life(path, workers):
        with unbroken.Run(path, every=1) as run:
            return [(step, run.epoch, batch.tolist()) for step, batch in run.steps(14, make(workers))]

    straight, got = life(run_dir / "straight", 0), []
    for stop, workers in ((3, 2), (6, 0), (8, 4), (11, 1)):
        with stops_at(stop):
            got += life(run_dir / "stopped", workers)
    assert got + life(run_dir / "stopped", 2) == straight


def test_the_seed_of_an_item_is_the_same_in_every_version():
    assert derive(3, 0, "item", 5) == 14888753521455733766
    seed_all(14888753521455733766)
    assert random.getrandbits(32) == 3284907549


def test_a_worker_does_not_report_that_the_trainer_has_gone(capsys, monkeypatch):
    """The thread that hands tensors over meets a trainer that was killed while it took one."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    sources._hush_lost_trainer()
    for error in (ConnectionResetError(), EOFError(), ValueError("of the data set")):
        thread = threading.Thread(target=sys.excepthook, args=(type(error), error, None))
        thread.start()
        thread.join()
    said = capsys.readouterr().err
    assert "ValueError: of the data set" in said and "EOFError" not in said and "ConnectionResetError" not in said
    sys.excepthook(EOFError, EOFError(), None)
    assert "EOFError" in capsys.readouterr().err
