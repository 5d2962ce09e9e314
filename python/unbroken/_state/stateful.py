"""Objects that say themselves what their state is."""

from __future__ import annotations

import sys

from unbroken._state import tensors
from unbroken._state.order import OBJECTS
from unbroken._state.tree import decode, encode, tensors_of
from unbroken.errors import StateMismatch


def is_foreign(value) -> bool:
    """True where its load_state_dict may call code that is neither ours nor torch's."""
    is_ours = type(value).__module__.startswith(("torch.", "unbroken.torch."))
    return not is_ours or any(hasattr(part, "load_state_dict") for part in getattr(value, "__dict__", {}).values())


class StatefulAdapter:
    """Any object with state_dict and load_state_dict: it gets back whole what it gave."""

    is_exact = is_exact_tree = is_placed = False

    def __init__(self, value):
        self.value = value

    def capture(self, capture, name):
        with capture.as_(in_place=False, anew=True, is_exact=self.is_exact):
            return capture.value(self.value.state_dict(), name)

    def plan(self, node, name, plan):
        if plan.skips_part(node, name):
            return  # it gets its state whole, or keeps its own
        plan.make(node, self._devices(name) if tensors_of(node) else None)
        differences = getattr(self.value, "_unbroken_differences", None)  # our own objects say what differs
        if differences is not None:
            plan.changed += differences(decode(node, lambda tag, tensor: None), name)
        plan.calls_others = plan.calls_others or is_foreign(self.value)
        plan.then(OBJECTS, lambda state: self._load(state, name), node)

    def _devices(self, name):
        """Where the live object holds the tensor of a name: there the new one is made."""
        devices: dict[str, object] = {}

        def note(value, path):
            if tensors.is_tensor(value):
                devices[path] = getattr(value, "device", None)

        encode(self.value.state_dict(), name, note)
        return devices.get

    def _load(self, state, name):
        try:
            _load(self.value, state)
        except StateMismatch:
            raise
        except Exception as error:
            raise StateMismatch(
                f"{name}: {type(self.value).__qualname__}.load_state_dict refuses the saved state: {error}",
                changed=[(name, "the saved state", f"refused: {error}")],
            ) from error


def _load(value, state):
    if "torchdata.stateful_dataloader" in sys.modules:
        from unbroken._state.torch import torchdata

        torchdata.load(value, state)
    else:
        value.load_state_dict(state)
