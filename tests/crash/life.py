"""One life of a saving training, seen from outside, and what all lives of a run together must keep."""

import ctypes
import os
import selectors
import signal
import sys
import time
from pathlib import Path

from program import PROGRAM, start

#: the trainings: each takes DIR STEPS [EVERY] and speaks as trainer.py and tests/loss/saver.cc say
TRAINER = [sys.executable, str(Path(__file__).resolve().parent / "trainer.py")]
SAVER = [os.environ.get("UNBROKEN_SAVER", str(PROGRAM.parent / "saver"))]
LONG = 1_000_000_000  # steps that no life completes

LIBC = ctypes.CDLL(None, use_errno=True)


class Violation(AssertionError):
    """A promise that was broken."""


def die_with_parent():
    """Whatever ends the test ends its children, so that nothing stays mounted or running."""
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Life:
    """A process of one training, read line by line."""

    def __init__(self, directory, steps, *more, training=TRAINER, env=None):
        self.process = start([*training, directory, steps, *more], env=env, prepare=die_with_parent)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.rest, self.resumed, self.acked, self.digests, self.final = b"", None, [], {}, None
        self.is_over = False

    def read(self, wait_s):
        """Takes in what it says, for at most `wait_s`."""
        if self.is_over or not self.selector.select(wait_s):
            return
        piece = os.read(self.process.stdout.fileno(), 65536)
        self.is_over = not piece
        *lines, self.rest = (self.rest + piece).split(b"\n")
        for line in lines:
            word, value, *more = line.decode().split()
            if word == "resumed":
                self.resumed = int(value)
            elif word == "ack":
                self.acked.append(int(value.split(".")[0]))
            elif word == "step":
                self.digests[int(value)] = more[0]
            elif word == "final":
                self.final = value

    def run_for(self, seconds, is_ready=lambda life: True):
        """Lets it live that long after it `is_ready`; False where it ended before."""
        while not is_ready(self) and not self.is_over:
            self.read(1)
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.is_over:
            self.read(max(0, end - time.monotonic()))
        return not self.is_over

    def run_until_stopped(self, seconds):
        """Lets it live until it stopped itself or ended, at most that long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.is_over:
            if os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
            self.read(0.005)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        return self.finish()

    def finish(self):
        while not self.is_over:
            self.read(60)
        err = self.process.stderr.read()
        return self.process.wait(60), err


class Oracle:
    """What the outside was told over all lives of one run. It stands beside the storage, so it loses nothing."""

    def __init__(self, training):
        self.training = training
        self.newest = 0  # the newest step that was acknowledged or resumed from
        self.ended = self.resumes = 0  # lives that were ended; lives that went on from a checkpoint
        self.digests = {}

    def take(self, life, err):
        """Adds what a life said, and holds it against what was said before."""
        if life.resumed is not None:
            if life.resumed < self.newest:
                raise Violation(f"resumed from {life.resumed}, though {self.newest} was acknowledged\n{err}")
            self.resumes += life.resumed > 0
        if "put aside" in err:
            raise Violation(f"a checkpoint that was committed is damaged\n{err}")
        for step, digest in life.digests.items():
            if self.digests.setdefault(step, digest) != digest:
                raise Violation(f"step {step}: two lives hold different states\n{err}")
        self.newest = max([self.newest, life.resumed or 0, *life.acked])

    def finish(self, directory, undisturbed):
        """A last life trains to the end; then all states seen are held against a run in `undisturbed`."""
        last = self.newest + 5
        life = Life(directory, last, training=self.training)
        status, err = life.finish()
        if status != 0:
            raise Violation(f"the last life ended with {status}\n{err}")
        self.take(life, err)
        # What was saved but not acknowledged may lie beyond: then the run had no step left to do.
        quiet = Life(undisturbed, max(self.digests), LONG, training=self.training)
        status, err = quiet.finish()
        assert status == 0, err
        wrong = sorted(step for step, digest in self.digests.items() if quiet.digests[step] != digest)
        if wrong or life.final != quiet.digests[max(last, life.resumed)]:
            raise Violation(f"steps {wrong[:5]} and the end {life.final} are not those of an undisturbed run")
