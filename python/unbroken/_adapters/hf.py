"""For transformers.Trainer: a callback that saves and resumes a training by a Run.

    saver = unbroken.hf.Callback("runs/trainer", every=100)
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[saver])
    trainer.train(resume_from_checkpoint=saver.resume())
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import sys
import tempfile
import weakref

import torch
from safetensors.torch import save_file
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import CallbackHandler, ExportableState
from transformers.trainer_utils import has_length

from unbroken._adapters.accelerate import unwrapped
from unbroken._adapters.guest import Guest, capped
from unbroken.errors import Misconfigured, say
from unbroken.torch.seeds import derive

_AFTER_ALL_EPOCHS = sys.maxsize * 10**12  # steps: a trainer that is told of the last step itself would take one more
_TIMINGS = ("_runtime", "_per_second")  # differ from life to life


class Callback(TrainerCallback):
    """Saves a training as the run in `dir`, and resumes it; `options` are those of unbroken.Run. One training each.

    A step is a step of the optimizer, and complete when it was logged and evaluated. Saved are the model, optimizer,
    scheduler, gradient scaler, the trainer's state (without timings), that of callbacks which export one
    (EarlyStoppingCallback), and the global generators. In the data the Trainer's own resume skips what was seen. The
    last step is durable when train() returns. A stop raises unbroken.Interrupted out of train(), when the step is
    complete. UNBROKEN_STEPS ends the training early. The Trainer itself need save nothing (save_strategy="no").
    """

    def __init__(self, dir, **options):
        self._guest = Guest(dir, options)
        self._progress = _Progress()
        self._guest.run.attach(trainer=self._progress)
        self._arguments = None
        self._told = 0  # the step that the trainer was told to go on from
        self._rewinds = False
        self._keepers = _Keepers()
        self._evaluates_on_start = False

    @property
    def run(self):
        """The unbroken.Run."""
        return self._guest.run

    def resume(self) -> str | None:
        """For `trainer.train(resume_from_checkpoint=...)`; None where there is nothing to go on from.

        Make the model before. What it returns is a folder that tells the trainer where it was; it holds no weights:
        those are put into the model when the training begins.
        """
        step = self._guest.restore()
        if self._guest.is_fresh:
            return None
        folder = tempfile.mkdtemp(prefix="unbroken-resume-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        state = {name: value for name, value in self._progress.saved.items() if name not in _Progress.OWN}
        is_over = self._has_finished(step) or self._has_stopped_early(step)
        place = self._progress.go_on(step, self._arguments)
        self._told = state["global_step"] = _AFTER_ALL_EPOCHS if is_over else place
        _write(folder, "trainer_state.json", state)
        names = {name: "nothing.safetensors" for name in self._names_of_model()}
        _write(folder, "model.safetensors.index.json", {"metadata": {}, "weight_map": names})
        save_file({}, os.path.join(folder, "nothing.safetensors"))
        return folder

    def _names_of_model(self):
        saved = self.run._inside.saved
        return [name.removeprefix("model.") for name in (*saved.specs, *saved.aliases) if name.startswith("model.")]

    def _limit(self) -> int | None:
        steps = -1 if self._arguments is None else self._arguments.max_steps
        return capped(steps if steps > 0 else None)

    def _has_finished(self, step) -> bool:
        limit = self._limit()
        return limit is not None and step >= limit

    def _has_stopped_early(self, step) -> bool:
        """Whether a callback ended the training, and it has no other limits since."""
        stopped = self._progress.saved.get("stopped")
        if self._arguments is None or stopped != _limits(self._arguments):
            return False
        say(f"the training ended early, after step {step}: to go on, raise max_steps or num_train_epochs")
        return True

    # -- what the trainer calls

    def on_init_end(self, args, state, control, **more):
        self._arguments = args

    def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, train_dataloader=None, **more):
        if args.world_size > 1:
            raise Misconfigured("unbroken.hf: more than one process comes later")
        step = self._guest.restore()
        if state.global_step != self._told or (self._told == 0 and not self._guest.is_fresh):
            raise Misconfigured("call trainer.train(resume_from_checkpoint=saver.resume()): the run goes on")
        state.global_step = step
        self._progress.state = state
        parts = {"model": model, "optimizer": unwrapped(optimizer), "scheduler": unwrapped(lr_scheduler)}
        scaler = getattr(optimizer, "scaler", None)
        if "" in self._evaluating():
            model.eval()  # as it was saved; the trainer sets the mode before each step
        self.run.attach(**parts, **({} if scaler is None else {"scaler": scaler}))
        self._rewinds = not self._guest.is_fresh
        if self._rewinds and args.eval_on_start:  # that was in the first life
            args.eval_on_start, self._evaluates_on_start = False, True
        self._progress.watch(*_trainer_that_calls(), step)
        self._progress.place.count_by(_steps_per_epoch(train_dataloader, args))
        if not self._guest.is_fresh:
            if args.ignore_data_skip and self._progress.place.steps:
                say(
                    f"ignore_data_skip=True: after step {step} the data of epoch {int(state.epoch)} begins anew, so the training "
                    "is not the one without a stop: leave it out to go on where the data was"
                )
                self._progress.place.steps = 0
            self._keepers.resume(train_dataloader, state, step)

    def on_epoch_begin(self, args, state, control, **more):
        self._complete(state)
        self._be_asked_again(args)
        if self._rewinds:  # before the loader draws its seed
            self._guest.rewind()
            self._rewinds = self._progress.place.steps > 0
        self._progress.draw_order(self._rewinds)

    def on_step_begin(self, args, state, control, **more):
        self._complete(state)
        if self._rewinds:  # in mid-epoch, with the batch already there
            self._guest.rewind()
            self._rewinds = False
        self._guest.set_begun(True)

    def on_step_end(self, args, state, control, **more):
        self._progress.place.steps += 1
        self._progress.stopped = None
        self._keepers.before_evaluation()
        if self._has_finished(state.global_step):
            control.should_training_stop = True

    def on_prediction_step(self, args, state, control, eval_dataloader=None, **more):
        self._keepers.evaluates(eval_dataloader)

    def on_evaluate(self, args, state, control, **more):
        self._keepers.before_evaluation()

    def on_epoch_end(self, args, state, control, **more):
        self._keepers.before_evaluation()
        if not control.should_training_stop:
            self._progress.place.next_epoch()
        elif not float(state.epoch).is_integer():  # it ends early: what comes now is no part of the step
            self._note_end(args, state, control)
            self._complete(state)
            self._guest.save_last()

    def on_train_end(self, args, state, control, **more):
        self._be_asked_again(args)
        self._note_end(args, state, control)
        self._complete(state)
        self._guest.save_last()
        self.run.close()

    def _be_asked_again(self, args):
        args.eval_on_start, self._evaluates_on_start = args.eval_on_start or self._evaluates_on_start, False

    def _evaluating(self) -> list:
        """Modules of the model that evaluated when it was saved; "" is the model."""
        saved = self.run._inside.saved
        records = saved.run.get("exactness") if saved is not None else None
        return (records or {}).get("model", {}).get("evaluating", [])

    def _note_end(self, args, state, control):
        if control.should_training_stop and not self._has_finished(state.global_step):
            self._progress.stopped = _limits(args)

    def _complete(self, state):
        if state.global_step <= self.run._inside.step:
            return
        last = state.log_history[-1] if state.log_history else {}
        is_new = last.get("step") == state.global_step
        noted = {name: last[name] for name in ("loss", "grad_norm", "learning_rate") if is_new and name in last}
        self.run.step(**noted)


class _Keepers:
    """Loaders whose workers stay. They draw a seed from the global generator for their first epoch only; where that was in
    an earlier life, it must not be drawn from there again."""

    def __init__(self):
        self._has_evaluated = False  # in an earlier life
        self._began: list = []  # loaders of this life that have evaluated
        self._before = None  # the generator before an evaluation

    def resume(self, loader, state, step) -> None:
        """A training goes on with the loader, at a step."""
        self._has_evaluated = any(name.startswith("eval_") for entry in state.log_history for name in entry)
        if _draws_once(loader):
            getattr(loader, "base_dataloader", loader).generator = own = torch.Generator()
            own.manual_seed(derive(torch.initial_seed(), step, "workers"))

    def before_evaluation(self) -> None:
        """An evaluation may come next."""
        if self._has_evaluated:
            self._before = torch.get_rng_state()

    def evaluates(self, loader) -> None:
        """A batch was evaluated."""
        if self._has_evaluated and all(one is not loader for one in self._began):
            self._began.append(loader)
            if _draws_once(loader) and self._before is not None:
                torch.set_rng_state(self._before)


def _draws_once(loader) -> bool:
    loader = getattr(loader, "base_dataloader", loader)
    stays = getattr(loader, "num_workers", 0) and getattr(loader, "persistent_workers", False)
    return bool(stays) and getattr(loader, "generator", None) is None


@dataclasses.dataclass
class _Place:
    """Where in the data a training is. The trainer itself takes it from the number of steps, as if no epoch had ended early."""

    epoch: int = 0
    steps: int = 0  # in the epoch
    per_epoch: int | None = None  # None: the data have no length

    def count_by(self, steps: int | None) -> None:
        """An epoch has so many steps."""
        self.per_epoch = steps
        if steps is not None:
            self.epoch, self.steps = self.epoch + self.steps // steps, self.steps % steps

    def next_epoch(self) -> None:
        self.epoch, self.steps = self.epoch + 1, 0


def _steps_per_epoch(loader, arguments) -> int | None:
    return max(1, math.ceil(len(loader) / arguments.gradient_accumulation_steps)) if has_length(loader) else None


class _Progress:
    """The state of a Trainer, as a run can attach it."""

    OWN = ("exported", "stopped", "loss", "place", "drawn")  # beside what the trainer itself keeps

    def __init__(self):
        self.state = None
        self.trainer: Trainer | None = None
        self.stopped: list | None = None  # the limits of a training that a callback has ended
        self.place = _Place()
        self.drawn: torch.Tensor | None = None  # torch's generator when the epoch drew its order
        self.saved: dict = {}
        self._exporting: list = []  # callbacks with a state

    def go_on(self, step: int, arguments) -> int:
        """Takes the saved place, after so many steps; the step that leads a trainer there."""
        saved = self.saved.get("place") or {"epoch": 0, "steps": step, "per_epoch": None}
        self.drawn = self.saved.get("drawn")
        self.stopped, self.place = self.saved.get("stopped"), _Place(saved["epoch"], saved["steps"])
        if saved["epoch"] == 0:
            return saved["steps"]
        if saved["per_epoch"] is None and arguments is None:
            raise Misconfigured("the data have no length: make the Trainer before saver.resume() is called")
        return saved["epoch"] * (saved["per_epoch"] or arguments.max_steps) + saved["steps"]

    def draw_order(self, is_same: bool) -> None:
        """An epoch begins, whose sampler may draw from torch's generator: as in the life before, or anew."""
        if is_same and self.drawn is not None:
            torch.set_rng_state(self.drawn)
        self.drawn = torch.get_rng_state()

    def watch(self, trainer, callbacks, step: int) -> None:
        """The training begins; what was saved is put back: into its callbacks by class and in order."""
        self.trainer = trainer
        if hasattr(trainer, "_initial_global_step"):
            trainer._initial_global_step = step  # not the one that it was told
        loss = self.saved.get("loss")
        if loss is not None and hasattr(trainer, "_tr_loss"):
            trainer._tr_loss.fill_(loss["sum"])
            trainer._globalstep_last_logged = loss["since"]
            trainer._total_loss_scalar -= loss["sum"]  # whose mean is that of this call
        self._exporting = [one for one in callbacks if isinstance(one, ExportableState)]
        left = {name: list(states) for name, states in self.saved.get("exported", {}).items()}
        for one in self._exporting:
            states = left.get(type(one).__name__)
            for name, value in states.pop(0)["attributes"].items() if states else ():
                setattr(one, name, value)

    def state_dict(self) -> dict:
        if self.state is None:
            return self.saved
        plain = json.loads(json.dumps(dataclasses.asdict(self.state)))  # as the trainer itself keeps it
        entries = [entry for entry in plain["log_history"] if "train_runtime" not in entry]
        plain["log_history"] = [{k: v for k, v in entry.items() if not k.endswith(_TIMINGS)} for entry in entries]
        exported: dict = {}
        for one in self._exporting:
            exported.setdefault(type(one).__name__, []).append(one.state())
        return {**plain, "exported": json.loads(json.dumps(exported)), "stopped": self.stopped, "loss": self._loss(),
                "place": dataclasses.asdict(self.place), "drawn": self.drawn}  # fmt: skip

    def _loss(self) -> dict | None:
        """That of the steps since the trainer logged it last."""
        if not hasattr(self.trainer, "_tr_loss"):
            return None
        return {"sum": self.trainer._tr_loss.item(), "since": self.trainer._globalstep_last_logged}

    def load_state_dict(self, state: dict) -> None:
        self.saved = state


def _limits(arguments) -> list:
    return [arguments.max_steps, arguments.num_train_epochs]


def _trainer_that_calls() -> tuple:
    """The trainer that calls a callback of ours, and its callbacks, none of which the callback is told."""
    handler = sys._getframe(2).f_locals.get("self")
    trainer = sys._getframe(4).f_locals.get("self")
    callbacks = list(handler.callbacks) if isinstance(handler, CallbackHandler) else []
    return trainer if isinstance(trainer, Trainer) else None, callbacks


def _write(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(content, file)
