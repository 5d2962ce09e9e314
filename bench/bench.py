"""Saves and loads measured beside other ways to do so, at equal durability, and beside the device, in one run.

    ./dev bench save|load|small|scale|stall|interference [--mib N] [--repeats N | --quick] [--only NAME]... [--json]
                                                         [--keep FILE] [--chart FILE]

Entrants take turns in rounds, A B C and C B A, in one directory, each in a process of its own that stays over all rounds.
In every round the plainest program writes and reads as many bytes there: that is `raw`, and a ratio to it is what counts.
The seconds are this machine's. A save is clocked from the call until it is durable: files and directories are synced, by
the entrant or, where it does not, by us. A load starts from an empty page cache and ends when every byte is in memory.
`stall` and `interference` clock a training in one thread: steps with a save against the quiet steps before and after it.
"""

import argparse
import importlib
import json
import sys
import tempfile
from pathlib import Path

import rivals
from cases import BESIDE, CASES
from race import chart, machine, table, trainings, transfers

ROOT = Path(__file__).resolve().parent.parent
SCALE = ("1", "300", "10000", "100000")
# case -> (what is clocked, shape) of each race in it
RACES = {"save": [("save", "large")], "load": [("load", "large")], "small": [("save", "small"), ("load", "small")],
         "scale": [("save", count) for count in SCALE], "stall": [("stall", "large"), ("stall", "small")],
         "interference": [("interference", "large")]}
BESIDE_A_TRAINING = {"stall": trainings.Stalls, "interference": trainings.Interference}


def race_of(options, what, *arguments):
    kind = BESIDE_A_TRAINING.get(what)
    return kind(*arguments) if kind else transfers.Transfers(what, *arguments, drops_all=options.drop_caches)


def entrants(what):
    """Names of those that take part, ours first."""
    if what == "scale":
        return [rivals.OURS, "torch.save"]
    return rivals.of_case("train") + [rivals.CONTROL] * (what == "stall") if what in BESIDE_A_TRAINING else rivals.of_case(what)


def notes(options, races):
    if options.what in BESIDE_A_TRAINING:
        return ["a step: matrices in one thread, then AdamW's update of all tensors in place"]
    words = next((race["yardstick"] for race in races if race["yardstick"]), {})
    return ["raw: O_DIRECT, " + "; ".join(f"{verb} {how}" for verb, how in words.items()) + ", the best of those tried",
            "cold: posix_fadvise(DONTNEED) of every file" + (", and drop_caches" if options.drop_caches else "")]


def measure(options, folder):
    """The whole result."""
    described = machine.description(folder)
    races = []
    for number, (what, shape) in enumerate(RACES[options.what]):
        if options.shape not in (shape, None):
            continue
        names = options.only or entrants(options.what if options.what != "small" else what)
        race = race_of(options, what, shape, options.mib, options.repeats, folder / f"race-{number}", names)
        races.append(race.run().result())
    return {"bench": options.what, "machine": described, "options": {"mib": options.mib, "repeats": options.repeats},
            "only": options.only, "notes": notes(options, races), "cases": [case for race in races for case in race["cases"]],
            "races": [{key: value for key, value in race.items() if key != "cases"} for race in races]}


def main(argv):
    if argv[:1] and argv[0] in BESIDE:
        return importlib.import_module(argv[0]).main(argv[1:])
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(CASES), metavar="CASE", help=", ".join(map(" ".join, CASES.items())))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 11, and 256 MiB")
    parser.add_argument("--mib", type=int, help="size of the state (2048)")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--shape", choices=("large", "small"), help="of the races of a case that has both, this alone")
    parser.add_argument("--only", action="append", metavar="NAME", choices=list(rivals.ENTRANTS), help="who takes part")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="the result goes there as well, as JSON")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="a picture goes there, as SVG")
    parser.add_argument("--drop-caches", action="store_true", help="empty every cache of the kernel before a load (as root)")
    options = parser.parse_args(argv)
    if options.what == "interference":
        trainings.need_fio()
    options.mib = options.mib or (256 if options.quick else 2048)
    options.repeats = options.repeats or (3 if options.quick else 11)
    # Beside the sources, not in /tmp: that may be memory.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / "build") as folder:
        result = measure(options, Path(folder))
    if options.keep:
        options.keep.write_text(json.dumps(result, indent=1) + "\n")
    if options.chart:
        options.chart.write_text(chart.svg(result))
    print(json.dumps(result) if options.json else table.text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
