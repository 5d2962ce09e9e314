#!/usr/bin/env python3
"""Campaigns that end the lives of a saving training and hold what is left against what was acknowledged.

    lives.py crash --n 1000                      SIGKILL
    lives.py loss --fs ext4|xfs --n 100          the file system loses at once all that was not synced (root)
    lives.py loss --fs ext4|xfs --cut --n 100    the power is cut: disks made of a record of all block writes (root)

--seed N is the seed of the first run; each run has a seed of its own. --ledger adds a line to campaigns/lives.jsonl.
"""

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for part in ("tools/campaign", "tests/cli", "tests/crash"):
    sys.path.insert(0, str(ROOT / part))

import blocks  # noqa: E402
import filesystem  # noqa: E402
import ledger  # noqa: E402
import program  # noqa: E402
from kills import kill_often  # noqa: E402
from life import SAVER, TRAINER, Oracle, Violation, die_with_parent  # noqa: E402
from losses import lose_often  # noqa: E402

LIVES_OF_A_RUN = 20


def end_lives(options, seed, left):
    """One run: how many lives it ended, how often it went on from a checkpoint, and what was wrong."""
    env = {"UNBROKEN_MUTANT": options.mutant} if options.mutant else {}
    if options.cut:
        return blocks.cut_power(options.fs, seed, left, env)
    # Every fifth run is a NumPy training, the others, which start sooner, are in C++.
    oracle, lives, violations = Oracle(TRAINER if seed % 5 == 0 else SAVER), min(LIVES_OF_A_RUN, left), []
    try:
        if options.how == "loss":
            lose_often(options.fs, oracle, seed, lives, env, options.at)
        else:
            with program.memory_folder() as folder:
                kill_often(folder / "run", folder / "undisturbed", oracle, seed, lives)
    except Violation as violation:
        violations.append(violation)
    return oracle.ended, oracle.resumes, violations


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("how", choices=("crash", "loss"))
    parser.add_argument("--fs", choices=filesystem.KINDS, default="xfs")
    parser.add_argument("--cut", action="store_true", help="look at what power cuts leave of a recorded run")
    parser.add_argument("--at", metavar="POINT:PASS", help="every loss at this pass of a kill point")
    parser.add_argument("--n", type=int, default=LIVES_OF_A_RUN, help="how many lives, or disks, in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutant", help="a planted fault, in a build that has them: ends with the first run that finds it")
    parser.add_argument("--ledger", action="store_true")
    options = parser.parse_args(words)
    die_with_parent()
    if options.how == "loss":
        if why := filesystem.why_not(options.fs) or (options.cut and blocks.why_not()):
            print(f"error: {why}", file=sys.stderr)
            return 78
        filesystem.enter_namespace()

    commit, began = ledger.commit_now(), time.monotonic()
    ended, resumes, violations, seed = 0, 0, 0, options.seed - 1
    while ended < options.n and not (options.mutant and violations):
        seed += 1
        lives, resumed, wrong = end_lives(options, seed, options.n - ended)
        ended, resumes, violations = ended + lives, resumes + resumed, violations + len(wrong)
        for violation in wrong:
            print(f"seed {seed}: {violation}", flush=True)
    elapsed_s = time.monotonic() - began
    kind = f"{'cut' if options.cut else 'loss'}:{options.fs}" if options.how == "loss" else "kill"
    what = "disks looked at" if options.cut else "lives ended"
    print(f"{kind}: {ended} {what}, {resumes} resumed, {violations} violations, {elapsed_s:.0f} s")
    if options.ledger:
        ledger.append("lives", kind, n=ended, violations=violations, elapsed_s=elapsed_s, commit=commit,
                      seed_first=options.seed, seed_last=seed, resumes=resumes,
                      command=" ".join(["./dev", *(word for word in words if word != "--ledger")]))
    return 1 if violations else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
