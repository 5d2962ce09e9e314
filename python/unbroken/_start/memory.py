"""What snapshots take of memory: said at start, as far as it can be told before the first, taken ahead of that, and said
where it grows."""

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
_OTHER = 64  # of the tensors' bytes one in so many, for small ones that are not seen here
_HEADER = 512  # bytes of the header of a snapshot for a tensor, and more than those
_TOLD = 1.05, 1 << 20  # a growth that is worth a line: by so much, and by so many bytes


class SnapshotMemory:
    """Threads: the trainer's."""

    def __init__(self):
        self._said = 0.0  # bytes
        self._ahead: tuple[int, int] | None = None

    def expect(self, attached) -> None:
        """Says how large a snapshot will be: from the tensors of what is attached, and from what its optimizers will
        keep for each parameter."""
        here = dict(_memory_of(t) for name, value in attached.objects.items() for _, t in placed(value, name))
        optimizers = [optimizer for _, optimizer in _optimizers(attached)]
        to_come = [nbytes for optimizer in optimizers for nbytes in _to_come(optimizer)]
        sizes = [*here.values(), *(nbytes for optimizer in optimizers for nbytes in _kept(optimizer)), *to_come]
        total, later = sum(sizes), sum(to_come)
        if not total:
            return
        if all(map(_is_foretold, optimizers)):
            self._ahead = total + total // _OTHER + _HEADER * len(sizes), later
        what = f", {size_text(later)} of it for the state that optimizers will make" if later else ""
        say(f"arena: {size_text(total)} a snapshot{what}; twice that while another one is written")
        self._said = total

    def take_ahead(self, session) -> None:
        """Has the memory of the first snapshot taken from here on, when nobody else wants the processor; only where it
        could be told how large that will be."""
        ahead, self._ahead = self._ahead, None
        if ahead:
            session.reserve(*ahead)

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


def _kept(optimizer) -> list[int]:
    """Bytes of each tensor of its state."""
    return [t.nbytes for state in optimizer.state.values() for t in state.values() if hasattr(t, "nbytes")]


def _without_state(optimizer):
    """(group, parameter) of those that will have some."""
    return [(group, p) for group in optimizer.param_groups for p in group["params"]
            if p.requires_grad and p not in optimizer.state]  # fmt: skip


def _to_come(optimizer) -> list[int]:
    """Bytes of each tensor of state that is not there yet; none of an optimizer that is not torch's own."""
    keeps = _KEEPS.get(type(optimizer).__name__, lambda group: 0)
    return [p.nbytes for group, p in _without_state(optimizer) for _ in range(int(keeps(group)))]


def _is_foretold(optimizer) -> bool:
    """False where it will keep nobody knows what."""
    return type(optimizer).__name__ in _KEEPS or not _without_state(optimizer)


def size_text(count: float) -> str:
    """As the program writes sizes: "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.1f} {unit}" if unit != "B" else f"{count} B"
        count /= 1024
    return f"{count:.1f} TiB"
