"""Is an attached optimizer of torch the one that trains? One that a trainer made anew may do its work: then checkpoints
would hold a state that nothing uses."""

from __future__ import annotations

import sys

from unbroken._state.adapters import leaves
from unbroken._state.names import segment
from unbroken.errors import Misconfigured

_STEPS = 5  # so many completed ones, in each of which it was passed over


class BypassWatch:
    """The attached optimizers that have not stepped in this life, and those that are not attached and have."""

    def __init__(self):
        self._idle: dict[int, list] = {}  # id of an attached one -> [its path, itself, steps that it was passed over in]
        self._known: dict[int, object] = {}  # all that are attached
        self._others: dict[int, object] = {}  # what stepped since the last boundary and is not attached
        self._hook = None

    def add(self, name: str, value) -> None:
        """Watches an attached object, if there is an optimizer in it."""
        if "torch" not in sys.modules:
            return
        from torch.optim import optimizer

        for path, leaf in leaves(value, segment(name)):
            if isinstance(leaf, optimizer.Optimizer) and id(leaf) not in self._known:
                self._known[id(leaf)], self._idle[id(leaf)] = leaf, [path, leaf, 0]
        if self._idle and self._hook is None:
            self._hook = optimizer.register_optimizer_step_post_hook(self._on_step)

    def _on_step(self, optimizer, *_):
        self._idle.pop(id(optimizer), None)
        if not self._idle:
            self._unhook()
        elif id(optimizer) not in self._known:
            self._others[id(optimizer)] = optimizer

    def check(self) -> None:
        """A step is complete. Errors: Misconfigured for an attached optimizer that never stepped in this life, where another
        one with a state, which is not attached, stepped over its parameters in several steps."""
        others, self._others = self._others, {}
        for entry in self._idle.values() if others else ():
            path, optimizer, _ = entry
            mine = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
            inside = _inside(optimizer)
            found = [one for one in others.values() if id(one) not in inside and _has_state_of(one, mine)]
            entry[2] += bool(found)
            if entry[2] >= _STEPS:
                kind = type(found[0])
                raise Misconfigured(
                    f"{path} has not stepped since it was attached, and in {_STEPS} steps a {kind.__module__}.{kind.__qualname__} "
                    "that is not attached stepped over its parameters: checkpoints hold the state of one that does not train; "
                    "attach the one that does, instead or as well",
                    "run.attach(NAME=...)",
                )

    def _unhook(self):
        if self._hook is not None:
            self._hook.remove()
        self._hook = None

    def close(self) -> None:
        """Removes the hook."""
        self._unhook()
        self._idle, self._known, self._others = {}, {}, {}


def _inside(optimizer) -> set[int]:
    """The optimizers that a wrapper of optimizers steps for itself."""
    found, pending = set(), [optimizer]
    while pending:
        parts = [part for part in vars(pending.pop()).values() if hasattr(part, "param_groups") and id(part) not in found]
        found.update(map(id, parts))
        pending += parts
    return found


def _has_state_of(optimizer, parameters) -> bool:
    states = (optimizer.state.get(p) for group in optimizer.param_groups for p in group["params"] if id(p) in parameters)
    return any(value is not None for state in states if state for value in state.values())
