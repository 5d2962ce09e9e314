#!/usr/bin/env python3
"""Checks the model of the commit protocol: every configuration that must be clean, and every mutant that must die.

    check.py                 the set that ends within two minutes on two cores
    check.py --full          the large configurations too (memory: see --jobs and the table)
    check.py --list          the table, nothing is run
    check.py NAME...         only the rows whose name contains one of the words
    check.py --ledger        append one line about this run to campaigns/model.jsonl

A clean row must be searched completely, without an error, and with about as many states as the table says: a
state space that shrank is a model that no longer does something.  A row that must fail must fail in the assertion
the table names, so that a mutant dies for its own reason.  Exit 1 on any surprise.  Needs spin and gcc.
"""
import argparse
import concurrent.futures
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools" / "campaign"))
sys.dont_write_bytecode = True

import ledger  # noqa: E402


@dataclass(frozen=True)
class Row:
    name: str
    flags: str                  # without the -D
    states: int                 # about how many are stored when it ends
    fails: str = ""             # empty: must be clean; else a part of the assertion that must fail, as pan prints it
    full: bool = False          # only with --full
    memory_mib: int = 2500


# Parts of the assertions as pan prints them; README.md says what each one means.
PREFIX = "!(fenced)&& !(settled)"
ABORTED = "!(aborted)"
WHOLE = "shard["
IN_JOURNAL = "is_commit"
DELETES_NAMED = "(newest!=c)&& !(pinned)"
HOLE = "(jtype[i]==0)&&(jtype[(i+1)]!=0)"
GAP = "(jtype[(h-1)]!=0)"
RESUME = "shard[resume_of[a]]"
ORIGIN = "origin[a]"
HINT = "(hint==0)"
K_GOOD = "((qm>>c)&1)||(count>="
VERIFIED = "((vm>>c)&1)"
INTACT = "!(count)||(nok>=1)"
DURABLE_TIER = "((dm>>c)&1)"
REFERENCE = "(s==0)||"
FOLD_THERE = "(j==0)||(fold[j]==2)"
REACHED = "assertion violated 0"

SCRUB3 = "N=1 A=1 S=3 POSIX=0 SCRUB=1"
WARM3 = "N=1 A=1 S=3 WARM=3 POSIX=0 SCRUB=1"
WARM4 = "N=1 A=1 S=4 WARM=4 POSIX=0 SCRUB=1"

TABLE = [
    # ---- clean: the rules hold
    Row("posix, power loss, 2 ranks, 2 attempts", "", 5515670),
    Row("object store, 2 ranks, 2 attempts", "POSIX=0", 2387213),
    Row("posix, the next attempt goes on after power loss", "N=1 PWEND=0", 98111),
    Row("posix, stale reads", "N=1 STALE=1", 85668),
    Row("posix, two collectors, zombie", "N=1 NGC=2", 1404371),
    Row("posix, loader with pins", "N=1 READER=1", 854118),
    Row("object store, two loaders", "N=1 POSIX=0 READER=2", 10347179),
    Row("references, posix", "N=1 S=2 INC=1", 982648),
    Row("references, 2 ranks", "A=1 S=2 POSIX=0 INC=1", 18629),
    Row("references, scrubber", "N=1 A=1 S=2 POSIX=0 INC=1 SCRUB=1 BADW=1 NOQ3", 50330),
    Row("abort, posix", "N=1 ABORTS=1", 2007375),
    Row("abort, then the next try, zombie", "N=1 S=2 WARM=1 POSIX=0 ABORTS=1", 7855160, full=True),
    Row("fall back by the next attempt", "POSIX=0 FB=1 BADW=1 NGC=0", 411566),
    Row("quarantine, two collectors", "N=1 A=1 S=2 POSIX=0 NGC=2 SCRUB=1 BADW=1", 3846517),
    Row("quarantine, posix", "N=1 A=1 S=2 SCRUB=1 BADW=1", 282733),
    Row("quarantine, loader", "N=1 A=1 S=2 WARM=2 POSIX=0 READER=1 SCRUB=1 BADW=1", 1276853),
    Row("retention K=2 V=1, all may be bad when written", SCRUB3 + " K=2 BADW=3", 5441625),
    Row("retention K=2 V=2, one rots at any time", WARM3 + " K=2 V=2 ROT=1", 4603280),
    Row("local tier, node loss", "N=1 A=1 S=3 POSIX=0 TIER=1", 2766560),
    Row("hint, may lie", "N=1 PWEND=0 HINT=1", 140387),
    Row("server restart, clients survive", "N=1 POWER=0 SURV=1", 601095),
    Row("roll back", "N=1 S=2 POSIX=0 ROLL=1", 746549),
    Row("DELETED, 2 attempts x 2 saves", "N=1 S=2 POSIX=0 DEL=1", 929778),
    Row("DELETED, posix, loader", "N=1 DEL=1 READER=1", 925448),
    Row("DELETED, two collectors, quarantine", "N=1 A=1 S=2 POSIX=0 DEL=1 NGC=2 SCRUB=1 BADW=1", 4646444, full=True),
    Row("folds, a SUMMARY in every second slot", "N=1 FOLD=2", 112247),
    Row("folds, a SUMMARY in every third slot", "N=1 FOLD=3", 78461),
    # ---- must fail: one departure from the rules each
    Row("rename instead of link", "M_RENAME_INSTEAD_OF_LINK", 2837, IN_JOURNAL),
    Row("rename instead of link, object store", "N=1 POSIX=0 M_RENAME_INSTEAD_OF_LINK", 3051, DELETES_NAMED),
    Row("no fence: next slot without reading", "N=1 POSIX=0 M_NO_FENCE", 2979, PREFIX),
    Row("no directory sync before a new slot", "N=1 M_NO_DIR_SYNC", 1816, HOLE),
    Row("receipt before fsync", "A=1 M_RECEIPT_BEFORE_FSYNC", 293, WHOLE),
    Row("commit on some of the receipts", "A=1 POSIX=0 M_PARTIAL", 180, WHOLE),
    Row("collector does not sync before deleting", "N=1 M_GC_WITHOUT_SYNC", 1759, WHOLE),
    Row("orphans by age", "N=1 POSIX=0 M_AGE_BASED_ORPHANS", 336, DELETES_NAMED),
    Row("pins outside the journal", "N=1 POSIX=0 READER=1 M_PINS_OUTSIDE", 8410, WHOLE),
    Row("unnamed pins", "N=1 POSIX=0 READER=2 M_UNNAMED_PINS", 346823, WHOLE),
    Row("UNPIN without the sync", "N=1 A=1 READER=1 M_UNPIN_WITHOUT_SYNC", 175, HOLE),
    Row("collector ignores references", "N=1 A=1 S=2 POSIX=0 INC=1 M_REFERENCES_IGNORED", 190, WHOLE),
    Row("reference to a quarantined save",
        "N=1 A=1 S=2 POSIX=0 INC=1 SCRUB=1 BADW=1 NOQ3 M_REFERENCE_TO_QUARANTINED", 22218, REFERENCE),
    Row("S6 blind to ABORT", "N=1 A=1 S=2 POSIX=0 ABORTS=1 M_S6_BLIND_TO_ABORT", 5828, ABORTED),
    Row("S6 blind to ABORT, 2 ranks", "POSIX=0 ABORTS=1 M_S6_BLIND_TO_ABORT", 539762, ABORTED),
    Row("fall back inside an attempt", "POSIX=0 FB=1 BADW=1 NGC=0 M_FALLBACK_INSIDE_ATTEMPT", 15500, ORIGIN),
    Row("loose rule K=2, bad when written", SCRUB3 + " K=2 BADW=3 M_LOOSE_RULE", 1744845, INTACT),
    Row("loose rule K=1, rot", SCRUB3 + " ROT=1 M_LOOSE_RULE", 586438, INTACT),
    Row("loose rule K=1, by the journal alone", WARM3 + " ROT=1 NOQ3 M_LOOSE_RULE", 248245, K_GOOD),
    Row("loose rule, two collectors, quarantine",
        "N=1 A=1 S=2 POSIX=0 NGC=2 SCRUB=1 BADW=1 M_LOOSE_RULE", 1115529, INTACT),
    Row("loose rule, local tier", "N=1 A=1 S=3 POSIX=0 TIER=1 M_LOOSE_RULE", 51259, DURABLE_TIER),
    Row("K counts saves on one node", "N=1 A=1 S=3 POSIX=0 TIER=1 M_K_COUNTS_LOCAL", 51259, DURABLE_TIER),
    Row("K counts condemned saves", WARM4 + " K=2 ROT=1 NOQ3 M_K_COUNTS_INTENDED", 2160823, K_GOOD),
    Row("V=0", SCRUB3 + " BADW=3 M_VERIFIED_MIN_ZERO", 38353, VERIFIED),
    Row("V counts quarantined saves", WARM3 + " ROT=1 NOQ3 M_V_COUNTS_QUARANTINED", 399902, VERIFIED),
    Row("V=1 is too little: K=1, one rots", SCRUB3 + " ROT=1", 607001, INTACT),
    Row("V=1 is too little: K=2, one rots, one bad", WARM3 + " K=2 ROT=1 BADW=1", 3923200, INTACT),
    Row("hint trusted", "N=1 PWEND=0 HINT=1 M_HINT_TRUSTED", 2263, GAP),
    Row("hint before sync", "N=1 PWEND=0 HINT=1 M_HINT_BEFORE_SYNC", 261, HINT),
    Row("no re-read after sync", "N=1 POWER=0 SURV=1 M_NO_REREAD_AFTER_SYNC", 190, IN_JOURNAL),
    Row("resume point unprotected", "N=1 S=2 POSIX=0 ROLL=1 M_RESUME_UNPROTECTED", 198881, RESUME),
    Row("loader takes a forgotten save for a free one",
        "N=1 POSIX=0 DEL=1 READER=1 M_LOADER_TRUSTS_NO_INTENT", 13255, WHOLE),
    Row("SUMMARY of a stale prefix", "N=1 FOLD=2 M_SUMMARY_STALE", 3323, DELETES_NAMED),
    Row("SUMMARY before its fold is durable", "N=1 FOLD=2 M_SUMMARY_BEFORE_FOLD", 975, FOLD_THERE),
    Row("fold removed before the newer SUMMARY is durable", "N=1 FOLD=2 M_FOLD_REMOVED_WITHOUT_SYNC", 3905, FOLD_THERE),
    Row("retention does condemn (a check of the check)", WARM3 + " K=2 V=2 ROT=1 REACH", 346, REACHED),
    # ---- larger ones
    Row("retention K=2 V=2, one rots, one bad", WARM3 + " K=2 V=2 ROT=1 BADW=1", 10888392, full=True),
    Row("retention K=2 V=1, one rots", WARM3 + " K=2 ROT=1", 6177544, full=True),
    Row("server restart, two collectors", "N=1 POWER=0 SURV=1 NGC=2", 21730515, full=True, memory_mib=4000),
    Row("DELETED, posix, two collectors", "N=1 DEL=1 NGC=2", 1598946, full=True),
    Row("retention K=2 V=2 from the start, one rots", SCRUB3 + " K=2 V=2 ROT=1", 35112428, full=True, memory_mib=6000),
    Row("abort, 2 attempts x 2 saves", "N=1 S=2 POSIX=0 ABORTS=1", 37666035, full=True, memory_mib=6000),
    Row("quarantine, two collectors, zombie", "N=1 POSIX=0 NGC=2 SCRUB=1 BADW=1", 49075762, full=True, memory_mib=6000),
    Row("loose rule K=2, 4 saves", WARM4 + " K=2 BADW=2 M_LOOSE_RULE", 4359477, K_GOOD, full=True),
    Row("loose rule K=2, 2 attempts", "N=1 S=2 POSIX=0 SCRUB=1 K=2 BADW=2 M_LOOSE_RULE", 6760960, INTACT, full=True),
]


@dataclass(frozen=True)
class Outcome:
    row: Row
    states: int
    seconds: float
    found: str                  # what the search ended with, in words
    surprise: str               # empty: as the table says


def judge(row, output, status):
    """What pan's output says, and the surprise in it if there is one."""
    stored = re.search(r"^\s*([0-9.e+]+) states, stored", output, re.M)
    states = int(float(stored.group(1))) if stored else 0
    errors = re.search(r"errors: (\d+)", output)
    trail = re.search(r"^pan:1: (.*?) \(at depth", output, re.M)
    found = trail.group(1) if trail else ("clean" if errors else "no end")
    if status != 0 or not errors:
        return states, found, f"pan ended with {status}: " + (output.strip().splitlines() or ["no output"])[-1]
    if "out of memory" in output or "-DMEMLIM bound" in output:
        return states, found, "the search ran out of memory"
    if row.fails:
        if not trail:
            return states, found, f"survived; it must fail in {row.fails}"
        return states, found, "" if row.fails in trail.group(1) else f"failed elsewhere, not in {row.fails}"
    if trail:
        return states, found, "must be clean"
    if "Search not completed" in output or "max search depth too small" in output:
        return states, found, "the search is not complete"
    if not 0.8 <= states / row.states <= 1.25:
        return states, found, f"the table says about {row.states:,} states"
    return states, found, ""


def check(row, scratch, number):
    work = scratch / str(number)
    work.mkdir()
    begin = time.monotonic()
    try:
        defines = ["-D" + flag for flag in row.flags.split()]
        small = row.fails and row.states < 300000
        compile_ = ["gcc", "-O0" if small else "-O1", "-w", "-DSAFETY", "-DNOFAIR", "-DCOLLAPSE",
                    f"-DMEMLIM={row.memory_mib}", "-o", "pan", "pan.c"]
        for command in (["spin", "-a", *defines, str(HERE / "commit.pml")], compile_):
            done = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0 or not (work / "pan.c").exists():
                return Outcome(row, 0, time.monotonic() - begin, "no model", f"{command[0]}: {done.stdout.strip()}")
        # -E: a process that waits for ever is a process that was stopped, not an error.
        done = subprocess.run(["./pan", "-n", "-m1000000", "-E"], cwd=work, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        states, found, surprise = judge(row, done.stdout, done.returncode)
        return Outcome(row, states, time.monotonic() - begin, found, surprise)
    finally:
        shutil.rmtree(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only rows whose name contains one of these")
    parser.add_argument("--full", action="store_true", help="the large configurations too")
    parser.add_argument("--list", action="store_true", help="print the table and end")
    parser.add_argument("--jobs", type=int, default=2, help="configurations at a time (default 2)")
    parser.add_argument("--ledger", action="store_true", help="append a line to campaigns/model.jsonl")
    options = parser.parse_args()

    rows = [row for row in TABLE if not row.full or options.full or options.list or options.names]
    if options.names:
        rows = [row for row in rows if any(word in row.name for word in options.names)]
    if not rows:
        parser.error("no row has such a name")
    if options.list:
        for row in rows:
            expected = f"fails in {row.fails}" if row.fails else "clean"
            print(f"{'full ' if row.full else 'quick'} {row.states:>11,}  {row.name} [{row.flags}]: {expected}")
        return 0
    missing = [tool for tool in ("spin", "gcc") if not shutil.which(tool)]
    if missing:
        print(f"model: {' and '.join(missing)} not found: install the package of that name", file=sys.stderr)
        return 1

    commit, begin = ledger.commit_now(), time.monotonic()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="unbroken-model-") as scratch, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # The longest first, so that the last one to end is a short one.
        order = sorted(rows, key=lambda row: -row.states)
        futures = [pool.submit(check, row, pathlib.Path(scratch), i) for i, row in enumerate(order)]
        for future in concurrent.futures.as_completed(futures):
            outcome = future.result()
            outcomes.append(outcome)
            verdict = "SURPRISE" if outcome.surprise else ("dies" if outcome.row.fails else "clean")
            print(f"{verdict:<8} {outcome.states:>11,} states {outcome.seconds:>6.1f} s  {outcome.row.name}", flush=True)
            if outcome.surprise:
                print(f"         [{outcome.row.flags}] found: {outcome.found}; {outcome.surprise}", flush=True)

    elapsed = time.monotonic() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    surprises = sum(1 for outcome in outcomes if outcome.surprise)
    clean = sum(1 for outcome in outcomes if not outcome.row.fails)
    states = sum(outcome.states for outcome in outcomes)
    print(f"model: {clean} clean and {len(outcomes) - clean} must fail, {states:,} states, {elapsed:.0f} s "
          f"({used.ru_utime + used.ru_stime:.0f} s of processor), "
          f"{surprises} surprise{'' if surprises == 1 else 's'}")
    if options.ledger:
        ledger.append("model", "model", n=len(outcomes), violations=surprises, elapsed_s=elapsed,
                      command=" ".join(["model/check.py", *sys.argv[1:]]), commit=commit, states=states,
                      rows={outcome.row.name: outcome.states for outcome in outcomes if not outcome.row.fails})
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
