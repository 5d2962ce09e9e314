"""The live campaign: a real training, killed again and again at random, beside what plan and simulate say of it.

    ./dev bench ettr [--kills 100] [--beside 20] [--mtti 3] [--seed 1] [--json]

One job saves with every="auto", one at half and one at twice the optimum. Their lives take turns, so that a noisy machine
disturbs all alike; each is killed by SIGKILL after an exponential time drawn from the seed. Time is scaled: the mean time
to interruption is seconds, a step is 20 ms of sleep, the state some MiB, and everything else is the product as it ships.
Efficiency is the work that stands at the end over all the time of the lives. The simulator is given the very kill times
and the measured costs, the closed form the costs alone.
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
from ettr_job import NOTE  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import ledger  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SEEDS = 200


class Job:
    """All lives of one run."""

    def __init__(self, name, folder, every, options):
        self.name, self.folder, self.every, self.options = name, folder, every, options
        self.wall_s, self.kills_s, self.lives = 0.0, [], []
        folder.mkdir()

    def live(self, for_s):
        """One life, killed after so long."""
        notes = self.folder / f"notes-{len(self.lives):04}"
        begins = time.monotonic()
        with open(self.folder / "stderr", "ab") as err:
            child = subprocess.Popen(
                [sys.executable, ROOT / "bench/ettr_job.py", self.folder / "run", notes, self.every,
                 f"{self.options.mtti}s", str(self.options.step), str(self.options.mib)], stderr=err)
            try:
                child.wait(max(0.0, begins + for_s - time.monotonic()))
                raise SystemExit(f"error: the job ended by itself with {child.returncode}: see {self.folder}/stderr")
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        ended = time.monotonic()
        self.wall_s += ended - begins
        self.kills_s.append(self.wall_s)
        data = notes.read_bytes() if notes.exists() else b""
        rows = [NOTE.unpack_from(data, at) for at in range(0, len(data) - NOTE.size + 1, NOTE.size)]
        self.lives.append((begins, ended, rows))

    def stands_at(self):
        """The step of the newest checkpoint, as the program lists it."""
        listed = subprocess.run([self.options.program, "ls", self.folder / "run", "--json"], capture_output=True, text=True)
        checkpoints = json.loads(listed.stdout).get("checkpoints", []) if listed.returncode == 0 else []
        return checkpoints[0]["step"] if checkpoints else 0

    def costs(self):
        """What the lives came to: means of every part, in seconds."""
        work, quiet, stalls, persists, intervals, recoveries, first_stalls = [], [], [], [], [], [], []
        for begins, _, rows in self.lives:
            last_save = None
            for before, (_, begin, end, saves, persist) in zip(rows, rows[1:]):
                work.append(begin - before[2])
                # A boundary that took a save: the next note counts one more, or this is the first step.
                is_first = before[1] == 0.0
                if is_first:
                    recoveries.append(before[2] - begins)
                    first_stalls.append(end - begin)
                if saves > before[3]:
                    persists.append(persist)
                took = end - begin
                if took > self.options.stall_min and not is_first:
                    stalls.append(took)
                    if last_save is not None:
                        intervals.append(begin - last_save)
                else:
                    quiet.append(took)
                if is_first or took > self.options.stall_min:
                    last_save = end
        boundary = statistics.median(quiet) if quiet else 0.0
        mean = lambda values: statistics.fmean(values) if values else 0.0  # noqa: E731
        return {"step_s": mean(work) + boundary, "stall_s": mean(stalls) - boundary, "persist_s": mean(persists),
                "interval_s": mean(intervals), "recovery_s": mean(recoveries) + mean(first_stalls) - boundary,
                "saves": len(stalls) + len(first_stalls), "kills": len(self.kills_s), "boundary_s": boundary}


def ask(program, command, costs, mtti_s, wall_s, *more):
    """What the program says of a job with these costs."""
    flags = {"mtti": mtti_s, "stall": max(costs["stall_s"], 1e-6), "persist": costs["persist_s"],
             "recovery": costs["recovery_s"], "interval": costs["interval_s"]}
    arguments = [text for name, value in flags.items() for text in (f"--{name}", f"{value:.9f}s")]
    done = subprocess.run([program, command, *arguments, "--gpus", "1", "--gpus-per-node", "1",
                           "--days", f"{wall_s / 86400:.12f}", "--json", *more], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: unbroken {command}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def result_of(job):
    costs = job.costs()
    wall_s = job.wall_s
    mtti_s = wall_s / len(job.kills_s)
    stands_at = job.stands_at()
    measured = {"name": job.name, "every": job.every, **costs, "wall_s": wall_s, "stands_at": stands_at,
                "efficiency": stands_at * costs["step_s"] / wall_s}
    if not costs["interval_s"]:
        return {**measured, "simulated_with_its_kills": 0, "simulated": 0, "closed_form": 0, "optimum_s": 0, "spread": 0}
    trace = job.folder / "kills.csv"
    trace.write_text("time_s\n" + "".join(f"{t:.6f}\n" for t in job.kills_s))
    program = job.options.program
    traced = ask(program, "simulate", costs, mtti_s, wall_s, "--trace", str(trace), "--seeds", "1")
    many = ask(program, "simulate", costs, job.options.mtti, wall_s, "--seeds", str(SEEDS))
    plan = ask(program, "plan", costs, job.options.mtti, wall_s)
    return {**measured, "simulated_with_its_kills": traced["efficiency"]["mean"],
            "closed_form": plan["efficiency"], "optimum_s": plan["interval"]["exact_s"],
            "spread": many["efficiency"]["stderr"] * math.sqrt(SEEDS), "simulated": many["efficiency"]["mean"]}


def campaign(options, folder):
    chance = random.Random(options.seed)
    trial = Job("trial", folder / "trial", "10", options)
    trial.live(options.trial)
    measured = trial.costs()
    best = ask(options.program, "plan", {**measured, "interval_s": 1.0}, options.mtti, 60.0)["interval"]["exact_s"]
    jobs = [Job("auto", folder / "auto", "auto", options), Job("half", folder / "half", f"{best / 2:.3f}s", options),
            Job("twice", folder / "twice", f"{best * 2:.3f}s", options)]
    begun = time.monotonic()
    turns = [jobs[0]] * options.kills + [jobs[1], jobs[2]] * options.beside
    chance.shuffle(turns)
    for i, job in enumerate(turns, 1):
        job.live(chance.expovariate(1 / options.mtti))
        if sys.stderr.isatty():
            print(f"\r{i} of {len(turns)} kills, {time.monotonic() - begun:.0f} s", end="", file=sys.stderr)
    return [result_of(job) for job in jobs if job.lives], time.monotonic() - begun


def report(results, elapsed_s):
    print(f"{'job':<6} {'kills':>5} {'saves':>6} {'interval':>9} {'stall':>8} {'persist':>8} {'recovery':>8} "
          f"{'measured':>9} {'simulated':>9} {'closed':>7} {'spread':>7}")
    for r in results:
        print(f"{r['name']:<6} {r['kills']:5} {r['saves']:6} {r['interval_s']:8.3f}s {r['stall_s'] * 1e3:6.1f}ms "
              f"{r['persist_s'] * 1e3:6.1f}ms {r['recovery_s']:7.3f}s {r['efficiency']:9.4f} "
              f"{r['simulated_with_its_kills']:9.4f} {r['closed_form']:7.4f} {r['spread']:7.4f}")
    print(f"took {elapsed_s:.0f} s; `simulated` is fed with the very kills, `spread` is one standard deviation of such a campaign")


def note(options, results, elapsed_s):
    """One line in the ledger."""
    auto = results[0]
    ledger.append("ettr", "ettr", n=sum(r["kills"] for r in results), elapsed_s=elapsed_s, command=options.command,
                  violations=int(abs(auto["efficiency"] - auto["closed_form"]) > 3 * auto["spread"]),
                  seed_first=options.seed, seed_last=options.seed, load=round(os.getloadavg()[0], 2),
                  jobs=[{k: round(v, 6) if isinstance(v, float) else v for k, v in r.items()} for r in results])


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev bench ettr", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of the job with every=auto")
    parser.add_argument("--beside", type=int, default=20, help="of each of the others")
    parser.add_argument("--mtti", type=float, default=3.0, help="seconds")
    parser.add_argument("--step", type=float, default=0.02, help="seconds")
    parser.add_argument("--mib", type=float, default=32, help="of state")
    parser.add_argument("--trial", type=float, default=6.0, help="seconds of a first life that measures what a save costs")
    parser.add_argument("--stall-min", type=float, default=0.002, help="a boundary longer than this took a save")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=str(ROOT / "build/bin/unbroken"), help="that plans and simulates")
    parser.add_argument("--ledger", action="store_true", help="add a line to campaigns/ettr.jsonl")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    options.command = " ".join(["./dev bench ettr", *(word for word in argv if word != "--ledger")])
    with tempfile.TemporaryDirectory(prefix="ettr-", dir=ROOT / "build") as folder:
        results, elapsed_s = campaign(options, Path(folder))
    if options.ledger:
        note(options, results, elapsed_s)
    if options.json:
        print(json.dumps({"bench": "ettr", "cases": results, "elapsed_s": elapsed_s}))
    else:
        report(results, elapsed_s)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
