"""The processes that are raced, held open over all rounds: one for each entrant, and that of the yardstick."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import rivals
from race import machine

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
BLOCKS = [(MIB, 8), (4 * MIB, 4), (4 * MIB, 8), (2 * MIB, 16)]
PROBE_BYTES = 256 * MIB


class Failed(Exception):
    """An entrant said that it cannot."""


class Child:
    """One entrant. `times`, `cpu_s` and `written` are filled by whoever gives the orders."""

    def __init__(self, name, folder, log):
        self.name, self.folder, self.log = name, folder, log
        folder.mkdir(parents=True)
        try:
            python = rivals.python_of(rivals.ENTRANTS[name])
        except LookupError as why:
            raise Failed(*why.args) from None
        to_child, from_child = os.pipe(), os.pipe()
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1",
               "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))), "JAX_PLATFORMS": "cpu",
               "OMP_WAIT_POLICY": "passive"}  # else copies by several threads take ten times as long on a busy machine
        with open(log, "ab") as errors:
            self.process = subprocess.Popen([python, Path(__file__).with_name("child.py"), str(to_child[0]), str(from_child[1])],
                                            pass_fds=(to_child[0], from_child[1]), env=env, stdin=subprocess.DEVNULL,
                                            stdout=errors, stderr=errors, cwd=folder, start_new_session=True)
        os.close(to_child[0])
        os.close(from_child[1])
        self._orders, self._answers = os.fdopen(to_child[1], "w"), os.fdopen(from_child[0])

    def order(self, do, **more):
        """Has an order carried out; its answer. Errors: Failed."""
        try:
            self._orders.write(json.dumps({"do": do, **more}, default=str) + "\n")
            self._orders.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"the process ended with {self.process.wait()}: {last_line(self.log)}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def timed(self, do, **more):
        """Seconds of an order, by our clock."""
        began = time.perf_counter()
        self.order(do, **more)
        return time.perf_counter() - began

    def spent(self):
        return machine.spent_by(self.process.pid)

    def close(self):
        for stream in (self._orders, self._answers):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its helpers are in its session
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def last_line(log):
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:200] if lines else "it said nothing"


def built_yardstick():
    """The program, compiled where its source is another one than last time."""
    source = Path(__file__).with_name("yardstick.cc")
    program = ROOT / "build/bench" / f"yardstick-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        made = program.with_suffix(f".{os.getpid()}")
        done = subprocess.run(["c++", "-std=c++20", "-O3", source, "-o", made, "-luring", "-lxxhash", "-pthread"],
                              capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"error: the yardstick does not compile (liburing-dev, libxxhash-dev?):\n{done.stderr}")
        made.rename(program)
    return program


class Yardstick:
    """What the machine gives, in `folder`."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True)
        self.path = folder / "raw"
        self.settings = {"write": (4 * MIB, 8, "uring"), "read": (4 * MIB, 8, "uring")}
        self.process = subprocess.Popen([built_yardstick()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _order(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"the yardstick ended: {words}")
        return [float(word) for word in line.split()]

    def probe(self, nbytes):
        """Chooses block, depth and kind by trying them all on some of the bytes."""
        nbytes = min(nbytes, PROBE_BYTES)
        for verb in ("write", "read"):
            tried = {}
            for setting in [(*pair, kind) for kind in ("uring", "threads") for pair in BLOCKS]:
                try:
                    taken = [self._order(verb, self.path, nbytes, *setting)[0] for _ in range(2)]
                except Failed:  # no io_uring here
                    self.process.wait()
                    self.process = subprocess.Popen([built_yardstick()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                    continue
                tried[min(taken)] = setting
            self.settings[verb] = tried[min(tried)]

    def direct(self, verb, nbytes):
        return self._order(verb, self.path, nbytes, *self.settings[verb])

    def buffered(self, verb, nbytes):
        return self._order(f"buffered_{verb}", self.path, nbytes)

    def memory(self, verb, nbytes):
        return self._order(verb, nbytes)

    def words(self):
        return {verb: f"{kind}, {depth} x {block // MIB} MiB" for verb, (block, depth, kind) in self.settings.items()}

    def remove_file(self):
        self.path.unlink(missing_ok=True)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def note(text):
    """What goes on, for whoever watches."""
    print(text, file=sys.stderr, flush=True)
