"""A loop with torch.distributed.checkpoint that cannot be lost: `python examples/adapters/dcp.py`, killed and started at will."""

import hashlib
import os
import random
import warnings

import torch
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import unbroken.dcp


def digest(model):
    """Of all parameters, in hex."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def state_of(model, optimizer, scheduler, step):
    """All that changes from step to step."""
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {
        "model": model_state, "optimizer": optimizer_state, "scheduler": scheduler.state_dict(), "step": step,
        "rng": torch.get_rng_state(),
    }  # fmt: skip


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(200, 8)
    y = x.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)

    path = os.environ.get("UNBROKEN_DIR", "runs/dcp")
    writer, step = unbroken.dcp.Writer(path), 0
    try:
        reader = unbroken.dcp.Reader(path)
    except unbroken.NothingToResume:
        pass
    else:
        state = state_of(model, optimizer, scheduler, 0)
        dcp.load(state, storage_reader=reader)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["rng"])
        step = state["step"]
    steps = min(60, int(os.environ.get("UNBROKEN_STEPS", 60)))
    for step in range(step + 1, steps + 1):
        rows = random.Random(step).sample(range(200), 16)  # the order of the data depends on the step alone
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 5 == 0 or step == steps:
            dcp.save(state_of(model, optimizer, scheduler, step), storage_writer=writer, checkpoint_id=step)
    print(f"final step={step} digest={digest(model)}")


if __name__ == "__main__":
    main()
