"""What hangs on the end of a batch and of an epoch in Lightning: done once, in whatever life, as in the straight fit."""

import signal

import pytest

pytest.importorskip("lightning", reason="lightning is not installed: ./dev setup --adapters")

import torch  # noqa: E402
import unbroken  # noqa: E402
from helpers import bits, stops_at  # noqa: E402
from lightning.pytorch import Callback as PlainCallback  # noqa: E402
from lightning.pytorch import LightningModule, Trainer  # noqa: E402
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint, Timer  # noqa: E402
from torch import nn  # noqa: E402
from torchmetrics import MeanSquaredError  # noqa: E402
from unbroken.lightning import Callback, CheckpointIO  # noqa: E402
from unbroken.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

BATCHES = 6  # of an epoch


class Dies(BaseException):
    pass


class Net(LightningModule):
    """Draws for each batch and each validation, and lowers its rate by what was validated."""

    def __init__(self, at=None, monitor="val_loss", interval="epoch", own_loaders=None):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.register_buffer("mean", torch.zeros(1))
        self.error = MeanSquaredError()
        self.at, self.monitor, self.interval, self.own_loaders = at, monitor, interval, own_loaders
        self.trace = []

    def note(self, kind, *values):
        self.trace.append((kind, self.global_step, self.current_epoch, *(float(value).hex() for value in values)))
        if self.at is not None and self.at[:2] == (kind, self.global_step):
            what, self.at = self.at[2], None
            what()

    def training_step(self, batch, index):
        out = self.layers(batch[0])
        loss = nn.functional.mse_loss(out, batch[1])
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log("most", loss, on_step=False, on_epoch=True, reduce_fx="max")
        self.error(out.detach(), batch[1])
        self.log("error", self.error, on_step=False, on_epoch=True)
        self.note("batch", batch[1].sum(), loss.detach(), self.trainer.optimizers[0].param_groups[0]["lr"])
        return loss

    def on_train_batch_end(self, outputs, batch, index):
        self.mean += 0.1 * (self.layers[2].bias.detach() - self.mean)

    def validation_step(self, batch, index):
        loss = nn.functional.mse_loss(self.layers(batch[0]), batch[1]) * (1 + torch.rand(()))
        self.log("val_loss", loss)
        if not self.trainer.sanity_checking:
            self.note("validation", loss.detach())

    def on_train_epoch_end(self):
        names = ("loss_epoch", "most", "error", "val_loss")
        self.note("epoch", *(self.trainer.callback_metrics[name] for name in names if name in self.trainer.callback_metrics))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, mode="max")
        how = {"scheduler": scheduler, "monitor": self.monitor, "interval": self.interval, "strict": False}
        return {"optimizer": optimizer, "lr_scheduler": how}

    def train_dataloader(self):
        return self.own_loaders()[0]

    def val_dataloader(self):
        return self.own_loaders()[1]


class Late(PlainCallback):
    """Comes after the saver, and changes the state at the end of a batch."""

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        with torch.no_grad():
            module.layers[0].bias.mul_(0.999)


def loaders(workers=0, length=BATCHES * 4):
    x = torch.arange(length * 4).reshape(length, 4) / 60
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).sin())
    return (
        DataLoader(data, batch_size=4, shuffle=True, seed=3, num_workers=workers),
        DataLoader(data, batch_size=8, shuffle=True, seed=4),
    )


def fit(path, seed=1, at=None, epochs=3, steps=-1, workers=0, net=None, own=False, make=loaders, extra=(), every=1000, **more):
    """One life; the module."""
    torch.manual_seed(seed)
    module = Net(at, **(net or {}), own_loaders=(lambda: make(workers)) if own else None)
    saver = Callback(path, every=every)
    keepers = [EarlyStopping("val_loss", patience=50, strict=False),
               EarlyStopping("loss_epoch", patience=50, check_on_train_epoch_end=True),
               ModelCheckpoint(path.parent / f"{path.name}-kept", monitor="val_loss", save_top_k=2)]  # fmt: skip
    keepers = keepers if more.get("limit_val_batches") != 0 else keepers[1:2]
    quiet = dict(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                 num_sanity_val_steps=0, enable_checkpointing=len(keepers) > 1)  # fmt: skip
    trainer = Trainer(max_steps=steps, max_epochs=epochs, callbacks=[saver, Late(), *extra, *keepers], plugins=[saver.checkpoint_io],
                      **{**quiet, **more})  # fmt: skip
    data = () if own else make(workers)
    try:
        trainer.fit(module, *data, ckpt_path=saver.ckpt_path)
    except (unbroken.Interrupted, Dies) as error:
        module.error_of_fit = error
    finally:
        saver.run._close(is_quiet=True)
    return module


def end(module):
    """All of the end that a fit goes on from."""
    trainer = module.trainer
    callbacks = [one.state_dict() for one in trainer.callbacks if isinstance(one, EarlyStopping)]
    best = [float(one.best_model_score).hex() for one in trainer.callbacks if isinstance(one, ModelCheckpoint)]
    schedulers = [one.scheduler.state_dict() for one in trainer.lr_scheduler_configs]
    return bits([dict(module.state_dict()), module.optimizers(use_pl_optimizer=False).state_dict(), schedulers, callbacks, best,
                 trainer.global_step, trainer.current_epoch, torch.get_rng_state()])  # fmt: skip


def term():
    signal.raise_signal(signal.SIGTERM)


def dies():
    raise Dies


OPTIONS = {
    "plain": {},
    "workers": {"workers": 2},
    "on the error of the epoch": {"net": {"monitor": "error"}},
    "each step": {"net": {"monitor": "loss", "interval": "step"}},
    "in the epoch, each step": {"val_check_interval": 2, "net": {"monitor": "val_loss", "interval": "step"}},
    "each other epoch": {"check_val_every_n_epoch": 2, "epochs": 4},
    "over epochs": {"check_val_every_n_epoch": None, "val_check_interval": 4},
    "sanity": {"num_sanity_val_steps": 2},
    "accumulating": {"accumulate_grad_batches": 2},
    "accumulating with a rest": {"accumulate_grad_batches": 4},
    "limited": {"limit_train_batches": 4, "limit_val_batches": 2},
    "without validation": {"limit_val_batches": 0, "net": {"monitor": "loss_epoch"}},
    "own loaders, made anew": {"reload_dataloaders_every_n_epochs": 1, "own": True},
    "own loaders, made anew each other epoch": {"reload_dataloaders_every_n_epochs": 2, "own": True, "epochs": 4},
}


def stops_of(straight):
    """Events to stop at: within an epoch, in a validation, at the last batch of an epoch, at the end of one."""

    def last(kind, epoch):
        return next((event[:2] for event in reversed(straight.trace) if event[0] == kind and event[2] == epoch), None)

    found = ("batch", 1 if last("batch", 0)[1] > 1 else 0), last("validation", 0), last("batch", 1), last("validation", 2), last("epoch", 2)
    found = [stop for stop in found if stop is not None]
    return found if last("validation", 2) is None else found[:-1]  # at the same step


KILLED = ["in the epoch, each step", "accumulating with a rest"]


@pytest.mark.parametrize(("name", "how"), [*((name, term) for name in OPTIONS), *((name, dies) for name in KILLED)])
def test_stopped_anywhere_it_ends_as_the_straight_fit(tmp_path, name, how):
    more = OPTIONS[name] | ({"every": 1} if how is dies else {})
    straight = fit(tmp_path / "straight", **more)
    whole = end(straight)
    seen = []
    stops = [stop for stop in stops_of(straight) if how is term or stop[1]]  # killed before its first step it would begin anew
    for i, stop in enumerate(stops):
        life = fit(tmp_path / "killed", seed=1 + 10 * i, at=(*stop, how), **more)
        if how is term:
            assert life.error_of_fit.code == 75
            seen += life.trace
    last = fit(tmp_path / "killed", seed=99, **more)
    seen += last.trace
    assert seen == (straight.trace if how is term else straight.trace[-len(seen) :])
    assert end(last) == whole


@pytest.mark.parametrize("name", ["plain", "own loaders, made anew each other epoch"])
def test_a_fit_that_ended_by_epochs_is_extended(tmp_path, name):
    more = OPTIONS[name] | {"epochs": 4}
    straight = fit(tmp_path / "straight", **more)
    modules = [fit(tmp_path / "extended", seed=1 + 5 * i, **(more | {"epochs": n})) for i, n in enumerate((1, 2, 4))]
    assert sum((module.trace for module in modules), []) == straight.trace
    assert end(modules[-1]) == end(straight)


@pytest.mark.parametrize("stop", [4, BATCHES, BATCHES + 1])
def test_a_fit_that_ended_by_steps_is_extended(tmp_path, stop):
    straight = fit(tmp_path / "straight", steps=15, epochs=None)
    first = fit(tmp_path / "extended", steps=stop, epochs=None)
    last = fit(tmp_path / "extended", seed=5, steps=15, epochs=None)
    trace = [event for event in first.trace if event[0] != "epoch" or event[1] % BATCHES == 0]  # else that of a cut epoch
    assert trace + last.trace == straight.trace and end(last) == end(straight)


def test_a_capped_fit_goes_on(tmp_path):
    with stops_at(BATCHES + 1):
        fit(tmp_path / "capped")
    assert end(fit(tmp_path / "capped", seed=6)) == end(fit(tmp_path / "uncapped"))


def test_a_plain_loader_goes_on_at_the_end_of_an_epoch(tmp_path):
    def plain(workers):
        data = loaders()[0].dataset
        return torch.utils.data.DataLoader(data, batch_size=4, shuffle=True), torch.utils.data.DataLoader(data, batch_size=8)

    straight = fit(tmp_path / "straight", make=plain)
    trace = fit(tmp_path / "killed", make=plain, at=("validation", BATCHES, term)).trace
    trace += fit(tmp_path / "killed", seed=4, make=plain, epochs=2).trace
    last = fit(tmp_path / "killed", seed=5, make=plain)
    assert trace + last.trace == straight.trace and end(last) == end(straight)


def test_what_is_asked_for_in_a_step_is_saved_when_it_is_complete(tmp_path):
    """A save in a validation is of the step that the validation belongs to."""

    class Asks(PlainCallback):
        def on_validation_end(self, trainer, module):
            if trainer.global_step == BATCHES:
                trainer.callbacks[0].run.save(tag="validated")

    torch.manual_seed(1)
    saver = Callback(tmp_path / "run", every=1000)
    trainer = Trainer(max_epochs=2, callbacks=[saver, Asks()], plugins=[saver.checkpoint_io], accelerator="cpu", logger=False,
                      enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)  # fmt: skip
    trainer.fit(Net(), *loaders(), ckpt_path=saver.ckpt_path)
    assert unbroken.load(tmp_path / "run", at="tag:validated").step == BATCHES


def test_a_loader_without_a_length_goes_on_at_its_batch(tmp_path):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            for i in range(BATCHES * 4):
                x = torch.arange(4.0) * i / 60
                yield x, x.sum().sin().reshape(1)

    def make(workers):
        return DataLoader(Stream(), batch_size=4, seed=3), loaders()[1]

    straight = fit(tmp_path / "straight", make=make)
    trace = fit(tmp_path / "killed", make=make, at=("batch", 2, term)).trace
    trace += fit(tmp_path / "killed", seed=4, make=make, at=("validation", BATCHES, term)).trace
    last = fit(tmp_path / "killed", seed=5, make=make)
    assert trace + last.trace == straight.trace and end(last) == end(straight)


def test_a_fit_that_ended_early_stays_ended_until_its_limits_are_raised(tmp_path, capfd):
    class Stops(PlainCallback):
        def on_validation_end(self, trainer, module):
            trainer.should_stop = trainer.should_stop or trainer.global_step == 2 * BATCHES

    straight = fit(tmp_path / "straight", epochs=6, extra=[Stops()])
    assert straight.trainer.global_step == 2 * BATCHES
    assert fit(tmp_path / "killed", epochs=6, at=("validation", 2 * BATCHES, term), extra=[Stops()]).trace
    for _ in range(2):
        last = fit(tmp_path / "killed", seed=4, epochs=6, extra=[Stops()])
        assert last.trace == [] and end(last)[:-1] == end(straight)[:-1]
        assert "the fit ended early, after step 12: to go on, raise max_epochs or max_steps" in capfd.readouterr().err
    longer = fit(tmp_path / "killed", epochs=7, extra=[Stops()])
    assert longer.trace[0][:3] == ("batch", 2 * BATCHES, 2) and longer.trainer.global_step == 7 * BATCHES


def test_a_stop_is_kept_that_waits_for_the_least_of_epochs(tmp_path):
    class Stops(PlainCallback):
        def on_validation_end(self, trainer, module):
            trainer.should_stop = trainer.should_stop or trainer.global_step == BATCHES

    fit(tmp_path / "killed", epochs=6, min_epochs=3, at=("batch", BATCHES + 2, term), extra=[Stops()])
    assert fit(tmp_path / "killed", epochs=6, min_epochs=3, extra=[Stops()]).trainer.global_step == 3 * BATCHES


def test_a_timer_decides_anew_in_each_life(tmp_path):
    def timed(duration):
        return fit(tmp_path / "run", epochs=3, extra=[Timer(duration=duration, interval="epoch")])

    assert timed({"microseconds": 1}).trainer.global_step < 3 * BATCHES
    assert timed({"hours": 1}).trainer.global_step == 3 * BATCHES


def test_validation_by_itself_needs_no_fit(tmp_path):
    module = fit(tmp_path / "run", epochs=1)
    saver = Callback(tmp_path / "run")
    trainer = Trainer(callbacks=[saver], plugins=[saver.checkpoint_io], accelerator="cpu", logger=False, enable_progress_bar=False)
    other = Net()
    trainer.validate(other, loaders()[1], ckpt_path=saver.ckpt_path)
    saver.run.close()
    assert bits(other.state_dict()) == bits(module.state_dict())


def test_the_checkpoint_is_lightnings(tmp_path):
    module = fit(tmp_path / "run", epochs=1)
    checkpoint = CheckpointIO().load_checkpoint(tmp_path / "run")
    assert bits(checkpoint["state_dict"]) == bits(module.state_dict())
