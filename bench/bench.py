"""Saving and loading measured beside PyTorch, at equal durability, in one run.

    ./dev bench save|load [--json] [--quick]

Both sides write the same tensors to the same file system and are durable when the clock stops: file and directory
synced. They take turns (A B B A), so that a noisy machine disturbs both alike. A ratio is what counts; the seconds are
this machine's. `save` is the time from the call until the checkpoint is committed, hashing included; `load` is the time
until every byte is in memory, verified on our side, from a warm page cache.
"""

import argparse
import importlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from cases import BESIDE, CASES, LATER

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
# name -> (tensors, elements of float32 in each)
SHAPES = {"large": (25, MIB), "small": (5000, 5120)}


def sync(path):
    """fsync of a file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


class Ours:
    def __init__(self, folder, tensors):
        import unbroken

        self.load_run, self.path, self.tensors = unbroken.load, folder / "run", tensors
        self.run = unbroken.Run(self.path, every=10**9, keep_last=1)
        self.run.attach(tensors=tensors)
        self.run.restore()
        self.save()

    def save(self):
        self.run.step()
        self.run.save(wait=True)

    def settle(self):
        self.run.drain()

    def load(self):
        self.load_run(self.path)


class Torch:
    def __init__(self, folder, tensors):
        import torch

        self.torch, self.path, self.tensors = torch, folder / "state.pt", tensors
        self.save()

    def save(self):
        self.torch.save(self.tensors, self.path)
        sync(self.path)
        sync(self.path.parent)

    def settle(self):
        pass

    def load(self):
        self.torch.load(self.path, weights_only=True)


def interval(values):
    """95 % bootstrap interval of the median."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(1000))
    return [medians[25], medians[974]]


def compare(what, shape, repeats, folder):
    """Cases of one shape: ours, theirs, and the ratio of the times of each round."""
    import torch

    count, elements = SHAPES[shape]
    tensors = {f"layer.{i}": torch.randn(elements) for i in range(count)}
    sides = {"unbroken": Ours(folder, tensors), "torch": Torch(folder, tensors)}
    times = {name: [] for name in sides}
    for round_number in range(repeats):
        order = list(sides) if round_number % 2 else list(reversed(sides))
        for name in order:
            times[name].append(timed(getattr(sides[name], what)))
            sides[name].settle()
    ratios = [ours / theirs for ours, theirs in zip(times["unbroken"], times["torch"], strict=True)]
    nbytes = count * elements * 4
    cases = [{"name": f"{name}.{what}", "shape": shape, "bytes": nbytes, "repeats": repeats, "unit": "s",
              "median": statistics.median(taken), "ci95": interval(taken),
              "ratio": statistics.median(taken) / statistics.median(times["torch"])} for name, taken in times.items()]
    cases.append({"name": f"unbroken/torch.{what}", "shape": shape, "bytes": nbytes, "repeats": repeats, "unit": "ratio",
                  "median": statistics.median(ratios), "ci95": interval(ratios), "ratio": statistics.median(ratios)})
    return cases


def main(argv):
    if argv[:1] and argv[0] in BESIDE:
        return importlib.import_module(argv[0]).main(argv[1:])
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=[*CASES, *LATER], metavar="CASE", help=", ".join(map(" ".join, CASES.items())))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 11")
    arguments = parser.parse_args(argv)
    if arguments.what in LATER:
        print(f"error: bench {arguments.what}: comes later", file=sys.stderr)
        return 78
    repeats = 3 if arguments.quick else 11
    cases = []
    for shape in SHAPES:
        # Beside the sources, not in /tmp: that may be memory.
        with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / "build") as folder:
            cases += compare(arguments.what, shape, repeats, Path(folder))
    if arguments.json:
        print(json.dumps({"bench": arguments.what, "cases": cases}))
        return 0
    for case in cases:
        low, high = case["ci95"]
        print(f"{case['name']:<24} {case['shape']:<6} {case['bytes'] / MIB:8.0f} MiB  {case['median']:8.3f} {case['unit']:<6}"
              f" [{low:.3f}, {high:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
