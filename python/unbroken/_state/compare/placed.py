"""Which bytes need no second look: verified when they were read, where they are, and nobody else was there since."""

from __future__ import annotations


class Placed:
    """The live memory that a plan has bytes read into."""

    def __init__(self, saved):
        self._saved = saved
        self.names: dict[int, str] = {}  # address -> stored name
        self.is_sure = False  # no tensor that was filled was written since

    def finish(self, writes: bool) -> None:
        """The bytes are there. `writes`: what runs now copies or converts into live memory, or is foreign code, which could."""
        end, self.is_sure = 0, not writes
        for address in sorted(self.names):
            self.is_sure = self.is_sure and end <= address
            end = address + self._saved.specs[self.names[address]][2]

    def holds(self, captured) -> bool:
        """True where a captured tensor is what was read for it: the same type, at the same place, in one piece."""
        name, dtype, shape, strides, pointer, _ = captured
        stored = self._saved.canon(name)
        if not self.is_sure or self.names.get(pointer) != stored:
            return False
        return self._saved.specs[stored][:2] == (dtype, shape) and _is_packed(shape, strides)


def _is_packed(shape, strides) -> bool:
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True
