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

    is_exact, is_exact_tree, is_placed, owns = True, False, True, True

    def __init__(self, module):
        self.module = module
        self._is_checked = self._has_extras = False

    def _check(self, name):
        if not self._is_checked:
            _check_own_state(self.module, name)
            self._is_checked = True

    def tensors(self):
        """(own name, tensor) of everything it owns."""
        return [(name, value) for name, kind, value, _ in members(self.module) if kind == "tensor"]

    def look(self, look):
        self._has_extras = False
        self._look_below(self.module, look)

    def _look_below(self, module, look):
        """As `members` goes."""
        module = unwrap(module)
        kind, modules, loose = type(module), module._modules, module._non_persistent_buffers_set
        names, values = [*module._parameters, *module._buffers], [*module._parameters.values(), *module._buffers.values()]
        look.marks += (kind, len(module._parameters), len(names), len(modules))
        look.marks += names
        if loose:
            look.marks.append(frozenset(loose))
            values = [value for name, value in zip(names, values, strict=True) if name not in loose]
        kept = [value for value in values if value is not None]
        if len(kept) < len(values):
            look.marks += [value is None for value in values]
        look.items(kept)
        self._has_extras = self._has_extras or kind.get_extra_state is not torch.nn.Module.get_extra_state
        for name, child in modules.items():
            look.marks.append(name)
            if child is not None:
                self._look_below(child, look)

    def take(self, capture, name):
        """The node of the tensors."""
        self._check(name)
        nodes = {}
        marker: list = []
        capture.encoder.enter(marker, name)
        self._has_extras = False
        for member, kind, value, _ in members(self.module):
            if kind == "tensor":
                nodes[member] = capture.tensor(value, join(name, member))
            else:
                self._has_extras = True
        capture.encoder.leave(marker)
        return {"dict": [[member, node] for member, node in nodes.items()]}, None

    def capture(self, capture, name):
        node, _ = capture.part(name, self)
        if not self._has_extras:
            return node
        nodes, pairs = dict(node["dict"]), []
        capture.encoder.enter(pairs, name)
        for member, kind, _, part in members(self.module):
            if kind == "tensor":
                pairs.append([member, nodes[member]])
                continue
            with capture.as_(in_place=False, anew=True, is_exact=False):
                pairs.append([member, capture.value(part.get_extra_state(), join(name, member))])
        capture.encoder.leave(pairs)
        return {"dict": pairs}

    def plan(self, node, name, plan):
        self._check(name)
        if kind_of(node) != "dict":
            plan.changed.append((name, plan.saved.describe(node), "a module"))
            return
        saved = {key if isinstance(key, str) else canonical(key): item for key, item in pairs_of(node)}
        own = list(members(self.module))
        if list(saved) == [member for member, *_ in own]:
            left = plan.fills(list(saved.values()), [value for _, _, value, _ in own])
            own = [own[i] for i in left]
            saved = {member: saved[member] for member, *_ in own}
        for member, kind, value, part in own:
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
            plan.calls_others = True
            plan.then(MODULES, part.set_extra_state, item)
        for member, item in saved.items():
            plan.unread_below(item, join(name, member))
