"""A small transformer that learns to write licences, byte by byte, and cannot be lost.

    python examples/gpt.py                       # runs/gpt; stop it any way you like and start it again
    unbroken drill --kills 6 -- python examples/gpt.py

It prints one line a step: the step and the loss. Dropout, AdamW and a cosine schedule all continue bit for bit,
and so does the order of the data. `--forget optimizer` leaves the optimizer unattached, to see the drill catch it.
"""

import argparse
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import unbroken
from unbroken.torch import DataLoader

LICENCES = Path("/usr/share/common-licenses")  # on every Debian machine
CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 48, 64, 4, 2, 16


class Windows:
    """Windows of CONTEXT + 1 bytes of a text: inputs and, one further, what should follow."""

    def __init__(self, text: bytes):
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()

    def __len__(self):
        return (len(self.bytes) - 1) // CONTEXT

    def __getitem__(self, index):
        window = self.bytes[index * CONTEXT : (index + 1) * CONTEXT + 1]
        return window[:-1], window[1:]


class Block(nn.Module):
    """Attention, then a feed-forward layer, each with dropout."""

    def __init__(self):
        super().__init__()
        self.before_attention, self.before_feed = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        batch, time, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, time, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // HEADS)
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        weights = F.dropout(scores.masked_fill(future, -math.inf).softmax(-1), 0.1, self.training)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, time, width))
        return x + self.feed(self.before_feed(x))


class Gpt(nn.Module):
    """Bytes in, scores of the next byte out."""

    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)

    def forward(self, bytes_):
        x = self.drop(self.embed(bytes_) + self.place(torch.arange(bytes_.shape[1])))
        return self.head(self.norm(self.blocks(x)))


def corpus() -> bytes:
    """The licences of this machine, or this file where there are none."""
    names = ("GPL-3", "GPL-2", "LGPL-2.1", "Apache-2.0")
    files = [LICENCES / name for name in names if (LICENCES / name).is_file()]
    return b"".join(path.read_bytes() for path in files or [Path(__file__)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", default="runs/gpt", help="where the run lives")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--every", default="10", help='save every N steps, a duration, or "auto"')
    parser.add_argument("--forget", choices=["optimizer", "scheduler"], help="leave this out of the state")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    loader = DataLoader(Windows(corpus()), BATCH, shuffle=True, seed=1, drop_last=True)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    parts.pop(options.forget, None)

    with unbroken.Run(options.dir, every=options.every) as run:
        run.attach(**parts)
        for step, (bytes_, following) in run.steps(options.steps, loader):
            loss = F.cross_entropy(model(bytes_).flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            run.log(loss=loss, lr=scheduler.get_last_lr()[0])
            print(step, f"{loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
