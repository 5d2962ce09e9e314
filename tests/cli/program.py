"""The program and small trainings, as processes; for the tests here and in tests/crash."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("UNBROKEN_PROGRAM", ROOT / "build/bin/unbroken"))
MLP = PROGRAM.parent / "mlp"
sys.path.insert(0, str(ROOT / "python"))

#: UNBROKEN_* of whoever runs the tests says nothing here
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("UNBROKEN_", "SLURM_"))}
CLEAN["PYTHONPATH"] = str(ROOT / "python")

#: a training of a few lines: train.py DIR STEPS [EVERY] [DELAY_S]
TRAIN = """
import sys, time, numpy as np, unbroken
directory, steps = sys.argv[1], int(sys.argv[2])
every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
delay_s = float(sys.argv[4]) if len(sys.argv) > 4 else 0
w = np.zeros((8, 8), np.float32)
chance = np.random.default_rng(1)
with unbroken.Run(directory, every=every) as run:
    run.attach(w=w, chance=chance)
    for step in run.steps(steps):
        w += chance.standard_normal(w.shape).astype(np.float32)
        run.state["sum"] = float(w.sum())
        run.log(loss=float(np.abs(w).sum()))
        time.sleep(delay_s)
"""

#: the same, with every save waited for, so that each is there
SAVING = TRAIN.replace("time.sleep(delay_s)", "(step + 1) % every or run.save()")


def start(command, *, env=None, is_ordinary=False, prepare=lambda: None, **more):
    """A process with captured output. It hears Ctrl-C also where the tests run in the background of a shell.
    `prepare` runs in it before the command.

    With `is_ordinary` it belongs to a user for whom permissions count: us, or where we are root, nobody.
    """
    nobody = pwd.getpwnam("nobody") if is_ordinary and os.geteuid() == 0 else None

    def before():
        prepare()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if nobody:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)

    return subprocess.Popen(
        list(map(str, command)), env={**CLEAN, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=before, **more,
    )  # fmt: skip


class Public:
    """A folder that every user can enter, with a copy of the program: tests and checkouts may lie in private ones."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.chmod(0o755)
        self.program = self.folder / "unbroken"
        shutil.copy(PROGRAM, self.program)
        self.program.chmod(0o755)

    def copy(self, run):
        """A copy of a run that everybody may read."""
        copied = self.folder / "run"
        shutil.copytree(run, copied)
        for path in (copied, *copied.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return copied

    def unbroken(self, *arguments):
        """As an ordinary user."""
        return run([self.program, *arguments], is_ordinary=True, cwd=self.folder)


@contextlib.contextmanager
def public_folder():
    with tempfile.TemporaryDirectory(prefix="unbroken-test-", dir="/tmp") as folder:
        yield Public(folder)


def run(command, *, env=None, timeout=300, **more):
    """(status, stdout, stderr) of a finished process."""
    process = start(command, env=env, **more)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"no end: {command}\n{out}\n{err}") from None
    return process.returncode, out, err


def unbroken(*arguments, **more):
    return run([PROGRAM, *arguments], **more)


def unbroken_json(*arguments, **more):
    """(status, what it printed as JSON)."""
    status, out, err = unbroken(*arguments, "--json", **more)
    assert out.count("\n") >= 1, err
    return status, json.loads(out)


def python(code, *arguments):
    """The command of a Python script."""
    return [sys.executable, "-c", code, *map(str, arguments)]


def train(*arguments, code=TRAIN, env=None, status=0):
    """Trains in a process of its own; its stderr."""
    got, out, err = run(python(code, *arguments), env=env)
    assert got == status, f"{got}\n{out}\n{err}"
    return err


@contextlib.contextmanager
def memory_folder():
    """A folder where a sync costs nothing, for tests that kill processes and lose no power; else a usual one."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="unbroken-test-", dir=base) as folder:
        yield Path(folder)


def journal_files(directory):
    return sorted(path.name for path in (Path(directory) / "journal").iterdir() if path.name.isdigit())
