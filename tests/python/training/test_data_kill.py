"""Real processes that are killed within an epoch, each life with another number of workers: every step has the items
and the augmentation of the undisturbed run."""

import signal
import sys

import pytest
import torch

import unbroken
from data_sets import Augmented
from helpers import bits, child, finish
from unbroken.torch import DataLoader

pytestmark = pytest.mark.skipif(sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core")

TRAIN = """
import os, sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import torch, unbroken
from data_sets import Augmented
from unbroken.torch import DataLoader

path, workers, persistent = sys.argv[2], int(sys.argv[3]), sys.argv[4] == "True"
loader = DataLoader(Augmented(61), 4, True, seed=8, seed_samples=True, num_workers=workers,
                    persistent_workers=persistent)
w = torch.zeros(4, dtype=torch.float64)
with unbroken.Run(path, every=1) as run:
    run.attach(w={"w": w})
    for step, batch in run.steps(50, loader):
        w += batch.sum(0)
        print(step, run.epoch, batch.numpy().tobytes().hex(), run.newest, flush=True)
"""
EPOCH = 16  # batches
#: workers, whether they stay, after how many steps of its life it is killed, and by what
LIVES = [
    (2, False, 5, signal.SIGKILL),
    (4, True, 6, signal.SIGKILL),
    (0, False, 3, signal.SIGKILL),
    (1, True, 9, signal.SIGTERM),
    (2, True, 4, signal.SIGKILL),
    (4, False, None, None),
]


def test_killed_in_the_epoch_with_other_numbers_of_workers(tmp_path):
    loader = DataLoader(Augmented(61), 4, True, seed=8, seed_samples=True)
    want = [(loader._unbroken_next().numpy().tobytes().hex(), loader.epoch) for _ in range(50)]
    run, reached, resumed = tmp_path / "run", 0, 0
    for workers, persistent, kill_after, how in LIVES:
        process = child(TRAIN, __file__.rpartition("/")[0], run, workers, persistent)
        seen = 0
        for line in process.stdout:
            step, epoch, batch, newest = line.split()
            assert (batch, int(epoch)) == want[int(step)], (step, workers)
            if seen == 0:
                assert reached <= int(step), "an acknowledged step is trained again"
                resumed += int(step) > 0
            if newest != "None":
                reached = max(reached, int(newest.partition(".")[0]))
            seen += 1
            if kill_after is not None and seen >= kill_after and reached % EPOCH and reached:
                process.send_signal(how)
                break
        status, rest, err = finish(process)
        for line in rest.splitlines():
            step, epoch, batch, newest = line.split()
            assert (batch, int(epoch)) == want[int(step)], (step, workers)
            reached = max(reached, 0 if newest == "None" else int(newest.partition(".")[0]))
        assert status == {None: 0, signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 75}[how], err
        assert "Traceback" not in err
    assert resumed == len(LIVES) - 1
    end = torch.zeros(4, dtype=torch.float64)
    for batch, _ in want:
        end += torch.frombuffer(bytearray.fromhex(batch), dtype=torch.float64).reshape(-1, 4).sum(0)
    assert bits(unbroken.load(run)["w"]["w"]) == bits(end)
