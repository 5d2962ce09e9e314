"""A training that keeps all its state by torch.distributed.checkpoint, for `unbroken drill`: python dcp.py FOLDER."""

import sys
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

STEPS, EVERY, ROWS, BATCH = 32, 5, 48, 16


class Order:
    """Which rows come next: a new permutation for each epoch, from a generator of its own."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(3)
        self.rows, self.at = torch.randperm(ROWS, generator=self.generator), 0

    def take(self):
        if self.at == ROWS:
            self.rows, self.at = torch.randperm(ROWS, generator=self.generator), 0
        self.at += BATCH
        return self.rows[self.at - BATCH : self.at]

    def state_dict(self):
        return {"generator": self.generator.get_state(), "rows": self.rows, "at": self.at}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])
        self.rows, self.at = state["rows"], state["at"]


def main():
    warnings.filterwarnings("ignore")  # that there is one process only
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(ROWS, 8)
    y = x.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=5)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    order = Order()

    def state():
        weights, moments = get_state_dict(model, optimizer)
        return {
            "model": weights, "optimizer": moments, "scheduler": scheduler.state_dict(), "scaler": scaler.state_dict(),
            "ema": ema.state_dict(), "order": order.state_dict(), "rng": torch.get_rng_state(), "step": step,
        }  # fmt: skip

    step = 0
    done = sorted(folder.glob("*/.metadata"))  # is written last
    if done:
        saved = state()
        dcp.load(saved, checkpoint_id=done[-1].parent)
        set_state_dict(model, optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        scaler.load_state_dict(saved["scaler"])
        ema.load_state_dict(saved["ema"])
        order.load_state_dict(saved["order"])
        torch.set_rng_state(saved["rng"])
        step = saved["step"]

    while step < STEPS:
        rows = order.take()
        with torch.autocast("cpu", torch.float16):
            out = model(x[rows])
        loss = nn.functional.mse_loss(out.float(), y[rows])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        ema.update_parameters(model)
        step += 1
        print(f"step {step} loss {loss.item():.9g}")
        if step % EVERY == 0:
            dcp.save(state(), checkpoint_id=folder / f"{step:06}")
    torch.save(state(), folder / "final.pt")


if __name__ == "__main__":
    main()
