"""Sudden loss on real file systems: a sample of the campaigns of lives.py, and the faults they have to find."""

import subprocess
import sys
import time
from pathlib import Path

import blocks
import filesystem
import program
import pytest
from life import die_with_parent

LIVES = [sys.executable, Path(__file__).resolve().parent / "lives.py", "loss"]
CHOSEN = {"UNBROKEN_PROGRAM": str(program.PROGRAM)}


def needs(why):
    if why:
        pytest.skip(why)


def run_lives(*words, env=None):
    """(status, output) of a campaign, which takes its file systems along when this test is killed."""
    done = subprocess.run(list(map(str, [*LIVES, *words])), env={**program.CLEAN, **CHOSEN, **(env or {})},
                          preexec_fn=die_with_parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize("kind", filesystem.KINDS)
@pytest.mark.parametrize("seed, losses", [(1, 5), (5, 1)], ids=["cpp", "numpy"])
def test_no_acknowledged_checkpoint_is_lost(kind, seed, losses):
    needs(filesystem.why_not(kind))
    status, out = run_lives("--fs", kind, "--n", losses, "--seed", seed)
    assert status == 0 and f"{losses} lives ended" in out and " 0 violations" in out, out


@pytest.mark.parametrize("kind", filesystem.KINDS)
def test_a_power_cut_at_a_flush_or_amid_writes_loses_nothing(kind):
    needs(filesystem.why_not(kind) or blocks.why_not())
    status, out = run_lives("--fs", kind, "--cut", "--n", 5)
    assert status == 0 and "5 disks looked at" in out and " 0 violations" in out, out


def with_faults():
    """The environment that chooses a training in which faults can be planted."""
    for folder in (program.PROGRAM.parent, program.ROOT / "build/dev/bin"):
        saver = folder / "saver"
        if saver.exists() and program.run([saver, "--plants-faults"])[0] == 0:
            return {"UNBROKEN_SAVER": str(saver)}
    return pytest.skip("no build has planted faults: `cmake --preset dev && cmake --build build/dev`")


# That the data come too late shows between the COMMIT of a save, the second record that a life appends, and the data.
@pytest.mark.parametrize("fault, moment", [("no_dir_sync", ()), ("receipt_before_fsync", ("--at", "journal.appended:2"))])
def test_a_missing_sync_is_found(fault, moment):
    needs(filesystem.why_not("xfs"))
    status, out = run_lives("--fs", "xfs", "--n", 100, "--mutant", fault, *moment, env=with_faults())
    assert status == 1 and "after the loss" in out, out


def is_attached(name):
    return any(name in path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file"))


def wait_until(is_done):
    end = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_campaign_that_is_killed_leaves_nothing_attached():
    needs(filesystem.why_not("ext4"))
    campaign = program.start([*LIVES, "--fs", "ext4", "--n", 1000], env=CHOSEN, prepare=die_with_parent)
    name = f"image-{campaign.pid}"
    wait_until(lambda: is_attached(name) or campaign.poll() is not None)
    assert campaign.poll() is None, campaign.communicate()
    campaign.kill()
    campaign.wait()
    wait_until(lambda: not is_attached(name))
