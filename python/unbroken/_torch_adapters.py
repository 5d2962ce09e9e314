"""Modules, learning-rate schedulers and gradient scalers (adapters.py). Imported only where torch is."""

from __future__ import annotations

import sys

import torch

from unbroken._torch_optim import OptimizerAdapter
from unbroken.adapters import StatefulAdapter
from unbroken.collect import MODULES, SCHEDULERS
from unbroken.errors import StateMismatch
from unbroken.names import join, segment_of_node
from unbroken.tree import decode, flatten, pairs_of, refuse, tensors_of, text

_SCALERS = tuple(
    {c for c in (getattr(torch.amp, "GradScaler", None), getattr(torch.cuda.amp, "GradScaler", None)) if c is not None}
)
_SCHEDULERS = (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
_EXTRA = torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX


def adapter_of(value):
    """The adapter for an object of torch, else None."""
    if isinstance(value, torch.nn.Module):
        return ModuleAdapter(value)
    if isinstance(value, torch.optim.Optimizer):
        return OptimizerAdapter(value)
    if isinstance(value, _SCHEDULERS):
        return SchedulerAdapter(value)
    return ScalerAdapter(value) if isinstance(value, _SCALERS) else None


# -- modules


def unwrap(module):
    """The module inside DDP, DataParallel and torch.compile, in any order and depth."""
    while True:
        if isinstance(module, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            module = module.module
            continue
        compiled = sys.modules.get("torch._dynamo.eval_frame")  # where it is not there, nothing is compiled
        if compiled is not None and isinstance(module, compiled.OptimizedModule):
            module = module._orig_mod
            continue
        return module


def members(module, prefix: str = ""):
    """(name, kind, value, module) of the parameters, persistent buffers and extra states, without wrappers' names.

    `kind` is "tensor" or "extra"; a value under two names comes twice.
    """
    module = unwrap(module)
    for name, value in (*module._parameters.items(), *module._buffers.items()):
        if value is not None and name not in module._non_persistent_buffers_set:
            yield prefix + name, "tensor", value, module
    if type(module).get_extra_state is not torch.nn.Module.get_extra_state:
        yield prefix + _EXTRA, "extra", None, module
    for name, child in module._modules.items():
        if child is not None:
            yield from members(child, f"{prefix}{name}.")


def submodules(module, prefix: str = ""):
    """(prefix, module) of a module and everything below it, wrappers left out."""
    module = unwrap(module)
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from submodules(child, f"{prefix}{name}.")


def is_lazy(value) -> bool:
    """A parameter or buffer that the first batch will make."""
    return isinstance(value, torch.nn.parameter.UninitializedTensorMixin)


def _check_own_state(module, name):
    """Refuses a module whose own state_dict holds what is neither parameter, buffer nor extra state."""
    base = torch.nn.Module
    for prefix, part in submodules(module):
        kind = type(part)
        own: dict = {}
        if kind._save_to_state_dict is not base._save_to_state_dict:
            part._save_to_state_dict(own, "", True)
        if kind.state_dict is not base.state_dict:
            own = part.state_dict()
        if not own:
            continue
        tensors = [value for _, kind_, value, _ in members(part) if kind_ == "tensor" and not is_lazy(value)]
        known = {value.data_ptr() for value in tensors}
        for key, value in own.items():
            if (
                key.endswith(_EXTRA)
                or is_lazy(value)
                or (isinstance(value, torch.Tensor) and value.data_ptr() in known)
            ):
                continue
            raise refuse(
                join(name, prefix + str(key)),
                f"{kind.__module__}.{kind.__qualname__} writes this into its state_dict, and it is neither a parameter "
                "nor a buffer: register it as a buffer, or use get_extra_state and set_extra_state",
            )


class ModuleAdapter:
    """A module: parameters, persistent buffers and extra state under the module's own names, in place."""

    is_exact, is_exact_tree = True, False

    def __init__(self, module):
        self.module = module
        self._is_checked = False

    def _check(self, name):
        if not self._is_checked:
            _check_own_state(self.module, name)
            self._is_checked = True

    def tensors(self):
        """(own name, tensor) of everything it owns."""
        return [(name, value) for name, kind, value, _ in members(self.module) if kind == "tensor"]

    def capture(self, capture, name):
        self._check(name)
        pairs = []
        capture.encoder.enter(pairs, name)
        for member, kind, value, part in members(self.module):
            path = join(name, member)
            if kind == "tensor":
                pairs.append([member, capture.tensor(value, path)])
                continue
            before, capture.is_exact = capture.is_exact, False
            pairs.append([member, capture.value(part.get_extra_state(), path)])
            capture.is_exact = before
        capture.encoder.leave(pairs)
        return {"dict": pairs}

    def plan(self, node, name, plan):
        self._check(name)
        saved = {key: item for key, item in pairs_of(node) or ()}
        for member, kind, value, part in members(self.module):
            path = join(name, member)
            if member not in saved:
                plan.missing.append(path)
                continue
            item = saved.pop(member)
            if kind == "tensor":
                if is_lazy(value):
                    plan.changed.append((path, plan.saved.describe(item), "not initialised yet"))
                else:
                    plan.fill(item, value, path)
                continue
            plan.make(item)
            plan.then(MODULES, lambda part=part, item=item: part.set_extra_state(plan.value(item)))
        for member, item in saved.items():
            plan.unread_below(item, join(name, member))


# -- schedulers

#: what moves while a scheduler runs; a difference in anything else is another setting in the script
_MOVING = {
    "last_epoch", "_step_count", "_last_lr", "last_lr", "T_cur", "T_i", "best", "num_bad_epochs", "cooldown_counter",
    "_get_lr_called_within_step", "_is_initial", "verbose", "last_batch_iteration",
}  # fmt: skip


class SchedulerAdapter:
    """A scheduler of torch.optim.lr_scheduler. Its settings come from the checkpoint; a difference is said.

    Functions of LambdaLR and the like are code and stay those of the script.
    """

    is_exact, is_exact_tree = True, True

    def __init__(self, scheduler):
        self.scheduler = scheduler

    def capture(self, capture, name):
        return capture.value(self.scheduler.state_dict(), name)

    def plan(self, node, name, plan):
        from unbroken.collect import Capture

        live = self.capture(Capture(), name)
        compare_keys(node, live, name, plan)
        for path, here, there in setting_differences(live, node, name):
            plan.setting(path, here, there)
        plan.make(node)
        plan.then(SCHEDULERS, lambda: self.scheduler.load_state_dict(plan.value(node)))


def compare_keys(node, live, name, plan):
    """Keys of nested dicts must agree; lists of dicts item by item."""
    saved_pairs, live_pairs = pairs_of(node), pairs_of(live)
    if saved_pairs is None or live_pairs is None:
        if isinstance(node, list) and isinstance(live, list) and any(pairs_of(item) for item in (*node, *live)):
            if len(node) != len(live):
                plan.changed.append((name, f"{len(node)} items", f"{len(live)} items"))
            for i, (a, b) in enumerate(zip(node, live, strict=False)):
                compare_keys(a, b, join(name, str(i)), plan)
        return
    saved = {join(name, segment_of_node(key)): item for key, item in saved_pairs}
    here = {join(name, segment_of_node(key)): item for key, item in live_pairs}
    plan.unread += saved.keys() - here.keys()
    plan.missing += here.keys() - saved.keys()
    for path in saved.keys() & here.keys():
        compare_keys(saved[path], here[path], path, plan)


def setting_differences(live, saved, name):
    """(path, live, saved) of plain settings that differ."""
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
            yield path, text(node), text(there[path])


# -- the gradient scaler


class ScalerAdapter(StatefulAdapter):
    """torch.amp.GradScaler; after loading, unscale_ works before the first scale."""

    is_exact, is_exact_tree = True, True

    def plan(self, node, name, plan):
        from unbroken.collect import Capture

        compare_keys(node, self.capture(Capture(), name), name, plan)
        plan.then(SCHEDULERS, lambda: self._put(decode(node)))

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
