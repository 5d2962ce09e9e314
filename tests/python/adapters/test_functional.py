"""unbroken.save and async_save: directories that are runs like any other, cheap again and again, owned and let go."""

import os
import signal
import sys

import pytest
import unbroken
from helpers import bits, child, finish
from unbroken import functional

pytestmark = pytest.mark.skipif(sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core")


@pytest.fixture(autouse=True)
def let_go():
    yield
    functional.release()


def state(value):
    import numpy

    return {"w": numpy.full(3, value), "note": ("at", value, None)}


def test_steps_count_from_zero_and_go_on_in_the_next_process(run_dir):
    assert [unbroken.save(state(k), run_dir) for k in range(2)] == ["0.a1", "1.a1"]
    functional.release()
    assert unbroken.save(state(2), run_dir) == "2.a2"
    assert unbroken.save(state(3), run_dir, step=40) == "40.a2"
    assert unbroken.save(state(4), run_dir) == "41.a2"
    loaded = unbroken.load(run_dir)
    assert (loaded.step, loaded.name, bits(dict(loaded))) == (41, "41.a2", bits(state(4)))


@pytest.mark.failure("ray-project/ray#3781")
def test_what_was_saved_last_is_the_newest_whatever_its_step(run_dir):
    names = [unbroken.save(state(k), run_dir, step=step) for k, step in enumerate((7, 7, 3, 5))]
    assert names == ["7.a1", "7.a2", "3.a3", "5.a3"]
    assert unbroken.load(run_dir).name == "5.a3"
    assert unbroken.load(run_dir)["note"] == ("at", 3, None)


def test_the_directory_is_a_run(run_dir):
    import torch

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    unbroken.save({"model": model, "optimizer": optimizer}, run_dir, step=5)
    other = torch.nn.Linear(2, 2)
    moments = torch.optim.Adam(other.parameters())
    with unbroken.Run(run_dir) as run:  # takes the directory over from save()
        run.attach(model=other, optimizer=moments)
        assert run.restore() == 5 and run.attempt == 2
        with pytest.raises(unbroken.Misconfigured, match="run.save"):
            unbroken.save(state(0), run_dir)
    assert bits(other.state_dict()) == bits(model.state_dict())
    assert bits(moments.state_dict()) == bits(optimizer.state_dict())
    assert unbroken.save(state(0), run_dir) == "6.a3"


@pytest.mark.failure("pytorch/pytorch#144657", "pytorch/torchtitan#930")
def test_async_save_copies_before_it_returns(run_dir):
    value = state(1)
    saving = unbroken.async_save(value, run_dir, step=4)
    assert saving.staged.result() == "4.a1" and saving.staging_completion is saving.staged
    value["w"][:] = 9
    assert saving.upload_completion.result() == saving.durable.result() == saving.verified.result() == "4.a1"
    assert bits(unbroken.load(run_dir)["w"]) == bits(state(1)["w"])


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ([1], "a dict of names"),
        ({1: 2}, "a dict of names"),
        ({"rng": 1}, "taken by Unbroken"),
        ({"a": {"b": object()}}, r"^a\.b: "),
    ],
)
def test_what_cannot_be_saved_is_named(run_dir, wrong, what):
    with pytest.raises(unbroken.Misconfigured, match=what):
        unbroken.save(wrong, run_dir)
    assert not run_dir.exists()


@pytest.mark.parametrize("step", [-1, 1.5, True, "7", 2**63])
def test_a_step_is_a_number_of_steps(run_dir, step):
    with pytest.raises(unbroken.Misconfigured, match="number of steps"):
        unbroken.save(state(0), run_dir, step=step)


def test_a_third_directory_closes_the_one_that_was_idle_longest(tmp_path):
    for name in ("a", "b", "a", "c"):
        unbroken.save(state(0), tmp_path / name)
    assert [os.path.basename(path) for path in functional._books] == ["a", "c"]
    assert unbroken.save(state(0), tmp_path / "b") == "1.a2"
    assert unbroken.save(state(0), tmp_path / "c") == "1.a1"


SAVES = """
import sys, unbroken
for k in range(int(sys.argv[2])):
    print(unbroken.save({"k": k, "w": bytes(1000)}, sys.argv[1]), flush=True)
if len(sys.argv) > 3: sys.stdin.read()
"""


def test_a_directory_that_another_process_owns_is_refused_until_it_ends(run_dir):
    import subprocess

    owner = child(SAVES, run_dir, 1, "waits", stdin=subprocess.PIPE)
    assert owner.stdout.readline() == "0.a1\n"
    with pytest.raises(unbroken.Misconfigured, match=str(owner.pid)):
        unbroken.save(state(0), run_dir)
    assert finish(owner)[0] == 0
    assert unbroken.save(state(0), run_dir) == "1.a2"


def test_what_was_returned_survives_a_kill(run_dir):
    for life in range(3):
        process = child(SAVES, run_dir, 10**6)
        names = [process.stdout.readline().strip() for _ in range(4 + life)]
        process.send_signal(signal.SIGKILL)
        names += process.stdout.read().split()
        assert finish(process)[0] == -signal.SIGKILL
        found = unbroken.load(run_dir)
        assert found.step >= int(names[-1].split(".")[0])
        assert found.attempt == life + 1


EXITS = """
import os, sys, unbroken
unbroken.async_save({"w": bytes(1 << 20)}, sys.argv[1])
if os.fork() == 0:
    try:
        unbroken.save({}, sys.argv[1])
    except unbroken.Misconfigured:
        sys.exit(3)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.failure("intelligent-machine-learning/dlrover#1092")
def test_the_end_of_the_process_waits_and_a_child_owns_nothing(run_dir):
    status, _, err = finish(child(EXITS, run_dir))
    assert status == 3, err
    assert unbroken.load(run_dir)["w"] == bytes(1 << 20)


def test_a_save_that_fails_raises_and_leaves_its_step_to_the_next(run_dir, fake):
    fake.Session.fail_saves = [("no_space", "StorageFull", "the disk is full", "")]
    with pytest.raises(unbroken.StorageFull) as caught:
        unbroken.save({"a": 1}, run_dir)
    assert caught.value.directory == str(run_dir)
    assert unbroken.save({"a": 1}, run_dir).startswith("0.")
