"""The ledger of long campaigns: campaigns/NAME.jsonl, one line for each run that really took place."""

import datetime
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "campaigns"


def commit_now():
    """The commit of the checkout, with "+" where tracked files differ from it; "unknown" outside of one."""
    done = subprocess.run(["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or "unknown"


def append(name, kind, *, n, violations, elapsed_s, command, commit=None, seed_first=None, seed_last=None, **more):
    """Adds a line; campaigns/README.md says what the keys mean."""
    at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = {"kind": kind, "commit": commit or commit_now(), "n": n, "violations": violations,
            "elapsed_s": round(elapsed_s, 1), "seed_first": seed_first, "seed_last": seed_last, "at": at,
            "cores": len(os.sched_getaffinity(0)), "command": command, **more}
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / f"{name}.jsonl", "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")
