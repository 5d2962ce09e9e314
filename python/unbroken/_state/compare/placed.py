"""Which bytes need no second look: verified when they were read, where they are, and nobody else was there since."""

from __future__ import annotations


class Placed:
    """The live memory that a plan has bytes read into."""

    def __init__(self):
        self._names: dict[int, str] = {}  # address -> stored name
        self._ends: dict[int, int] = {}
        self.is_sure = False  # no tensor that was filled was written since

    def add(self, pointer: int, name: str, nbytes: int) -> None:
        self._names[pointer], self._ends[pointer] = name, pointer + nbytes

    def finish(self, writes: bool) -> None:
        """The bytes are there. `writes`: what runs now copies or converts into live memory, or is foreign code, which could."""
        begins = sorted(self._ends)
        are_apart = all(self._ends[a] <= b for a, b in zip(begins, begins[1:], strict=False))
        self.is_sure = are_apart and not writes

    def holds(self, saved, captured) -> bool:
        """True where a captured tensor is what was read for it: the same type, at the same place, in one piece."""
        name, dtype, shape, strides, pointer, _ = captured
        stored = saved.canon(name)
        if not self.is_sure or self._names.get(pointer) != stored:
            return False
        return saved.specs[stored][:2] == (dtype, shape) and _is_packed(shape, strides)


def _is_packed(shape, strides) -> bool:
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True
