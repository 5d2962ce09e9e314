"""A loop with accelerate: the twin of accelerate.py without Unbroken. It loses its place in the data."""

import hashlib
import itertools
import os
import sys
from pathlib import Path

sys.path = [path for path in sys.path if Path(path) != Path(__file__).parent]  # the library has this file's name

import torch
from accelerate import Accelerator
from torch import nn


def digest(model):
    """Of all parameters, in hex."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(200, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)

    accelerator = Accelerator(cpu=True)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    path = Path(os.environ.get("UNBROKEN_DIR", "runs/accelerate"))
    saved = sorted(path.glob("*/random_states_0.pkl"))
    done = int(saved[-1].parent.name) if saved else 0
    if saved:
        accelerator.load_state(saved[-1].parent)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for inputs, targets in itertools.islice(batches, 60 - done):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        done += 1
        if done % 5 == 0:
            accelerator.save_state(path / f"{done:06}")
    print(f"final step={done} digest={digest(model)}")


if __name__ == "__main__":
    main()
