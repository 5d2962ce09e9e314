"""Is there a depth and a size of blocks that is better in a directory than ours, and would a short probe find it?

    ./dev bench blocks [DIR]... [--mib 256] [--probe-mib 32] [--rounds 9] [--json]

The yardstick writes by threads, past the page cache, and syncs, as shards are written. In each round every pair writes a
little, in an order drawn anew: that is the probe, and the fastest is its pick. Then the pick and our own pair write a
file each, in turn first, and every pair writes one once more. Ratios over 1 are faster than our own in the same round.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from race import figures
from race.field import MIB, Yardstick

ROOT = Path(__file__).resolve().parent.parent
OURS = (8, 8)  # at once, and MiB: the io lane's threads and kBlockBytes
PAIRS = (OURS, (4, 8), (16, 4), (8, 4), (4, 4), (8, 2), (16, 1), (8, 1))


def measure(folder, options):
    yardstick = Yardstick(folder)

    def written_s(pair, mib):
        yardstick.settings["write"] = (pair[1] * MIB, pair[0], "threads")
        seconds, _ = yardstick.direct("write", mib * MIB)
        yardstick.remove_file()
        return seconds

    picks, probe_s, ratios, takes = [], [], [], {pair: [] for pair in PAIRS}
    written_s(OURS, options.mib)
    for number in range(options.rounds):
        order = random.sample(PAIRS, len(PAIRS))
        begun = time.perf_counter()
        tried = {pair: written_s(pair, options.probe_mib) for pair in order}
        probe_s.append(time.perf_counter() - begun)
        picks.append(min(tried, key=tried.get))
        turns = [OURS, picks[-1]][:: 1 if number % 2 else -1]
        seconds = [written_s(pair, options.mib) for pair in turns]
        ratios.append(seconds[0] / seconds[1] if number % 2 else seconds[1] / seconds[0])
        for pair in order:
            takes[pair].append(written_s(pair, options.mib))
    return {"probe_s": statistics.median(probe_s), "picks": [name(pair) for pair in picks], "picked": figures.figure(ratios),
            "pairs": {name(pair): figures.ratio(takes[OURS], takes[pair]) for pair in PAIRS[1:]}}


def name(pair):
    return f"{pair[0]} x {pair[1]} MiB"


def line(what, ratios):
    low, high = ratios["ci95"]
    return f"  {what:22} {ratios['median']:.2f}  ({low:.2f} to {high:.2f})"


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev bench blocks", description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="*", type=Path, metavar="DIR", help="where to write (build/)")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--probe-mib", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    found = []
    for directory in options.directories or [ROOT / "build"]:
        with tempfile.TemporaryDirectory(prefix="bench-", dir=directory) as folder:
            found.append({"directory": str(directory), **measure(Path(folder) / "blocks", options)})
    if options.json:
        print(json.dumps({"bench": "blocks", "ours": name(OURS), "directories": found}))
        return 0
    for one in found:
        print(f"{one['directory']}: {name(OURS)} is 1; a probe of {one['probe_s']:.1f} s")
        print(line("what the probe picked", one["picked"]), "-", ", ".join(one["picks"]))
        for pair, ratios in one["pairs"].items():
            print(line(pair, ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
