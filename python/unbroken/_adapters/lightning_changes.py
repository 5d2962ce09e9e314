"""What callbacks change while a fit of Lightning runs, and no state_dict has: it goes on as it was changed.

Settings of the trainer, frozen parameters, modes of modules; the scheduler of StochasticWeightAveraging; pruned weights. Only
what differs from how the fit begins is saved: a setting that the caller changes between two lives counts.
"""

from __future__ import annotations

import torch
from lightning.pytorch.callbacks import ModelPruning, StochasticWeightAveraging
from torch.nn.utils import prune

_OF_TRAINER = ("accumulate_grad_batches", "check_val_every_n_epoch", "gradient_clip_algorithm", "gradient_clip_val",
               "limit_train_batches", "limit_val_batches", "log_every_n_steps", "reload_dataloaders_every_n_epochs")  # fmt: skip
_OF_MODULES = ("training", "track_running_stats")


class Changes:
    """Those of one fit."""

    def __init__(self, trainer):
        self._trainer = trainer
        self.keeps_gradients = False  # the step at hand leaves some that belong to the next one
        self._first: dict = {}  # the settings with which the fit begins in each life

    def begin(self, saved: dict | None) -> None:
        """The hooks of the start are through, and the optimizers and schedulers have their state."""
        places = self._places()
        self._first = _values(places)
        if saved is None:
            return
        for one in self._trainer.callbacks:
            if isinstance(one, StochasticWeightAveraging) and one._scheduler_state is not None:
                self._go_on_averaging(one)
        for path, one in saved["pruned"].items():
            prune.custom_from_mask(*_split(self._trainer.lightning_module, path), one["mask"])
        for name, original, live in self._originals():
            original.data = saved["originals"].get(name, live.detach())  # Lightning makes them one when it first goes back
        for path, gradient in saved["gradients"].items():
            self._trainer.lightning_module.get_parameter(path).grad = gradient
        for path, value in saved["settings"].items():
            if path in places:
                setattr(*places[path], value)

    def state(self) -> dict:
        now = _values(self._places())
        return {
            "settings": {path: value for path, value in now.items() if self._first.get(path, value) != value},
            "pruned": {path: {"value": getattr(one, f"{name}_orig").detach(), "mask": getattr(one, f"{name}_mask")}
                       for path, one, name in self._pruned()},
            "gradients": self._gradients(),
            "originals": {name: one.detach() for name, one, live in self._originals() if one.data_ptr() != live.data_ptr()},
        }  # fmt: skip

    def _gradients(self) -> dict:
        """Those that another step will take: where it has begun, and in the epoch in which averages get their norms."""
        trainer = self._trainer
        averagings = [one for one in trainer.callbacks if isinstance(one, StochasticWeightAveraging)]
        is_for_norms = any(one._model_contains_batch_norm and trainer.current_epoch == one.swa_end + 1 for one in averagings)
        if not self.keeps_gradients and not is_for_norms:
            return {}
        return {path: one.grad for path, one in trainer.lightning_module.named_parameters() if one.grad is not None}

    def unprune(self, weights: dict, saved: dict) -> None:
        """Makes `weights`, which Lightning loads, those of the module as it begins; `begin` prunes it."""
        for path, one in saved["pruned"].items():
            weights.pop(f"{path}_orig", None)
            weights.pop(f"{path}_mask", None)
            weights[path] = one["value"]

    def _pruned(self):
        modules = self._trainer.lightning_module.named_modules()
        hooks = [(path, one, hook) for path, one in modules for hook in one._forward_pre_hooks.values()]
        pruned = [(path, one, hook._tensor_name) for path, one, hook in hooks if isinstance(hook, prune.BasePruningMethod)]
        return [(f"{path}.{name}" if path else name, one, name) for path, one, name in pruned]

    def _originals(self) -> list:
        """The weights that the winner of a lottery goes back to: a name, the parameter, and the one that is trained."""
        prunings = [one for one in self._trainer.callbacks if isinstance(one, ModelPruning)]
        layers = [(i, one, layer) for i, one in enumerate(prunings) for layer in (one._original_layers or {}).values()]
        named = [(f"{i}.{k}", layer["data"], *one._parameters_to_prune[k]) for i, one, layer in layers for k, _ in layer["names"]]
        return [(key, getattr(copy, name), getattr(live, f"{name}_orig", getattr(live, name))) for key, copy, live, name in named]

    def _places(self) -> dict:
        """Where each setting is: an object and the name of its attribute, under a name."""
        module = self._trainer.lightning_module
        places = {f"trainer.{name}": (self._trainer, name) for name in _OF_TRAINER}
        for path, one in module.named_modules():
            places |= {f"module.{path}.{name}": (one, name) for name in _OF_MODULES if hasattr(one, name)}
        return places | {f"parameter.{path}": (one, "requires_grad") for path, one in module.named_parameters()}

    def _go_on_averaging(self, averaging) -> None:
        """Its scheduler is made as at the beginning of its phase, which steps and changes the rates that were restored."""
        trainer = self._trainer
        groups = [(group, dict(group)) for one in trainer.optimizers for group in one.param_groups]
        kept = averaging._latest_update_epoch, averaging._max_epochs
        averaging._latest_update_epoch, averaging._max_epochs = trainer.current_epoch, trainer.current_epoch + 1  # no update now
        averaging.on_train_epoch_start(trainer, trainer.lightning_module)
        averaging._latest_update_epoch, averaging._max_epochs = kept
        for group, before in groups:
            group.update(before)
        averaging._accumulate_grad_batches = trainer.accumulate_grad_batches  # to which its last epoch, for norms, goes back


def _values(places: dict) -> dict:
    return {path: getattr(*place) for path, place in places.items()}


def _split(module: torch.nn.Module, path: str):
    """The module of a parameter, and its name there."""
    owner, _, name = path.rpartition(".")
    return module.get_submodule(owner), name
