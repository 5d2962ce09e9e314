"""What a user does first with an installed wheel; argument: the program that was installed beside it."""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import unbroken


def life(folder, steps):
    """One life of a training of one array; the array at its end, and the steps it ran."""
    weights = np.zeros(1000)
    ran = 0
    with unbroken.Run(folder, every=2) as run:
        run.attach(weights=weights)
        for _ in run.steps(steps):
            weights += 1
            ran += 1
    return weights, ran


def main():
    program = sys.argv[1]
    package = pathlib.Path(unbroken.__file__).parent
    assert package.is_relative_to(sys.prefix), f"{package} is not what was installed"
    with tempfile.TemporaryDirectory() as base:
        folder = pathlib.Path(base, "run")
        life(folder, 5)
        weights, ran = life(folder, 8)
        assert ran == 3, f"the second life ran {ran} steps, expected 3"
        assert (weights == 8).all(), weights
        assert (unbroken.load(folder)["weights"] == 8).all()
        verified = subprocess.run([program, "verify", folder, "--json"], stdout=subprocess.PIPE, check=True)
        assert json.loads(verified.stdout)["ok"], verified.stdout
    version = subprocess.run([program, "version", "--json"], stdout=subprocess.PIPE, check=True)
    assert json.loads(version.stdout)["version"] == unbroken.__version__, version.stdout
    for name in ("py.typed", "_core.pyi"):
        assert (package / name).exists(), f"{name} is not in the wheel"


main()
