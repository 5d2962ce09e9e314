"""Modules: their parameters, buffers and extra states, without wrappers (adapters.py). Imported only where torch is."""

from __future__ import annotations

import sys

import torch

from unbroken._state.order import MODULES
from unbroken._state.names import canonical, join
from unbroken._state.tree import kind_of, pairs_of, refuse

_EXTRA = torch.nn.modules.module._EXTRA_STATE_KEY_SUFFIX


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
            with capture.as_(in_place=False, anew=True, is_exact=False):
                pairs.append([member, capture.value(part.get_extra_state(), path)])
        capture.encoder.leave(pairs)
        return {"dict": pairs}

    def plan(self, node, name, plan):
        self._check(name)
        if kind_of(node) != "dict":
            plan.changed.append((name, plan.saved.describe(node), "a module"))
            return
        saved = {key if isinstance(key, str) else canonical(key): item for key, item in pairs_of(node)}
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
            if plan.skips_part(item, path):
                continue
            plan.make(item)
            plan.then(MODULES, part.set_extra_state, item)
        for member, item in saved.items():
            plan.unread_below(item, join(name, member))
