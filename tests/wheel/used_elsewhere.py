"""What a user does first with an installed wheel; argument: the program that was installed beside it."""

import importlib
import importlib.util
import json
import pathlib
import shutil
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


def trained(folder, *lives):
    """The weights of a torch training with dropout and a shuffling loader, after lives that end at these steps."""
    import torch

    for steps in lives:
        torch.manual_seed(0)
        x = torch.randn(24, 4)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        loader = unbroken.torch.DataLoader(torch.utils.data.TensorDataset(x), batch_size=4, shuffle=True)
        with unbroken.Run(folder, every=2) as run:
            run.attach(model=model, optimizer=optimizer, loader=loader)
            for _, (batch,) in run.steps(steps, loader):
                optimizer.zero_grad()
                (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
                optimizer.step()
    return [parameter.tolist() for parameter in model.parameters()]


def main():
    program = sys.argv[1]
    for compiler in ("cc", "gcc", "c++", "g++", "clang", "clang++", "cmake", "ninja"):
        assert shutil.which(compiler) is None, f"{compiler} is at hand here"
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
        if importlib.util.find_spec("torch"):
            importlib.import_module("unbroken.torch")
            assert trained(pathlib.Path(base, "whole"), 20) == trained(pathlib.Path(base, "resumed"), 7, 20)
    version = subprocess.run([program, "version", "--json"], stdout=subprocess.PIPE, check=True)
    assert json.loads(version.stdout)["version"] == unbroken.__version__, version.stdout
    for name in ("py.typed", "_core.pyi"):
        assert (package / name).exists(), f"{name} is not in the wheel"


main()
