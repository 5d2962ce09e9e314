"""Where a step of a Lightning fit ends, and how one goes on from there.

A step is complete when all that hangs on it is through: the hooks of its batch, the validation and schedulers after it,
and, for the last batch of an epoch, the end of the epoch. A fit that goes on begins with the next batch, or with the
next epoch; nothing is made up for. Lightning's own loops can begin at other places too, which lose a validation or a
step of a scheduler: they are not used. Beside Lightning's checkpoint this needs what it leaves out (`state`).
"""

from __future__ import annotations

import functools

import torch
from lightning.pytorch.callbacks import Checkpoint, Timer
from lightning.pytorch.loops.utilities import _is_max_limit_reached
from lightning.pytorch.trainer.connectors.logger_connector.result import _Metadata, _ResultMetric, _Sync
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torchmetrics import Metric

from unbroken._adapters.lightning_changes import Changes
from unbroken.errors import say

_REDUCTIONS = {
    "torch.mean": torch.mean, "torch.sum": torch.sum, "torch.max": torch.max, "torch.min": torch.min,
    "sum": sum, "max": max, "min": min,
}  # fmt: skip
_META = ("fx", "name", "prog_bar", "logger", "on_step", "on_epoch", "enable_graph", "add_dataloader_idx", "dataloader_idx",
         "metric_attribute")  # fmt: skip
_TENSORS = ("value", "cumulated_batch_size", "_forward_cache")


class Loops:
    """The loops of one fit, watched from setup to `let_go`.

    `ended(is_last)` is called after each batch and after each epoch, where the state is whole; `is_last` where the
    fit ends there. `rewind` and `mark` put the global generators to where they were saved, and note where they are.
    """

    def __init__(self, trainer, ended, rewind, mark):
        self._trainer, self._fit, self._epoch = trainer, trainer.fit_loop, trainer.fit_loop.epoch_loop
        self._ended, self._rewind, self._mark = ended, rewind, mark
        self._saved: dict | None = None  # what the fit goes on from, until it does
        self._validation = {"reloaded": None, "loaders": []}  # those of the fit before, until there are some in this one
        self._before_fetch = None  # the states of the loaders, where Lightning fetches a batch ahead
        self._sanity_steps = trainer.num_sanity_val_steps
        self.changes = Changes(trainer)
        self._wrapped: list = []
        for loop, name, around in (
            (self._fit, "run", self._around_run),
            (self._fit, "on_run_start", self._around_fit_start),
            (self._fit, "setup_data", self._around_setup),
            (self._fit, "_load_combined_loader_states", self._around_load),
            (self._fit, "on_advance_end", self._around_epoch_end),
            (self._epoch, "on_run_start", self._around_run_start),
            (self._epoch, "_on_before_fetch", self._around_fetch),
            (self._epoch, "on_advance_end", self._around_batch_end),
            (self._epoch.val_loop, "setup_data", self._around_validation_setup),
        ):
            method = getattr(loop, name)
            setattr(loop, name, functools.wraps(method)(functools.partial(around, method)))
            self._wrapped.append((loop, name))

    def let_go(self) -> None:
        """The loops are Lightning's alone again. Twice is once."""
        self._trainer.num_sanity_val_steps = self._sanity_steps
        while self._wrapped:
            delattr(*self._wrapped.pop())

    # -- where a step ends

    def _around_batch_end(self, on_advance_end, *arguments):
        try:
            on_advance_end(*arguments)
        except SIGTERMException:  # the last thing that it does
            self._end_batch()
            raise
        self._end_batch()

    def _end_batch(self):
        if not self._epoch._num_ready_batches_reached():  # else the end of the epoch belongs to it
            self._ended(self._is_over())

    def _around_epoch_end(self, on_advance_end):
        is_whole = self._epoch._num_ready_batches_reached()  # else the fit ends within it
        try:
            on_advance_end()
        except SIGTERMException:
            if is_whole:
                self._ended(self._is_over())
            raise
        if is_whole:
            self._ended(self._is_over())

    def _is_over(self) -> bool:
        stops = self._trainer.should_stop and self._fit._can_stop_early
        is_at_step = _is_max_limit_reached(self._epoch.global_step, self._epoch.max_steps)
        return stops or is_at_step or _is_max_limit_reached(self._fit.epoch_progress.current.processed, self._fit.max_epochs)

    def _limits(self) -> list:
        return [self._fit.max_epochs, self._epoch.max_steps]

    def _stops_early(self) -> bool:
        """Whether something in the state says that the fit is over; a Timer decides anew in each life."""
        timers = [one.time_remaining() for one in self._trainer.callbacks if isinstance(one, Timer)]
        return self._trainer.should_stop and not any(left is not None and left <= 0 for left in timers)

    # -- what is saved

    def validation_loaders(self) -> list:
        """Those whose place is saved, so that a shuffled validation goes on in its order."""
        return _ours(self._epoch.val_loop._combined_loader)

    def state(self, checkpoint: dict) -> dict:
        """Lightning's checkpoint with what it leaves out."""
        if self._before_fetch:
            checkpoint["loops"]["fit_loop"]["state_dict"]["combined_loader"] = self._before_fetch
        module, connector = self._trainer.lightning_module, self._trainer._logger_connector
        validation = self._epoch.val_loop
        if validation._combined_loader is not None:
            states = [one.state_dict() for one in self.validation_loaders()]
            self._validation = {"reloaded": _number(validation._last_val_dl_reload_epoch), "loaders": states}
        checkpoint["unbroken"] = {
            "results": [_told(key, one) for key, one in self._epoch._results.items() if not one.has_reset],
            "callback_metrics": {name: value.detach() for name, value in connector._callback_metrics.items()},
            "metrics": {name: _held(metric) for name, metric in _metrics(module)},
            "reloaded": _number(self._fit._last_train_dl_reload_epoch),
            "validation": self._validation,
            "stopped": self._limits() if self._stops_early() else None,
            "changes": self.changes.state(),
        }
        return checkpoint

    # -- how a fit goes on

    def load(self, checkpoint: dict) -> None:
        """The fit goes on from there, which becomes Lightning's own. As Lightning does it, where an older version of us saved it."""
        self._saved = state = checkpoint.pop("unbroken", None)
        if state is not None:
            self._validation = state["validation"]
            self._trainer.num_sanity_val_steps = 0  # that was in the first life
            if "changes" in state:
                self.changes.unprune(checkpoint["state_dict"], state["changes"])

    def _around_run(self, run):
        if self._saved is not None and self._saved.get("stopped") == self._limits():
            self._trainer.should_stop = True
            if self._is_over():
                say(f"the fit ended early, after step {self._epoch.global_step}: to go on, raise max_epochs or max_steps")
        has_ended = self._saved is not None and self._is_over()
        run()  # takes no batch, and calls no hook, where it has ended
        if has_ended:  # what comes of its end is made again: averaged weights are the module's
            callbacks = self._trainer.callbacks
            self._trainer.callbacks = [one for one in callbacks if not isinstance(one, Checkpoint)]  # those have kept their files
            try:
                self._fit.on_run_start()
                self._fit.on_run_end()
            finally:
                self._trainer.callbacks = callbacks

    def _around_fit_start(self, on_run_start):
        on_run_start()
        self.changes.begin(None if self._saved is None else self._saved.get("changes"))

    @property
    def _is_within_epoch(self) -> bool:
        progress = self._fit.epoch_progress.current
        return progress.ready != progress.processed

    def _around_setup(self, setup_data):
        if self._saved is None or self._fit._combined_loader is not None:
            setup_data()
            return
        last = self._saved["reloaded"]
        self._is_within = self._is_within_epoch
        is_due = self._is_reload_due(last) and not self._is_within
        self._is_due = is_due and self._fit._data_source.is_module()
        if self._is_due:
            self._rewind()
        setup_data()
        if not self._is_within:
            self._mark()
            self._clear()
        if last is not None and not is_due:
            self._fit._last_train_dl_reload_epoch = last

    def _around_load(self, load_states):
        if self._saved is None or not self._fit._combined_loader_states_to_load:
            load_states()
            return
        if self._is_due:
            self._fit._combined_loader_states_to_load = []
            return
        self._fit._restarting = True  # else they are not loaded
        load_states()
        if not self._is_within:
            for loader in _ours(self._fit._combined_loader):
                loader._unbroken_begin_next()

    def _around_validation_setup(self, setup_data):
        validation, saved = self._epoch.val_loop, self._validation
        is_first = validation._combined_loader is None
        setup_data()
        if not is_first or not saved["loaders"] or self._is_reload_due(saved["reloaded"]):
            return
        validation._last_val_dl_reload_epoch = saved["reloaded"]
        for i, (loader, state) in enumerate(zip(self.validation_loaders(), saved["loaders"], strict=False)):
            differs = loader._unbroken_differences(state, f"validation loader {i}")
            if differs:
                say(f"{differs[0][0]} was {differs[0][1]} and is {differs[0][2]} now: it begins with its epoch 0")
                continue
            loader.load_state_dict(state)
            loader._unbroken_begin_next()

    def _is_reload_due(self, last) -> bool:
        """Loaders that were asked for in the epoch `last` are asked for again: a hook makes new ones, others go on."""
        every = self._trainer.reload_dataloaders_every_n_epochs
        return bool(every and last is not None and self._trainer.current_epoch - last >= every)

    def begin(self) -> None:
        """Training begins: metrics are what they were."""
        if self._saved is None:
            return
        module, connector = self._trainer.lightning_module, self._trainer._logger_connector
        saved = self._saved
        for name, metric in _metrics(module):
            _hold(metric, saved["metrics"].get(name, {}), module.device)
        for one in saved["results"]:
            self._epoch._results[one["key"]] = _made(one, module, self._trainer.strategy.reduce)
        if saved["results"]:
            connector._first_loop_iter = False  # which would empty them
        for name, value in saved["callback_metrics"].items():
            connector._callback_metrics[name] = value.to(module.device)

    def _around_run_start(self, on_run_start, *arguments):
        on_run_start(*arguments)
        if self._saved is not None:
            self._clear()

    def _clear(self):
        self._fit._restarting = self._epoch._restarting = self._epoch.val_loop._restarting = False

    def _around_fetch(self, on_before_fetch):
        fetcher = self._fit._data_fetcher
        if fetcher is not None and getattr(fetcher, "batches", None) is not None and fetcher.length is None:
            self._before_fetch = self._fit._combined_loader._state_dicts()
        on_before_fetch()


def _number(epoch):
    return epoch if isinstance(epoch, int) else None  # minus infinity: never


def _ours(combined):
    """Loaders of unbroken.torch."""
    return [] if combined is None else [one for one in combined.flattened if hasattr(one, "_unbroken_begin_next")]


def _metrics(module):
    return [(name, one) for name, one in module.named_modules() if isinstance(one, Metric)]


def _held(metric) -> dict:
    """What a metric has gathered, which is not in the state_dict of its module."""
    return {"count": metric._update_count, **{name: getattr(metric, name) for name in metric._defaults}}


def _hold(metric, held: dict, device) -> None:
    for name in metric._defaults:
        if name in held:
            value = held[name]
            setattr(metric, name, [one.to(device) for one in value] if isinstance(value, list) else value.to(device))
    metric._update_count, metric._computed = held.get("count", metric._update_count), None


def _told(key: str, result) -> dict:
    """What was logged under a key since the epoch began."""
    reduction = next(name for name, function in _REDUCTIONS.items() if function is result.meta.reduce_fx)
    tensors = {name: getattr(result, name, None) for name in _TENSORS if result.is_tensor}
    return {
        "key": key, "count": result._update_count, "reduction": reduction, "rank_zero_only": result.meta.sync.rank_zero_only,
        "meta": {name: getattr(result.meta, name) for name in _META},
        "tensors": {name: value.detach() for name, value in tensors.items() if isinstance(value, torch.Tensor)},
    }  # fmt: skip


def _made(told: dict, module, reduce):
    meta = _Metadata(**told["meta"], reduce_fx=_REDUCTIONS[told["reduction"]])
    meta.sync = _Sync(fn=reduce, rank_zero_only=told["rank_zero_only"])
    attribute = meta.metric_attribute
    result = _ResultMetric(meta, is_tensor=attribute is None)
    result.to(module.device)
    if attribute is not None:
        result.value = module.get_submodule(attribute)
    for name, value in told["tensors"].items():
        setattr(result, name, value.to(module.device))
    result._update_count = told["count"]
    return result
