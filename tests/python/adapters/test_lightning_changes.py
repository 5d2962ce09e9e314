"""What callbacks change while a fit of Lightning runs: a fit that goes on has it, and one that has ended gives what it gave."""

import pytest
import unbroken

pytest.importorskip("lightning", reason="lightning is not installed: ./dev setup --adapters")

import torch  # noqa: E402
from helpers import bits, stops_at  # noqa: E402
from lightning.pytorch import Callback as PlainCallback  # noqa: E402
from lightning.pytorch import LightningModule, Trainer  # noqa: E402
from lightning.pytorch.callbacks import (  # noqa: E402
    BackboneFinetuning,
    EMAWeightAveraging,
    GradientAccumulationScheduler,
    LearningRateFinder,
    ModelPruning,
    StochasticWeightAveraging,
    WeightAveraging,
)
from torch import nn  # noqa: E402
from unbroken.lightning import Callback  # noqa: E402
from unbroken.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

BATCHES, EPOCHS = 4, 4


class Net(LightningModule):
    def __init__(self, has_norm=True):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8) if has_norm else nn.Identity(), nn.Dropout(0.2))
        self.head = nn.Linear(8, 1)
        self.is_part = False  # only the head is trained at first
        self.trace = []

    def training_step(self, batch, index):
        loss = nn.functional.mse_loss(self.head(self.backbone(batch[0])), batch[1])
        rate = self.trainer.optimizers[0].param_groups[0]["lr"]
        self.trace.append((self.global_step, float(batch[1].sum()).hex(), float(loss.detach()).hex(), rate))
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", nn.functional.mse_loss(self.head(self.backbone(batch[0])), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.head.parameters() if self.is_part else self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


class Accumulates(Net):
    """By itself, and over the end of an epoch."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        loss = super().training_step(batch, index)
        self.manual_backward(loss)
        if index % 3 == 2:
            self.optimizers().step()
            self.optimizers().zero_grad()
        return loss.detach()


class Tightens(PlainCallback):
    """Sets what has no state_dict, at the end of an epoch."""

    def on_train_epoch_end(self, trainer, module):
        if trainer.current_epoch == 1:
            trainer.gradient_clip_val = 0.01
            module.backbone.eval()
            module.head.bias.requires_grad_(False)


def fit(path, callbacks=(), validates=False, net=Net, epochs=EPOCHS, **more):
    """One life; the module."""
    torch.manual_seed(1)
    x = torch.arange(BATCHES * 16.0).reshape(BATCHES * 4, 4).sin()
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, batch_size=4, shuffle=True, seed=3)
    module = net()
    module.is_part = any(make is backbone for make in callbacks)
    saver = Callback(path, every=1000)
    quiet = dict(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                 enable_model_summary=False, num_sanity_val_steps=0)  # fmt: skip
    callbacks = [saver, *(make() for make in callbacks)]
    trainer = Trainer(max_epochs=epochs, callbacks=callbacks, plugins=[saver.checkpoint_io], **quiet, **more)
    try:
        trainer.fit(module, loader, DataLoader(data, batch_size=8) if validates else None, ckpt_path=saver.ckpt_path)
    finally:
        saver.run._close(is_quiet=True)
    return module


def end(module):
    """All of the end that a fit goes on from."""
    schedulers = [one.scheduler.state_dict() for one in module.trainer.lr_scheduler_configs]
    return bits([dict(module.state_dict()), module.optimizers(use_pl_optimizer=False).state_dict(), schedulers, torch.get_rng_state()])


def backbone():
    return BackboneFinetuning(unfreeze_backbone_at_epoch=1, lambda_func=lambda epoch: 1.5)


KINDS = {
    "another accumulation": {"callbacks": [lambda: GradientAccumulationScheduler({0: 1, 1: 2})]},
    "settings": {"callbacks": [Tightens], "gradient_clip_val": 1.0},
    "averages of epochs": {"callbacks": [lambda: StochasticWeightAveraging(5e-3, 2)], "net": lambda: Net(has_norm=False)},
    "averages of epochs, and norms": {"callbacks": [lambda: StochasticWeightAveraging(5e-3, 2)]},
    "averages": {"callbacks": [WeightAveraging], "validates": True},
    "moving averages": {"callbacks": [lambda: EMAWeightAveraging(decay=0.9)]},
    "layers that thaw": {"callbacks": [backbone]},
    "pruned": {"callbacks": [lambda: ModelPruning("l1_unstructured", amount=0.3, make_pruning_permanent=False)]},
    "pruned for good": {"callbacks": [lambda: ModelPruning("l1_unstructured", amount=0.3)], "validates": True},
    "loaders asked for again": {"reload_dataloaders_every_n_epochs": 1, "validates": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_callback_changed_goes_on(tmp_path, kind):
    straight = fit(tmp_path / "straight", **KINDS[kind])
    whole, trace = end(straight), []
    for stop in (5, 8, 9, 16):
        with stops_at(stop):
            trace += fit(tmp_path / "killed", **KINDS[kind]).trace
    last = fit(tmp_path / "killed", **KINDS[kind])
    assert trace + last.trace == straight.trace and end(last) == whole
    again = fit(tmp_path / "killed", **KINDS[kind])
    assert again.trace == [] and bits(again.state_dict()) == bits(straight.state_dict())


def test_a_fit_that_ends_between_two_steps_has_ended_and_can_be_made_longer(tmp_path):
    straight = fit(tmp_path / "straight", net=Accumulates)
    first = fit(tmp_path / "extended", net=Accumulates, epochs=2)
    again = fit(tmp_path / "extended", net=Accumulates, epochs=2)
    assert again.trace == [] and bits(again.state_dict()) == bits(first.state_dict())
    last = fit(tmp_path / "extended", net=Accumulates)
    assert first.trace + last.trace == straight.trace and end(last) == end(straight)


def test_a_search_is_not_taken_for_the_fit(tmp_path):
    with pytest.raises(unbroken.Misconfigured, match="LearningRateFinder: search first"):
        fit(tmp_path / "run", callbacks=[LearningRateFinder])
