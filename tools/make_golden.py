#!/usr/bin/env python3
"""Adds what the present version writes to tests/golden; files that are there already are compared, never replaced.

    make_golden.py sample BUILD_DIR [--replace]    what the encoders write, `sample` and `folded`; needs the target
                                                   write_golden
    make_golden.py trained [--replace]             a run that tests/golden/trained.py made with the package in python/

--replace only before a format is released.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/v1"
#: what write_golden writes
WRITTEN = ["sample", "folded"]
#: what each life of the kept run is asked for: steps, and where it begins
LIVES = [["7"], ["9", "6"]]


def run_lives(directory, prefix=()):
    """The lives of the kept run, one after another, in `directory`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("UNBROKEN_", "SLURM_"))}
    for life in LIVES:
        subprocess.run([*prefix, sys.executable, ROOT / "tests/golden/trained.py", directory, *life], check=True,
                       env={**clean, "PYTHONPATH": str(ROOT / "python")}, stderr=subprocess.DEVNULL)


def add_sample(build):
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([Path(build) / "bin/write_golden", folder], check=True)
        for new in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
            kept = GOLDEN / new.relative_to(folder)
            if kept.exists():
                if kept.read_bytes() != new.read_bytes():
                    print(f"error: {kept} is written differently now: that is another format version", file=sys.stderr)
                    status = 65
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(new.read_bytes())
            print(f"added {kept}")
    return status


def add_trained():
    kept = GOLDEN / "trained"
    if kept.exists():
        print(f"error: {kept} is there already, and every run differs in names and times", file=sys.stderr)
        return 65
    # A host of no real name: provenance and the journal tell where a run was made.
    elsewhere = ["unshare", "--uts", "sh", "-c", 'hostname node-1 && exec "$@"', "sh"]
    with tempfile.TemporaryDirectory() as folder:
        run_lives(Path(folder) / "run", elsewhere)
        shutil.copytree(Path(folder) / "run", kept)
    print(f"added {kept}")
    return 0


def main(arguments: list[str]) -> int:
    is_replaced = arguments[-1:] == ["--replace"]
    wanted = arguments[: len(arguments) - is_replaced]
    if not (len(wanted) == 2 and wanted[0] == "sample" or wanted == ["trained"]):
        print(__doc__, file=sys.stderr)
        return 78
    if is_replaced:
        for run in WRITTEN if wanted[0] == "sample" else wanted:
            shutil.rmtree(GOLDEN / run, ignore_errors=True)
    return add_sample(wanted[1]) if wanted[0] == "sample" else add_trained()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
