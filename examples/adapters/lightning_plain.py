"""A Lightning fit: the twin of lightning.py without Unbroken."""

import hashlib
import os
import sys
import warnings
from pathlib import Path

sys.path = [path for path in sys.path if Path(path) != Path(__file__).parent]  # the library has this file's name

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn


class Net(LightningModule):
    """A regression with dropout."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.mse_loss(self.layers(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def digest(model):
    """Of all parameters, in hex."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(200, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    model = Net()

    path = Path(os.environ.get("UNBROKEN_DIR", "runs/lightning"))
    saver = ModelCheckpoint(path, every_n_train_steps=5, save_last=True)
    trainer = Trainer(
        max_steps=60, accelerator="cpu", callbacks=[saver], logger=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, loader, ckpt_path="last" if (path / "last.ckpt").exists() else None)
    print(f"final step={trainer.global_step} digest={digest(model)}")


if __name__ == "__main__":
    main()
