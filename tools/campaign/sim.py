#!/usr/bin/env python3
"""Runs build/bin/unbroken_sim with the options given; --ledger adds a line about it to campaigns/.

    sim.py [--ledger] [--seeds N | --sweep STATES_MAX] [more options of the simulator]

A sweep is shared out over the cores in parts; each that ends is told at once.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import ledger

PARTS = 4  # of a sweep; each walks all of it, and looks at its share
PROGRAM = Path(__file__).resolve().parents[2] / "build/bin/unbroken_sim"


def counts(pattern, output):
    """The numbers of the last line that matches."""
    found = re.findall(pattern, output, re.M)
    return list(map(int, found[-1])) if found else None


def enter(options, commit, output, elapsed_s):
    """Adds what the simulator said; an output without a verdict is no campaign."""
    verdict = counts(r"^(\d+) passed, (\d+) failed$", output)
    if verdict is None:
        raise SystemExit("error: the simulator gave no verdict: nothing is added to the ledger")
    said = {"violations": verdict[1], "elapsed_s": elapsed_s, "commit": commit,
            "command": " ".join(["./dev sim", *options])}
    swept = counts(r"^(\d+) workloads, (\d+) crashes looked at", output)
    if swept:
        ledger.append("sim", "exhaustive", n=swept[1], workloads=swept[0],
                      is_complete="every outcome" in output, **said)
        return
    first = int(options[options.index("--seed") + 1]) if "--seed" in options else 1
    seeds = int(options[options.index("--seeds") + 1]) if "--seeds" in options else 1
    ledger.append("sim", "sim", n=sum(verdict), seed_first=first, seed_last=first + seeds - 1, **said)


def run(*options):
    """One simulator; (exit status, what it said)."""
    done = subprocess.run([PROGRAM, *options], stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


def sweep(options):
    """Every part of a sweep, as many at once as there are cores; (exit status, what they said, in one)."""
    workloads = crashes = failed = status = 0
    said = []
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        parts = [pool.submit(run, *options, "--part", str(part), "--parts", str(PARTS)) for part in range(PARTS)]
        for ended, part in enumerate(concurrent.futures.as_completed(parts), 1):
            code, output = part.result()
            found = counts(r"^(\d+) workloads, (\d+) crashes looked at", output)
            status = status or code or (0 if found else 1)
            said += [line for line in output.splitlines() if not re.match(r"\d+ (workloads|passed), ", line)]
            workloads, crashes = max(workloads, (found or [0])[0]), crashes + (found or [0, 0])[1]
            is_complete = "every outcome" in output and (ended == 1 or is_complete)
            failed += counts(r"^(\d+) passed, (\d+) failed$", output) != [workloads, 0]
            print(f"part {ended} of {PARTS}: {crashes} crashes, {failed} failed", file=sys.stderr, flush=True)
    how_many = "every outcome" if is_complete else f"at most {options[options.index('--sweep') + 1]} outcomes an instant"
    said += [f"{workloads} workloads, {crashes} crashes looked at, {how_many}", f"{PARTS - failed} passed, {failed} failed"]
    return status, "".join(f"{line}\n" for line in said)


def main(options):
    is_entered = "--ledger" in options
    options = [option for option in options if option != "--ledger"]
    is_shared = "--sweep" in options and "--part" not in options
    if not is_entered and not is_shared:
        return subprocess.run([PROGRAM, *options]).returncode  # its output as it comes
    commit, began = ledger.commit_now(), time.monotonic()
    status, output = sweep(options) if is_shared else run(*options)
    print(output, end="", flush=True)
    if is_entered:
        enter(options, commit, output, time.monotonic() - began)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
