"""The live campaign: a real training, killed again and again at random, beside what plan and simulate say of it.

    ./dev bench ettr [--kills 100] [--mtti 4] [--seed 1] [--ledger] [--json]

A job that saves with every="auto" is killed by SIGKILL after exponential times drawn from the seed. Time is scaled: the mean
time to interruption is seconds, a step is 20 ms of sleep, the state some MiB, and everything else is the product as it
ships. Its efficiency is the time of the steps that stand at the end over all the time of the lives.

The simulator is given what the lives were: when each was killed, what its recovery took (from the kill before it to its
first step; one that was killed before that never recovered), and one of its own intervals between saves, drawn anew in
each of many runs, as where in an interval a kill falls is chance. Of the saves it is given means. The closed form knows
means alone. Nothing is taken from the efficiency that was measured.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import ettr_log  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import ledger  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SEEDS = 200  # of the simulator's own failures
DRAWS = 50  # of intervals, with the campaign's failures
AGREES = 0.01  # measured and simulated, relative
APART = 3  # standard deviations of a campaign, measured and closed form


def live(folder, number, for_s, options):
    """One life, killed after so long."""
    notes = folder / f"notes-{number:04}"
    begins = time.monotonic()
    with open(folder / "stderr", "ab") as err:
        child = subprocess.Popen([sys.executable, ROOT / "bench/ettr_job.py", folder / "run", notes, "auto",
                                  f"{options.mtti}s", str(options.step), str(options.mib)], stderr=err)
        try:
            child.wait(max(0.0, begins + for_s - time.monotonic()))
            raise SystemExit(f"error: the job ended by itself with {child.returncode}: see {folder}/stderr")
        except subprocess.TimeoutExpired:
            killed = time.monotonic()
            child.kill()
            child.wait()
    ended = time.monotonic()
    with open(folder / "lives.jsonl", "a", encoding="utf-8") as out:
        out.write(json.dumps({"begins": begins, "killed": killed, "ended": ended}) + "\n")
    return ettr_log.life_of(begins, killed, ended, notes.read_bytes() if notes.exists() else b"")


def program(options, *arguments):
    done = subprocess.run([options.program, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: unbroken {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def ask(options, command, times, *more):
    """What the program says of a job with these times, in seconds by flag."""
    flags = [text for name, value in times.items() for text in (f"--{name}", f"{value:.9f}s")]
    return program(options, command, *flags, "--gpus", "1", "--gpus-per-node", "1", *more)


def follow(options, folder, lives, costs, wall_s, chance):
    """Efficiencies of the job simulated with its own lives, one for each draw of intervals."""
    out, skipped = [], 0
    trace = folder / "lives.csv"
    days = ("--days", f"{(wall_s + 1e-6) / 86400:.15f}")  # so that the last kill counts
    for _ in range(DRAWS):
        rows, at_s, exit_s = [], 0.0, 0.0
        for life in lives:
            at_s += exit_s + life.killed - life.begins
            recovery_s = math.inf if life.restored is None else exit_s + life.recovery_s
            interval_s = chance.choice(life.intervals() or costs["intervals"])
            rows.append(f"{at_s:.9f},{recovery_s:.9f},{interval_s:.9f}\n")
            exit_s = life.ended - life.killed
        trace.write_text("time_s,recovery_s,interval_s\n" + "".join(rows))
        said = ask(options, "simulate", {"mtti": options.mtti, "stall": costs["stall_s"], "persist": costs["persist_s"],
                                         "recovery": costs["recovery_s"], "interval": costs["interval_s"],
                                         "first-save": costs["first_step_s"], "first-stall": costs["first_stall_s"]},
                   *days, "--trace", trace, "--seeds", "1")
        out.append(said["efficiency"]["mean"])
        skipped += said["saves_skipped"]
    return out, skipped / DRAWS


def result_of(options, folder, lives):
    stands_at = program(options, "ls", folder / "run")["checkpoints"][0]["step"]
    spent = ettr_log.account(lives, stands_at)
    wall_s = sum(spent.values())
    measured = spent["work"] / wall_s
    costs = ettr_log.costs(lives)
    draws, skipped = follow(options, folder, lives, costs, wall_s, random.Random(options.seed))
    simulated = statistics.fmean(draws)
    # The formula's recovery lasts until the stall of the first save is over.
    times = {"mtti": options.mtti, "stall": costs["stall_s"], "persist": costs["persist_s"],
             "recovery": costs["recovery_s"] + costs["first_stall_s"], "interval": costs["interval_s"]}
    days = ("--days", f"{wall_s / 86400:.15f}")
    plan = ask(options, "plan", times, *days)
    many = ask(options, "simulate", times, *days, "--seeds", str(SEEDS))
    spread = many["efficiency"]["stderr"] * math.sqrt(SEEDS)
    chosen = program(options, "explain", folder / "run")
    phase = statistics.stdev(draws)  # of the campaign as of each draw: where in an interval the kills fell
    return {"kills": len(lives), "wall_s": wall_s, "spent_s": spent, "efficiency": measured,
            "simulated": simulated, "simulated_stderr": math.hypot(phase, phase / math.sqrt(DRAWS)),
            "closed_form": plan["efficiency"], "closed_form_stderr": spread,
            "simulator_agrees": abs(measured / simulated - 1) <= AGREES,
            "closed_form_agrees": abs(measured - plan["efficiency"]) <= APART * spread,
            "optimum_s": plan["interval"]["exact_s"], "saves_skipped": skipped,
            "believed": {key: chosen[key] for key in ("interval_s", "stall_s", "mtti_s", "failures", "bound_by")},
            **{key: value for key, value in costs.items() if key != "intervals"}}


def kept(folder):
    """The lives of a campaign whose logs were kept."""
    out = []
    for i, line in enumerate((folder / "lives.jsonl").read_text().splitlines()):
        times, notes = json.loads(line), folder / f"notes-{i:04}"
        out.append(ettr_log.life_of(*(times[key] for key in ("begins", "killed", "ended")),
                                    notes.read_bytes() if notes.exists() else b""))
    return out


def campaign(options, folder):
    chance = random.Random(options.seed)
    begun = time.monotonic()
    lives = []
    for i in range(options.kills):
        lives.append(live(folder, i, chance.expovariate(1 / options.mtti), options))
        if sys.stderr.isatty():
            print(f"\r{i + 1} of {options.kills} kills, {time.monotonic() - begun:.0f} s", end="", file=sys.stderr)
    return result_of(options, folder, lives), time.monotonic() - begun


def report(r, elapsed_s):
    parts = ", ".join(f"{name.replace('_', ' ')} {100 * seconds / r['wall_s']:.2f} %" for name, seconds in r["spent_s"].items())
    print(f"{r['kills']} kills in {r['wall_s']:.0f} s: {parts}")
    print(f"save: stall {r['stall_s'] * 1e3:.1f} ms, the first of a life {r['first_stall_s'] * 1e3:.1f} ms, "
          f"persist {r['persist_s'] * 1e3:.1f} ms; recovery {r['recovery_s'] * 1e3:.0f} ms")
    print(f"interval {r['interval_s']:.3f} s, where {r['optimum_s']:.3f} s is best")
    print(f"efficiency   measured {r['efficiency']:.4f}")
    print(f"simulated with its lives {r['simulated']:.4f} +- {r['simulated_stderr']:.4f}, "
          f"{100 * (r['efficiency'] / r['simulated'] - 1):+.2f} %{'' if r['simulator_agrees'] else ': DIFFERS'}")
    print(f"closed form              {r['closed_form']:.4f} +- {r['closed_form_stderr']:.4f}"
          f"{'' if r['closed_form_agrees'] else ': DIFFERS'}")
    print(f"took {elapsed_s:.0f} s; +- is one standard deviation of what chance does to such a campaign")


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev bench ettr", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--mtti", type=float, default=4.0, help="seconds")
    parser.add_argument("--step", type=float, default=0.02, help="seconds")
    parser.add_argument("--mib", type=float, default=32, help="of state")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=str(ROOT / "build/bin/unbroken"), help="that plans and simulates")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the logs of all lives there, a new folder")
    parser.add_argument("--again", type=Path, metavar="DIR", help="kill nothing, account for logs that were kept")
    parser.add_argument("--ledger", action="store_true", help="add a line to campaigns/ettr.jsonl")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.again:
        lives = kept(options.again)
        options.kills = len(lives)
        result, elapsed_s = result_of(options, options.again, lives), lives[-1].ended - lives[0].begins
    elif options.keep:
        options.keep.mkdir()
        result, elapsed_s = campaign(options, options.keep)
    else:
        with tempfile.TemporaryDirectory(prefix="ettr-", dir=ROOT / "build") as folder:
            result, elapsed_s = campaign(options, Path(folder))
    result = rounded(result)
    flags = {name: getattr(options, name) for name in ("kills", "mtti", "step", "mib", "seed")}
    command = " ".join(["./dev bench ettr", *(f"--{name} {value:g}" for name, value in flags.items())])
    if options.ledger:
        ledger.append("ettr", "ettr", n=result["kills"], elapsed_s=elapsed_s, command=command,
                      violations=(not result["simulator_agrees"]) + (not result["closed_form_agrees"]),
                      seed_first=options.seed, seed_last=options.seed, load=round(os.getloadavg()[0], 2), flags=flags,
                      **{key: value for key, value in result.items()})
    if options.json:
        print(json.dumps({"bench": "ettr", "cases": [result], "elapsed_s": elapsed_s}))
    else:
        report(result, elapsed_s)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
