"""Runs commands as timed steps: quiet when they pass, their whole output when they fail, counted at the end."""

import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = re.compile(r"^(?:.*\W)?(\d+) passed, (\d+) failed\b.*$", re.MULTILINE)


class Missing(Exception):
    """A part of the repository that a command needs is not there."""


def environment(**extra):
    """The environment of every step: the project's Python and program first in PATH."""
    path = [str(ROOT / ".venv/bin"), str(ROOT / "build/bin"), os.environ.get("PATH", "/usr/bin:/bin")]
    return {**os.environ, "PATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1", **extra}


class Steps:
    """Counts of tests and the steps that failed; one instance per invocation of `dev`."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.failures = []
        self.started = time.monotonic()

    def run(self, name, command, *, env=None, counts=None, is_counted=True, passing=(0,), allowed_s=3600):
        """Runs one command; True when it succeeded. `counts(output)` gives (passed, failed)."""
        print(f"{name:<34}", end="", flush=True)
        began = time.monotonic()
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment(**(env or {})), text=True, errors="replace",
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=allowed_s)
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            raw = late.stdout or b""
            status = 124
            output = (raw if isinstance(raw, str) else raw.decode(errors="replace")) + f"\nno end after {allowed_s} s"
        except FileNotFoundError as missing:
            status, output = 127, f"{missing.filename} is not installed: run `./dev setup`"
        seconds = time.monotonic() - began
        passed, failed = (counts or counts_of)(output)
        status = 0 if status in passing else status
        if status and not failed:
            failed = 1
        if not status and not passed and not failed and counts is None:
            passed = 1
        said = f"  {passed} passed, {failed} failed" if is_counted and (passed + failed > 1) else ""
        print(f"{'FAILED' if status or failed else 'ok':<7}{seconds:7.1f} s{said}", flush=True)
        if is_counted:
            self.passed += passed
            self.failed += failed
        elif status:
            self.failed += 1
        if status or failed:
            self.failures.append(name)
            print("$ " + " ".join(map(str, command)) + "\n" + output.rstrip() + "\n", flush=True)
        return not status and not failed

    def fail(self, name, why):
        """Counts a failure that no command reported."""
        print(f"{name:<34}FAILED          {why}", flush=True)
        self.failed += 1
        self.failures.append(name)

    def close(self):
        """Prints the closing line; the exit status of the whole."""
        for name in self.failures:
            print(f"failed: {name}")
        print(f"{time.monotonic() - self.started:.0f} s in all")
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed else 0


def counts_of(output):
    """The counts in the last line of the form `N passed, M failed`; (0, 0) where there is none."""
    found = COUNTS.findall(output)
    return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)


def junit_counts(path):
    """(passed, failed) of a JUnit file; skipped tests count as neither."""
    if not path.exists():
        return 0, 0
    passed = failed = 0
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed += 1
        elif case.find("skipped") is None and case.get("status") not in ("notrun", "disabled"):
            passed += 1
    return passed, failed


def ctest_counts(report, junit):
    """Cases of a ctest run: those of each GoogleTest binary where it left a report, else one for the test."""
    if not junit.exists():
        return 0, 0
    passed = failed = 0
    for test in ElementTree.parse(junit).iter("testcase"):
        cases = report / f"{test.get('name')}.xml"
        is_failed = test.get("status") == "fail"
        inner = (0, 0)
        if cases.exists():
            try:
                inner = junit_counts(cases)
            except ElementTree.ParseError:
                is_failed = True
        if inner == (0, 0):
            inner = (int(test.get("status") == "run" and not cases.exists()), 0)
        if is_failed and not inner[1]:
            inner = (inner[0], 1)
        passed += inner[0]
        failed += inner[1]
    return passed, failed


def need(path, what):
    """Raises Missing where a part of the repository is not there."""
    if not (ROOT / path).exists():
        raise Missing(f"{what}: {path} is not there")
    return ROOT / path


def call(command, **env):
    """Runs a command with our output as its own; its exit status."""
    try:
        return subprocess.run(command, cwd=ROOT, env=environment(**env)).returncode
    except KeyboardInterrupt:
        return 130
    except FileNotFoundError as missing:
        print(f"error: {missing.filename} is not installed: run `./dev setup`", file=sys.stderr)
        return 127
