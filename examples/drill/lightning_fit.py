"""A Lightning fit that keeps all its state in Lightning's checkpoints, for `unbroken drill`: python lightning_fit.py FOLDER."""

import sys
import warnings
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader

STEPS, EVERY = 32, 5


class Net(LightningModule):
    """A regression with dropout."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.layers(x).float(), y)
        print(f"step {self.global_step + 1} loss {loss.item():.9g}")
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class Generator(Callback):
    """The state of torch's generator, which Lightning does not keep."""

    restored = None

    def state_dict(self):
        return {"rng": torch.get_rng_state()}

    def load_state_dict(self, state):
        self.restored = state["rng"]

    def on_train_batch_start(self, *_):
        if self.restored is not None:  # after the loader has taken its seed
            torch.set_rng_state(self.restored)
            self.restored = None


def main():
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(96, 8)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = StatefulDataLoader(data, batch_size=16, shuffle=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=5)
    ema = EMAWeightAveraging(decay=0.9)
    saver = ModelCheckpoint(folder, every_n_train_steps=EVERY, save_last=True)
    trainer = Trainer(
        max_steps=STEPS, accelerator="cpu", callbacks=[ema, Generator(), saver], logger=False,
        plugins=[MixedPrecision("16-mixed", "cpu", scaler)], enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    last = folder / "last.ckpt"
    trainer.fit(Net(), loader, ckpt_path=last if last.exists() else None)
    trainer.save_checkpoint(folder / "final.ckpt")


if __name__ == "__main__":
    main()
