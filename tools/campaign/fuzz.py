#!/usr/bin/env python3
"""Builds the fuzzers (preset `fuzz`, clang 19 with ASan and UBSan) and runs each for some seconds with bounded memory.

    fuzz.py [--seconds 60] [--jobs 1] [--ledger] [NAME ...]

Seeds are tests/hostile/NAME; what is found stays below build/fuzz/corpus/NAME. A crash is a file
build/fuzz/found-NAME-*: add it to tests/hostile with its story. --ledger adds a line a target to campaigns/fuzz.jsonl.
Exit 1 when anything was found.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import ledger

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/fuzz"
RSS_MB, MALLOC_MB = 1024, 256  # ASan needs address space, so memory is bounded by use and by single allocations


def build(names: list[str]) -> None:
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "fuzz", "-DUNBROKEN_TESTS=OFF"], cwd=ROOT, check=True)
    subprocess.run(["ninja", "-C", BUILD, *(f"{name}_fuzz" for name in names)], check=True)


def targets() -> list[str]:
    return sorted(path.name.removesuffix("_fuzz.cc") for path in (ROOT / "src").rglob("*_fuzz.cc"))


def run(name: str, seconds: int, jobs: int):
    """(executions, seconds, failed)."""
    corpus = BUILD / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [seed for seed in [ROOT / "tests/hostile" / name] if seed.is_dir()]
    command = [
        BUILD / f"bin/{name}_fuzz", corpus, *seeds, f"-max_total_time={seconds}", f"-rss_limit_mb={RSS_MB}",
        f"-malloc_limit_mb={MALLOC_MB}", "-timeout=10", "-max_len=65536", f"-artifact_prefix={BUILD}/found-{name}-",
        "-print_final_stats=1", *([f"-fork={jobs}"] if jobs > 1 else []),
    ]  # fmt: skip
    begin = time.monotonic()
    done = subprocess.run(command, cwd=BUILD, stderr=subprocess.PIPE, text=True, errors="replace")
    elapsed = time.monotonic() - begin
    counts = re.findall(r"(?:stat::number_of_executed_units:\s*|^#)(\d+)", done.stderr, re.M)
    if done.returncode:
        print(done.stderr[-6000:], file=sys.stderr)
    return int(counts[-1]) if counts else 0, elapsed, done.returncode != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--ledger", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    names = options.names or targets()
    build(names)
    commit = ledger.commit_now()
    failed = total = 0
    for name in names:
        count, elapsed, found = run(name, options.seconds, options.jobs)
        failed += found
        total += count
        print(f"{name}: {count} inputs in {elapsed:.0f} s, {'FOUND' if found else 'nothing found'}", flush=True)
        if options.ledger:
            command = f"tools/campaign/fuzz.py --seconds {options.seconds} --jobs {options.jobs} {name}"
            ledger.append("fuzz", f"fuzz:{name}", n=count, violations=int(found), elapsed_s=elapsed, command=command,
                          commit=commit)
    print(f"{total} inputs in all")
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
