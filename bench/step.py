"""What a completed step costs that saves nothing: the whole run.step(), and the decision alone.

    ./dev bench step [--steps 20000] [--json]

A torch Linear and its AdamW are attached, and each step notes a loss. The medians of rounds are what counts: on a busy
machine single steps wait for others.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 20


def measure(folder, steps):
    import torch

    import unbroken

    run = unbroken.Run(Path(folder) / "run", every="auto", mtti="1000d")
    model = torch.nn.Linear(100, 100)
    optimizer = torch.optim.AdamW(model.parameters())
    run.attach(model=model, optimizer=optimizer)
    run.restore()
    run.step()
    run.drain()
    whole, alone = [], []
    for _ in range(ROUNDS):
        taken = 0.0
        for _ in range(steps // ROUNDS):
            optimizer.step()
            begun = time.perf_counter()
            run.step(loss=0.5)
            taken += time.perf_counter() - begun
        whole.append(taken / (steps // ROUNDS))
        run.drain()
        is_due, step = run._inside.is_due, run._inside.step
        begun = time.perf_counter()
        for _ in range(steps // ROUNDS):
            is_due(step)
        alone.append((time.perf_counter() - begun) / (steps // ROUNDS))
    native_s = run.stats()["decide_ns"] * 1e-9
    saves = run.stats()["saves"]
    run.close()
    return whole, alone, native_s, saves


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev bench step", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / "build") as folder:
        whole, alone, native_s, saves = measure(folder, options.steps)
    cases = [{"name": name, "shape": "two objects", "bytes": 0, "repeats": len(values), "unit": "s",
              "median": statistics.median(values), "ci95": [min(values), max(values)], "ratio": statistics.median(values) / limit}
             for name, values, limit in (("run.step", whole, 50e-6), ("decision.python", alone, 10e-6),
                                         ("decision.native", [native_s], 1e-6))]
    if options.json:
        print(json.dumps({"bench": "step", "cases": cases, "saves": saves}))
        return 0
    for case in cases:
        low, high = case["ci95"]
        print(f"{case['name']:<16} {case['median'] * 1e6:8.3f} us  [{low * 1e6:.3f}, {high * 1e6:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
