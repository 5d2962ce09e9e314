"""A loop with accelerate that cannot be lost: `python examples/adapters/accelerate.py`, killed and started again at will."""

import hashlib
import os
import sys
from pathlib import Path

sys.path = [path for path in sys.path if Path(path) != Path(__file__).parent]  # the library has this file's name

import torch
from accelerate import Accelerator
from torch import nn

import unbroken.accelerate
from unbroken.torch import DataLoader


def digest(model):
    """Of all parameters, in hex."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(200, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, batch_size=16, shuffle=True, seed=1)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)

    accelerator = Accelerator(cpu=True)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    run = unbroken.Run(os.environ.get("UNBROKEN_DIR", "runs/accelerate"), every=5)
    unbroken.accelerate.attach(run, accelerator)
    done = run.restore()
    for step, (inputs, targets) in run.steps(60, loader):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        run.log(loss=loss)
        done = step + 1
    run.close()
    print(f"final step={done} digest={digest(model)}")


if __name__ == "__main__":
    main()
