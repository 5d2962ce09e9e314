"""What snapshots take of memory: said at start, as far as it can be told before the first, and where it grows."""

from __future__ import annotations

import sys

from unbroken._state.adapters import placed
from unbroken.errors import say

#: how many tensors of the size of a parameter an optimizer of torch keeps for it, once it has made a step
_KEEPS = {
    "SGD": lambda group: bool(group["momentum"]),
    "RMSprop": lambda group: 1 + bool(group["momentum"]) + bool(group["centered"]),
    "Adam": lambda group: 2 + bool(group["amsgrad"]),
    "AdamW": lambda group: 2 + bool(group["amsgrad"]),
    "ASGD": lambda group: 1, "Muon": lambda group: 1,
} | dict.fromkeys(("Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "SparseAdam"), lambda group: 2)  # fmt: skip
_TOLD = 1.05, 1 << 20  # a growth that is worth a line: by so much, and by so many bytes


class SnapshotMemory:
    """Threads: the trainer's."""

    def __init__(self):
        self._said = 0.0  # bytes

    def expect(self, attached) -> None:
        """Says how large a snapshot will be: from the tensors of what is attached, and from what its optimizers will
        keep for each parameter."""
        here = dict(_memory_of(t) for name, value in attached.objects.items() for _, t in placed(value, name))
        later = sum(_to_come(optimizer) for _, optimizer in _optimizers(attached))
        kept = sum(_kept(optimizer) for _, optimizer in _optimizers(attached))
        total = sum(here.values()) + kept + later
        if not total:
            return
        what = f", {size_text(later)} of it for the state that optimizers will make" if later else ""
        say(f"arena: {size_text(total)} a snapshot{what}; twice that while another one is written")
        self._said = total

    def look(self, session) -> None:
        """Says so where it grew."""
        held = session.stats()["arena_bytes"]
        if held > max(self._said * _TOLD[0], self._said + _TOLD[1]):
            say(f"arena: {size_text(held)} now")
            self._said = held


def _optimizers(attached):
    torch = sys.modules.get("torch")
    return [] if torch is None else list(attached.of_type(torch.optim.Optimizer))


def _memory_of(tensor) -> tuple[int, int]:
    """(where it is, bytes): the same for two names of one tensor. Nothing for one that has no memory, such as a sparse
    one: the first save refuses it."""
    try:
        return tensor.data_ptr() if hasattr(tensor, "data_ptr") else id(tensor), tensor.nbytes
    except (NotImplementedError, RuntimeError, ValueError):
        return id(tensor), 0


def _kept(optimizer) -> int:
    return sum(t.nbytes for state in optimizer.state.values() for t in state.values() if hasattr(t, "nbytes"))


def _to_come(optimizer) -> int:
    """Bytes of state for parameters that have none yet; 0 for an optimizer that is not torch's own."""
    keeps = _KEEPS.get(type(optimizer).__name__)
    if keeps is None:
        return 0
    return sum(int(keeps(group)) * p.nbytes for group in optimizer.param_groups for p in group["params"]
               if p.requires_grad and p not in optimizer.state)  # fmt: skip


def size_text(count: float) -> str:
    """As the program writes sizes: "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.1f} {unit}" if unit != "B" else f"{count} B"
        count /= 1024
    return f"{count:.1f} TiB"
