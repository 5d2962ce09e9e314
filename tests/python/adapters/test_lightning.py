"""Fits of Lightning: stopped anywhere and resumed, each ends with the bits of the straight one."""

import random
import signal

import pytest

pytest.importorskip("lightning", reason="lightning is not installed: ./dev setup --adapters")

import torch  # noqa: E402
import unbroken  # noqa: E402
from helpers import bits, stops_at  # noqa: E402
from lightning.pytorch import LightningModule, Trainer  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from torch import nn  # noqa: E402
from unbroken.lightning import Callback, CheckpointIO  # noqa: E402
from unbroken.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(LightningModule):
    def __init__(self, has_validation=True):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.save_hyperparameters()
        self.seen, self.at = [], {}

    def training_step(self, batch, index):
        loss = nn.functional.mse_loss(self.layers(batch[0]), batch[1])
        self.seen.append((self.global_step, float(loss.detach()).hex()))
        self.log("loss", loss)
        if self.global_step in self.at:
            self.at.pop(self.global_step)()
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", nn.functional.mse_loss(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def fit(path, seed=1, at=(), steps=30, validates=False, every=1000, **more):
    """One life; the module."""
    torch.manual_seed(seed)
    x = torch.arange(44 * 4).reshape(44, 4) / 100
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, batch_size=4, shuffle=True, seed=3)
    net = Net(validates)
    net.at = dict(at)
    saver = Callback(path, every=every)
    quiet = dict(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                 enable_model_summary=False, num_sanity_val_steps=0)  # fmt: skip
    trainer = Trainer(max_steps=steps, callbacks=[saver], plugins=[saver.checkpoint_io], **{**quiet, **more})
    try:
        trainer.fit(net, loader, DataLoader(data, batch_size=11) if validates else None, ckpt_path=saver.ckpt_path)
    finally:
        saver.run._close(is_quiet=True)
    return net


def end(net):
    return bits(net.state_dict()), bits(net.trainer.optimizers[0].state_dict())


@pytest.mark.parametrize(
    ("stops", "more"),
    [
        ((7, 11, 12, 22, 23), {}),
        ((1, 11, 20), {"validates": True}),
        ((5, 10), {"validates": True, "val_check_interval": 5}),
        ((2, 6, 9), {"accumulate_grad_batches": 2, "steps": 14}),
    ],
)
def test_continues_to_the_same_bits(run_dir, stops, more):
    straight = fit(run_dir / "straight", **more)
    seen = []
    for i, stop in enumerate(stops):
        with stops_at(stop):
            seen += fit(run_dir / "killed", seed=1 + 50 * i, **more).seen
    last = fit(run_dir / "killed", seed=99, **more)
    assert seen + last.seen == straight.seen
    assert end(last) == end(straight)
    again = fit(run_dir / "killed", seed=98, **more)
    assert again.seen == [] and bits(again.state_dict()) == bits(straight.state_dict())


def test_a_stop_ends_the_fit_with_75_and_an_error_goes_through(run_dir):
    straight = fit(run_dir / "straight")
    with pytest.raises(unbroken.Interrupted) as stopped:
        fit(run_dir / "killed", at={9: lambda: signal.raise_signal(signal.SIGTERM)})
    assert stopped.value.code == 75

    def fails():
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        fit(run_dir / "killed", at={17: fails}, every=4)
    assert unbroken.load(run_dir / "killed").step > 10
    assert end(fit(run_dir / "killed", seed=5)) == end(straight)


def test_a_stop_during_validation_is_no_clean_end(run_dir, monkeypatch):
    def stops(self, batch, index):
        if index == 0:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Net, "validation_step", stops)
        with pytest.raises(unbroken.Interrupted):
            fit(run_dir / "killed", validates=True)
    assert unbroken.load(run_dir / "killed").step == 11
    assert end(fit(run_dir / "killed", seed=5, validates=True)) == end(fit(run_dir / "straight", validates=True))


def test_what_fit_must_be_told(run_dir):
    with stops_at(3):
        fit(run_dir)
    x = torch.zeros(4, 4)
    loader = DataLoader(torch.utils.data.TensorDataset(x, x[:, :1]), batch_size=2)
    for has_plugin, what in ((False, "plugins"), (True, "ckpt_path")):
        saver = Callback(run_dir)
        assert saver.ckpt_path == str(run_dir)
        plugins = [saver.checkpoint_io] * has_plugin
        trainer = Trainer(max_steps=9, accelerator="cpu", logger=False, enable_checkpointing=False, callbacks=[saver],
                          plugins=plugins, enable_progress_bar=False)  # fmt: skip
        with pytest.raises(unbroken.Misconfigured, match=what):
            trainer.fit(Net(), loader)
        saver.run._close(is_quiet=True)


def test_checkpoint_io_keeps_what_model_checkpoint_names(tmp_path):
    def files(io, where):
        torch.manual_seed(1)
        keeper = ModelCheckpoint(where, every_n_train_steps=4, save_top_k=2, monitor="loss", save_last=True)
        trainer = Trainer(max_steps=17, accelerator="cpu", callbacks=[keeper], plugins=io, logger=False,
                          enable_progress_bar=False, enable_model_summary=False)  # fmt: skip
        x = torch.arange(40.0).reshape(10, 4) / 40
        net = Net()
        trainer.fit(net, DataLoader(torch.utils.data.TensorDataset(x, x[:, :1]), batch_size=2, shuffle=True))
        return sorted(path.name for path in where.iterdir()), net, trainer

    names, net, trainer = files([CheckpointIO()], tmp_path / "ours")
    plain, other, _ = files([], tmp_path / "plain")
    assert names == plain and bits(net.state_dict()) == bits(other.state_dict())
    path = tmp_path / "ours" / "last.ckpt"
    ours, theirs = CheckpointIO().load_checkpoint(path), torch.load(tmp_path / "plain" / "last.ckpt")
    assert bits(ours["state_dict"]) == bits(theirs["state_dict"])
    assert ours["loops"] == theirs["loops"] and ours["hyper_parameters"] == theirs["hyper_parameters"]
    trainer.fit_loop.epoch_loop.max_steps = 20
    trainer.fit(Net(), trainer.train_dataloader, ckpt_path=path)
    assert trainer.global_step == 20


class Dies(BaseException):
    pass


def test_the_same_end_after_any_kills(run_dir):
    straight = fit(run_dir / "straight", every=3)
    rng = random.Random(4)
    for life in range(3):
        stop = rng.randrange(3, 8) + 8 * life

        def dies():
            raise Dies

        with pytest.raises(Dies):
            fit(run_dir / "killed", seed=life + 1, every=3, at={stop: dies})
    assert end(fit(run_dir / "killed", seed=9)) == end(straight)
