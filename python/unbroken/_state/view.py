"""The memory of one tensor, whoever made it."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from unbroken._state.dtypes import describe

HOST = "host"  # reads only what is in the memory of the host: see device.py for the rest
_COUNT_MAX = 1 << 20  # elements of an irregular view that are looked at one by one


class View(NamedTuple):
    """What the core needs to copy a tensor: strides in elements, nbytes of the contiguous form."""

    tag: str  # "tensor" (torch) or "array" (NumPy)
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int  # 0 where there are no bytes, or none on the host yet
    nbytes: int
    owner: object  # keeps the memory at `pointer` alive
    memory: tuple | None  # equal for two names of the same memory; None where there is none

    @property
    def text(self) -> str:
        return describe(self.dtype, self.shape)


def do_elements_meet(shape, strides, size: int) -> bool:
    """True where two elements of `size` share memory; `strides` are in the unit of `size`."""
    axes = sorted((abs(stride), n) for n, stride in zip(shape, strides, strict=True) if n > 1)
    if any(n == 0 for n in shape):
        return False
    span, is_apart = size, True
    for stride, n in axes:
        is_apart = is_apart and stride >= span
        span += stride * (n - 1)
    if is_apart:
        return False
    count = 1
    for _, n in axes:
        count *= n
    if axes[0][0] < size or count > _COUNT_MAX or count * size > span:
        return True  # beyond _COUNT_MAX only views that interleave would be wronged
    starts = [0]
    for stride, n in axes:
        starts = [start + i * stride for start in starts for i in range(n)]
    starts.sort()
    return any(b - a < size for a, b in itertools.pairwise(starts))
