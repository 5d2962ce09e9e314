"""For Lightning: a Callback that saves and resumes a fit by a Run, and a CheckpointIO for paths of Lightning's choice.

    saver = unbroken.lightning.Callback("runs/fit", every=100)
    trainer = Trainer(callbacks=[saver], plugins=[saver.checkpoint_io], max_steps=10_000)
    trainer.fit(model, loader, ckpt_path=saver.ckpt_path)
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import OrderedDict

import torch
from lightning.fabric.plugins import CheckpointIO as _CheckpointIO
from lightning.pytorch import Callback as _Callback
from lightning.pytorch.callbacks import BatchSizeFinder, LearningRateFinder
from lightning.pytorch.utilities.exceptions import SIGTERMException
from lightning_utilities.core.apply_func import apply_to_collection

from unbroken import functional
from unbroken._process import signals
from unbroken._adapters.guest import Guest, capped
from unbroken._adapters.lightning_loops import Loops
from unbroken.errors import Misconfigured, naming
from unbroken.loading import load

_NAME = "lightning"  # under which a checkpoint of Lightning stands in ours


class CheckpointIO(_CheckpointIO):
    """Checkpoints of a Trainer as run directories at the paths that Lightning chooses: `Trainer(plugins=[...])`.

    Each path holds the checkpoint that was saved there last, checked and durable; reading it runs no code of it.
    Which paths stay is up to ModelCheckpoint. The directory of a Callback can be loaded as well. Errors: those of
    unbroken.save and unbroken.load.
    """

    def save_checkpoint(self, checkpoint, path, storage_options=None) -> None:
        saving = functional.save_with({_NAME: _plain(checkpoint)}, path, keep_last=1)
        with naming(os.path.abspath(path)):
            saving.wait("durable")

    def load_checkpoint(self, path, map_location=None, weights_only=None) -> dict:
        return _placed(load(path, only=[_NAME])[_NAME], map_location)

    def remove_checkpoint(self, path) -> None:
        functional.release(path)
        if os.path.isfile(os.path.join(path, "RUN")):  # nothing but a directory of ours
            shutil.rmtree(path)


class _OfRun(CheckpointIO):
    """The same, but where the path is that of the callback's run: what the run has restored."""

    def __init__(self, fit):
        self._fit = fit

    def load_checkpoint(self, path, map_location=None, weights_only=None) -> dict:
        if self._fit.loops is None or self._fit.restored is None or os.fspath(path) != self._fit.path:
            return super().load_checkpoint(path, map_location, weights_only)
        restored, self._fit.restored = self._fit.restored, None
        self._fit.loops.load(restored)
        return _placed(restored, map_location)


class Callback(_Callback):
    """Saves a fit as the run in `dir`, and resumes it; `options` are those of unbroken.Run. One fit a Callback.

    A step is a batch after which an optimizer has stepped, or with which the fit ends, complete when the validation
    after it, and the end of the epoch if it is the last one, are through. Saved are what Trainer.save_checkpoint would
    save, what was logged and gathered by metrics in the epoch so far, what callbacks have changed, the global generators,
    and the position in the data where the loader has a state_dict (unbroken.torch.DataLoader has). The last step is
    durable when fit returns. A stop raises unbroken.Interrupted out of fit, when the step is complete. UNBROKEN_STEPS
    caps max_steps. Make the module before `ckpt_path` is asked for: then the generators are restored.
    """

    def __init__(self, dir, **options):
        self._guest = Guest(dir, options)
        self._fit = _Fit(self._guest.run.path)
        self._guest.run.attach(**{_NAME: self._fit})
        self._stepped = 0  # the trainer's global_step at the last boundary
        self._has_begun = False  # a batch, since then
        self._noted: dict = {}  # metrics of the step that is not complete yet
        self.checkpoint_io = _OfRun(self._fit)

    @property
    def run(self):
        """The unbroken.Run."""
        return self._guest.run

    @property
    def ckpt_path(self) -> str | None:
        """For `trainer.fit(..., ckpt_path=...)`: the run, or None where there is nothing to go on from."""
        self._guest.restore()
        return None if self._guest.is_fresh else self.run.path

    def setup(self, trainer, pl_module, stage) -> None:
        if stage != "fit":
            return
        if trainer.world_size > 1:
            raise Misconfigured("unbroken.lightning: more than one process comes later")
        for one in trainer.callbacks:
            if isinstance(one, (LearningRateFinder, BatchSizeFinder)):  # its trial fit would be taken for this one
                raise Misconfigured(f"{type(one).__name__}: search first, with a Trainer of its own, and fit after it")
        self._guest.restore()
        if trainer.strategy.checkpoint_io is not self.checkpoint_io:
            raise Misconfigured("Trainer: plugins=[saver.checkpoint_io] is missing, which reads the run")
        loop = trainer.fit_loop.epoch_loop
        limit = capped(None if loop.max_steps < 0 else loop.max_steps)
        loop.max_steps = -1 if limit is None else limit
        self._fit.trainer = trainer
        self._fit.loops = Loops(trainer, self._complete, self._guest.rewind, self._guest.mark)

    def on_train_start(self, trainer, pl_module) -> None:
        if self._fit.restored is not None:
            raise Misconfigured("the run goes on from a checkpoint: call trainer.fit(..., ckpt_path=saver.ckpt_path)")
        self._stepped = trainer.global_step
        self._take_stops(trainer)
        self._fit.loops.begin()
        self._guest.rewind()

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
        self._guest.set_begun(True)
        self._has_begun = True

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self._noted = {"loss": loss} if isinstance(loss, torch.Tensor) else {}

    def _complete(self, is_last: bool) -> None:
        """A batch is through, and the epoch if it was its last one."""
        step = self._fit.trainer.global_step
        is_rest = is_last and self._has_begun and step == self._stepped  # the module accumulates, and the fit ends meanwhile
        if step != self._stepped or is_rest:
            self._stepped, self._has_begun = step, False
            self._fit.loops.changes.keeps_gradients = is_rest
            self.run.step(**self._noted)
        if is_last:
            self._guest.save_last()  # here, where the fit goes on from exactly if it is to be longer

    def on_train_end(self, trainer, pl_module) -> None:
        self._guest.save_last()

    def on_exception(self, trainer, pl_module, exception) -> None:
        try:
            if isinstance(exception, SIGTERMException):
                self.run.close()  # says so better, by Interrupted
            self._guest.abandon(exception)
        finally:
            self._let_go(trainer)
            if isinstance(exception, SIGTERMException):
                trainer._teardown()  # to which Interrupted would not let it come

    def teardown(self, trainer, pl_module, stage) -> None:
        if stage == "fit":
            self.run.close()
            self._fit.let_go()

    def _take_stops(self, trainer) -> None:
        """SIGTERM is obeyed where a step is complete: Lightning itself would break off a validation."""
        connector = trainer._signal_connector
        there = connector._original_handlers.get(signal.SIGTERM)
        if callable(there):
            signal.signal(signal.SIGTERM, there)
        connector.received_sigterm = False  # the run has heard of it as well

    def _let_go(self, trainer) -> None:
        self._fit.let_go()
        handlers = trainer._signal_connector._original_handlers  # which the trainer puts back
        if signal.SIGTERM in handlers:
            handlers[signal.SIGTERM] = signals.beneath(handlers[signal.SIGTERM])


class _Fit:
    """The state of a Trainer, as a run can attach it."""

    def __init__(self, path):
        self.path, self.trainer = path, None
        self.loops: Loops | None = None
        self.restored: dict | None = None

    def state_dict(self) -> dict:
        if self.trainer is None:
            return self.restored or {}
        return _plain(self.loops.state(self.trainer._checkpoint_connector.dump_checkpoint(weights_only=False)))

    def load_state_dict(self, state: dict) -> None:
        self.restored = state

    def let_go(self) -> None:
        """Nothing of the trainer is the run's any more."""
        if self.loops is not None:
            self.loops.let_go()
        self.trainer = None

    def _unbroken_belongings(self):
        """What is saved with it."""
        trainer = self.trainer
        if trainer is None:
            return []
        schedulers = [one.scheduler for one in trainer.lr_scheduler_configs]
        loaders = [trainer.train_dataloader, *self.loops.validation_loaders()]
        return [trainer.lightning_module, *loaders, *trainer.optimizers, *schedulers, *trainer.callbacks]


def _plain(value):
    """Without the dicts and texts of Lightning's own classes, and with paths as texts."""
    if isinstance(value, dict):
        kind = OrderedDict if type(value) is OrderedDict else dict
        return kind((key, _plain(item)) for key, item in value.items())
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if isinstance(value, str):
        return str(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _placed(checkpoint, map_location):
    """On a device; functions and dicts of places are for files of torch, and mean the CPU here."""
    if not isinstance(map_location, (str, torch.device)):
        return checkpoint
    return apply_to_collection(checkpoint, torch.Tensor, lambda tensor: tensor.to(map_location))
