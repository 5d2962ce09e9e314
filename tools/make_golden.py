#!/usr/bin/env python3
"""Adds what the present version writes to tests/golden; files that are there already are compared, never replaced.

    make_golden.py BUILD_DIR [--replace]    needs the target write_golden; --replace only before a format is released
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "tests/golden/v1/sample"


def main(arguments: list[str]) -> int:
    is_replaced = arguments[1:] == ["--replace"]
    if len(arguments) != 1 + is_replaced:
        print(__doc__, file=sys.stderr)
        return 78
    status = 0
    if is_replaced:
        shutil.rmtree(GOLDEN, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([Path(arguments[0]) / "bin/write_golden", folder], check=True)
        for new in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
            kept = GOLDEN / new.relative_to(folder)
            if kept.exists() and not is_replaced:
                if kept.read_bytes() != new.read_bytes():
                    print(f"error: {kept} is written differently now: that is another format version", file=sys.stderr)
                    status = 65
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(new.read_bytes())
            print(f"added {kept}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
