"""The live campaign: a real training, killed again and again at random, beside what plan and simulate say of it.

    ./dev bench ettr [--kills 120] [--mtti 8] [--seed 1] [--keep DIR [--slice 30]] [--ledger] [--json]

A job that saves with every="auto" is killed by SIGKILL after exponential times drawn from the seed. Time is scaled: the mean
time to interruption is seconds, a step is 20 ms of sleep, the state some MiB, and everything else is the product as it
ships. Its efficiency is the time of the steps that stand at the end over all the time of the lives.

With --keep the logs stay in DIR, and the same command goes on with a campaign that is there already; --slice ends a call
after so many kills, so that a long campaign fits into quiet hours.

The simulator is given what the lives were: when each was killed, what its recovery took (from the kill before it to its
first step; one that was killed before that never recovered), and one of its own intervals between saves, drawn anew in
each of many runs, as where in an interval a kill falls is chance. A long interval is drawn more often, as more of the time
lies in it. Of the saves it is given means. The closed form knows means alone. Nothing is taken from the efficiency that was
measured. It is simulated in blocks of lives: how far measured and simulated are apart in each tells how well the whole is
known.
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools/campaign"))
import ledger  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SEEDS = 200  # of the simulator's own failures
DRAWS = 25  # of intervals, with the campaign's failures
BLOCKS = 20  # that the lives are simulated in
AGREES = 0.01  # measured and simulated, relative
APART = 3  # standard deviations of a campaign, measured and closed form


def live(folder, number, for_s, options):
    """One life, killed after so long; sooner where this program is interrupted, as time that went by must be known."""
    begins = time.monotonic()
    with open(folder / "stderr", "ab") as err:
        child = subprocess.Popen([sys.executable, ROOT / "bench/ettr_job.py", folder / "run", folder / f"notes-{number:04}",
                                  "auto", f"{options.mtti}s", str(options.step), str(options.mib)], stderr=err,
                                 start_new_session=True)
        try:
            child.wait(max(0.0, begins + for_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            killed = time.monotonic()
            code = child.poll()
            child.kill()
            child.wait()
            with open(folder / "lives.jsonl", "a", encoding="utf-8") as out:
                out.write(json.dumps({"begins": begins, "killed": killed, "ended": time.monotonic()}) + "\n")
    if code is not None:
        raise SystemExit(f"error: the job ended by itself with {code}: see {folder}/stderr")


def program(options, *arguments):
    done = subprocess.run([options.program, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: unbroken {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def ask(options, command, times, *more):
    """What the program says of a job with these times, in seconds by flag."""
    flags = [text for name, value in times.items() for text in (f"--{name}", f"{value:.9f}s")]
    return program(options, command, *flags, "--gpus", "1", "--gpus-per-node", "1", *more)


def simulated_s(options, trace, block, exit_s, costs, chance):
    """Work of some lives, simulated with an interval drawn for each: seconds that stand, and saves that were skipped.
    `exit_s`: what the death of the life before them took."""
    rows, at_s = [], 0.0
    for life in block:
        at_s += exit_s + life.killed - life.begins
        recovery_s = math.inf if life.restored is None else exit_s + life.recovery_s
        intervals = life.intervals() or costs["intervals"]
        rows.append(f"{at_s:.9f},{recovery_s:.9f},{chance.choices(intervals, intervals)[0]:.9f}\n")
        exit_s = life.ended - life.killed
    trace.write_text("time_s,recovery_s,interval_s\n" + "".join(rows))
    said = ask(options, "simulate", {"mtti": options.mtti, "stall": costs["stall_s"], "persist": costs["persist_s"],
                                     "recovery": costs["recovery_s"], "interval": costs["interval_s"],
                                     "first-save": costs["first_step_s"], "first-stall": costs["first_stall_s"]},
               "--days", f"{(at_s + 1e-6) / 86400:.15f}", "--trace", trace, "--seeds", "1")  # so that the last kill counts
    return said["efficiency"]["mean"] * at_s, said["saves_skipped"]


def follow(options, folder, lives, measured_s, blocks=BLOCKS, draws=DRAWS):
    """The job simulated with its own lives, beside the work of each life that stands: work in seconds, one standard
    deviation of what is left between the two, and saves that were skipped."""
    costs, chance = ettr_log.costs(lives), random.Random(options.seed)
    blocks = min(blocks, len(lives))
    total_s, skipped, apart_s = 0.0, 0.0, []
    for i in range(blocks):
        first, end = len(lives) * i // blocks, len(lives) * (i + 1) // blocks
        exit_s = lives[first - 1].ended - lives[first - 1].killed if first else 0.0
        runs = [simulated_s(options, folder / "lives.csv", lives[first:end], exit_s, costs, chance) for _ in range(draws)]
        work_s = statistics.fmean(run[0] for run in runs)
        total_s += work_s
        skipped += statistics.fmean(run[1] for run in runs)
        apart_s.append(sum(measured_s[first:end]) - work_s)
    return total_s, statistics.stdev(apart_s) * math.sqrt(blocks) if blocks > 1 else math.nan, skipped


def result_of(options, folder, lives):
    stands_at = program(options, "ls", folder / "run")["checkpoints"][0]["step"]
    spent = ettr_log.account(lives, stands_at)
    wall_s = sum(spent.values())
    measured = spent["work"] / wall_s
    costs = ettr_log.costs(lives)
    simulated_work_s, apart_s, skipped = follow(options, folder, lives, ettr_log.works(lives, stands_at))
    simulated = simulated_work_s / wall_s
    # The formula's recovery lasts until the stall of the first save is over.
    times = {"mtti": options.mtti, "stall": costs["stall_s"], "persist": costs["persist_s"],
             "recovery": costs["recovery_s"] + costs["first_stall_s"], "interval": costs["interval_s"]}
    days = ("--days", f"{wall_s / 86400:.15f}")
    plan = ask(options, "plan", times, *days)
    many = ask(options, "simulate", times, *days, "--seeds", str(SEEDS))
    spread = many["efficiency"]["stderr"] * math.sqrt(SEEDS)
    chosen = program(options, "explain", folder / "run")
    return {"kills": len(lives), "wall_s": wall_s, "spent_s": spent, "efficiency": measured,
            "simulated": simulated, "simulated_stderr": apart_s / wall_s,
            "closed_form": plan["efficiency"], "closed_form_stderr": spread,
            "simulator_agrees": abs(measured / simulated - 1) <= AGREES,
            "closed_form_agrees": abs(measured - plan["efficiency"]) <= APART * spread,
            "optimum_s": plan["interval"]["exact_s"], "saves_skipped": skipped,
            "believed": {key: chosen[key] for key in ("interval_s", "stall_s", "mtti_s", "failures", "bound_by")},
            **{key: value for key, value in costs.items() if key != "intervals"}}


def kept(folder):
    """The lives of a campaign so far."""
    out, log = [], folder / "lives.jsonl"
    for i, line in enumerate(log.read_text().splitlines() if log.exists() else []):
        times, notes = json.loads(line), folder / f"notes-{i:04}"
        out.append(ettr_log.life_of(*(times[key] for key in ("begins", "killed", "ended")),
                                    notes.read_bytes() if notes.exists() else b""))
    return out


def kill_times(options):
    """Seconds from the begin of each life; the same however the campaign is sliced."""
    chance = random.Random(options.seed)
    return [chance.expovariate(1 / options.mtti) for _ in range(options.kills)]


def campaign(options, folder):
    """Goes on until all kills were made, or those of one slice. The lives so far."""
    flags = folder / "flags.json"
    if not flags.exists():
        flags.write_text(json.dumps(flags_of(options)))
    elif json.loads(flags.read_text()) != flags_of(options):
        raise SystemExit(f"error: {folder} holds a campaign with other flags: {flags.read_text()}")
    begun, done = time.monotonic(), len(kept(folder))
    end = min(options.kills, done + (options.slice or options.kills))
    for i, for_s in enumerate(kill_times(options)[:end]):
        if i < done:
            continue
        live(folder, i, for_s, options)
        if sys.stderr.isatty() or (i + 1) % 10 == 0 or i + 1 == end:
            print(f"{i + 1} of {options.kills} kills, {time.monotonic() - begun:.0f} s", file=sys.stderr,
                  end="\r" if sys.stderr.isatty() and i + 1 < end else "\n", flush=True)
    return kept(folder)


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
    print(f"took {elapsed_s:.0f} s; +- is one standard deviation: of what is left between the two, and of what chance does to "
          "such a campaign")


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def flags_of(options):
    return {name: getattr(options, name) for name in ("kills", "mtti", "step", "mib", "seed")}


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev bench ettr", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=120)
    parser.add_argument("--mtti", type=float, default=8.0, help="seconds")
    parser.add_argument("--step", type=float, default=0.02, help="seconds")
    parser.add_argument("--mib", type=float, default=8, help="of state")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=str(ROOT / "build/bin/unbroken"), help="that plans and simulates")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the logs there; go on with a campaign that is there")
    parser.add_argument("--slice", type=int, metavar="N", help="end after so many kills; the same command goes on")
    parser.add_argument("--again", type=Path, metavar="DIR", help="kill nothing, account for the lives that were kept there")
    parser.add_argument("--ledger", action="store_true", help="add a line to campaigns/ettr.jsonl, at the end of a campaign")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.slice and not options.keep:
        parser.error("--slice needs --keep DIR: the next call goes on there")
    if options.again:
        vars(options).update(json.loads((options.again / "flags.json").read_text()))
        return conclude(options, options.again, kept(options.again))
    if not options.keep:
        with tempfile.TemporaryDirectory(prefix="ettr-", dir=ROOT / "build") as folder:
            return conclude(options, Path(folder), campaign(options, Path(folder)))
    options.keep.mkdir(parents=True, exist_ok=True)
    lives = campaign(options, options.keep)
    return conclude(options, options.keep, lives) if len(lives) >= options.kills else 0


def conclude(options, folder, lives):
    result = rounded(result_of(options, folder, lives))
    flags = flags_of(options)
    command = " ".join(["./dev bench ettr", *(f"--{name} {value:g}" for name, value in flags.items())])
    elapsed_s = round(sum(life.ended - life.begins for life in lives), 1)
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
