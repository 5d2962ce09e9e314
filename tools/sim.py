#!/usr/bin/env python3
"""Runs build/bin/unbroken_sim with the options given; --ledger adds a line about it to campaigns/.

    sim.py [--ledger] [--seeds N | --sweep STATES_MAX] [more options of the simulator]
"""

import re
import subprocess
import sys
import time
from pathlib import Path

import ledger

PROGRAM = Path(__file__).resolve().parent.parent / "build/bin/unbroken_sim"


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


def main(options):
    if "--ledger" not in options:
        return subprocess.run([PROGRAM, *options]).returncode
    options.remove("--ledger")
    commit, began = ledger.commit_now(), time.monotonic()
    done = subprocess.run([PROGRAM, *options], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    enter(options, commit, done.stdout, time.monotonic() - began)
    return done.returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
