"""Learning-rate schedulers and gradient scalers (adapters.py); finds the adapter of any object of torch."""

from __future__ import annotations

import torch

from unbroken._state.torch.modules import ModuleAdapter
from unbroken._state.torch.optim import OptimizerAdapter
from unbroken._state.order import SCHEDULERS
from unbroken._state.stateful import StatefulAdapter
from unbroken.errors import StateMismatch
from unbroken._state.names import join, segment_of_node
from unbroken._state.tree import flatten, is_container, kind_of, pairs_of, tensors_of, text

SCALERS = tuple(
    {c for c in (getattr(torch.amp, "GradScaler", None), getattr(torch.cuda.amp, "GradScaler", None)) if c is not None}
)
SCHEDULER_KINDS = (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)


def adapter_of(value):
    """The adapter for an object of torch, else None."""
    if isinstance(value, torch.nn.Module):
        return ModuleAdapter(value)
    if isinstance(value, torch.optim.Optimizer):
        return OptimizerAdapter(value)
    if isinstance(value, SCHEDULER_KINDS):
        return SchedulerAdapter(value)
    return ScalerAdapter(value) if isinstance(value, SCALERS) else None


# -- schedulers

#: what moves while a scheduler or a scaler runs; a difference in anything else is another setting in the script
_MOVING = {
    "last_epoch", "_step_count", "_last_lr", "last_lr", "T_cur", "T_i", "best", "num_bad_epochs", "cooldown_counter",
    "_get_lr_called_within_step", "_is_initial", "verbose", "last_batch_iteration", "scale", "_growth_tracker",
}  # fmt: skip


class SchedulerAdapter:
    """A scheduler of torch.optim.lr_scheduler. Its settings come from the checkpoint; a difference is said.

    Functions of LambdaLR and the like are code and stay those of the script.
    """

    is_exact, is_exact_tree, is_placed = True, True, False

    def __init__(self, scheduler):
        self.scheduler = scheduler

    def capture(self, capture, name):
        with capture.as_(in_place=False, anew=True):
            return capture.value(self.scheduler.state_dict(), name)

    def plan(self, node, name, plan):
        live, node = plan.captured(self, name), plan.thinned(node, name)
        compare_keys(node, live, name, plan)
        plan_settings(live, node, name, plan)
        plan.make(node)
        plan.calls_others = plan.calls_others or type(self.scheduler).__module__.partition(".")[0] != "torch"
        plan.then(SCHEDULERS, self.scheduler.load_state_dict, node)


def compare_keys(node, live, name, plan):
    """Keys of nested dicts must agree, and lengths of lists; lists of dicts item by item."""
    saved_pairs, live_pairs = pairs_of(node), pairs_of(live)
    if saved_pairs is None or live_pairs is None:
        if isinstance(node, list) and isinstance(live, list):
            if len(node) != len(live):
                plan.changed.append((name, f"{len(node)} items", f"{len(live)} items"))
            for i, (a, b) in enumerate(zip(node, live, strict=False)):
                compare_keys(a, b, join(name, str(i)), plan)
        elif (is_container(node) or is_container(live)) and kind_of(node) != kind_of(live):
            plan.changed.append((name, kind_of(node), kind_of(live)))
        return
    saved = {join(name, segment_of_node(key)): item for key, item in saved_pairs}
    here = {join(name, segment_of_node(key)): item for key, item in live_pairs}
    plan.unread += saved.keys() - here.keys()
    plan.missing += here.keys() - saved.keys()
    for path in saved.keys() & here.keys():
        compare_keys(saved[path], here[path], path, plan)


def plan_settings(live, saved, name, plan):
    """Notes the plain settings that differ."""
    there = dict(flatten(saved, name))
    for path, node in flatten(live, name):
        moving = any(part in _MOVING for part in path.split("."))
        if (
            not moving
            and not tensors_of(node)
            and path in there
            and not tensors_of(there[path])
            and there[path] != node
        ):
            plan.settings.differ(path, text(node), text(there[path]))


# -- the gradient scaler


class ScalerAdapter(StatefulAdapter):
    """torch.amp.GradScaler; after loading, unscale_ works before the first scale."""

    is_exact, is_exact_tree, is_placed = True, True, False

    def plan(self, node, name, plan):
        if plan.skips_part(node, name):
            return
        live = plan.captured(self, name)
        compare_keys(node, live, name, plan)
        plan_settings(live, node, name, plan)
        plan.make(node)
        plan.calls_others = plan.calls_others or type(self.value).__module__.partition(".")[0] != "torch"
        plan.then(SCHEDULERS, self._put, node)

    def _put(self, state):
        scaler = self.value
        if not state:
            return
        try:
            scaler.load_state_dict(state)
            if getattr(scaler, "_scale", 0) is None:
                scaler._lazy_init_scale_growth_tracker(torch.device(scaler._device))
        except (RuntimeError, KeyError) as error:
            raise StateMismatch(f"the gradient scaler refuses the saved state: {error}") from error
