"""Tensors and arrays as memory: torch and NumPy behind one small set of functions.

Neither library is imported here; an object can only be one of theirs where the library is there already.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from unbroken._state.dtypes import NUMPY_TO_NAME, describe
from unbroken.errors import Misconfigured
from unbroken._state.tree import numpy_dtype, refuse

_torch_side = None  # the module torch_tensors, once a tensor of torch was seen


class View(NamedTuple):
    """What the core needs to copy a tensor: strides in elements, nbytes of the contiguous form."""

    tag: str  # "tensor" (torch) or "array" (NumPy)
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int
    nbytes: int
    owner: object  # keeps the memory at `pointer` alive
    memory: tuple | None  # equal for two names of the same memory; None where there is none

    @property
    def text(self) -> str:
        return describe(self.dtype, self.shape)


def _torch():
    global _torch_side
    if _torch_side is None:
        from unbroken._state import torch_tensors as _torch_side
    return _torch_side


def _is_array(value) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_tensor(value) -> bool:
    """True for a torch tensor or a NumPy array of any sort, also of one that `view` refuses."""
    torch = sys.modules.get("torch")
    return _is_array(value) or (torch is not None and isinstance(value, torch.Tensor))


def view(value, name: str, writes: bool = False) -> View:
    """The memory of a tensor. Errors: Misconfigured, by path (quantised, sparse, meta, object dtype, subclass)."""
    return _array_view(value, name, writes) if _is_array(value) else _torch().view(value, name)


def destination(value):
    """(pointer, copy): where the contiguous bytes go, and what to call afterwards (None where they are in place)."""
    return _array_destination(value) if _is_array(value) else _torch().destination(value)


def make(tag: str, dtype: str, shape, like=None):
    """A new torch tensor or NumPy array. `like`: a torch device, or a tensor whose device and layout to follow."""
    if tag == "tensor":
        if "torch" not in sys.modules:
            import importlib

            try:
                importlib.import_module("torch")
            except ImportError as error:
                raise Misconfigured(
                    f"the checkpoint holds torch tensors, and torch cannot be imported: {error}"
                ) from None
        return _torch().make(dtype, shape, like)
    kind = numpy_dtype(dtype)
    if kind is None:
        raise Misconfigured(f"the checkpoint holds a NumPy array of {dtype}: install ml_dtypes")
    return sys.modules["numpy"].empty(shape, kind)


def to_bytes(value) -> bytes:
    """The logical bytes, little-endian."""
    if _is_array(value):
        return _little(value).tobytes()
    return _torch().to_bytes(value)


def _little(array):
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        return array.astype(array.dtype.newbyteorder("<"))
    return array


def _array_view(array, name, writes):
    numpy = sys.modules["numpy"]
    if type(array) not in (numpy.ndarray, numpy.memmap):
        raise refuse(name, f"{type(array).__module__}.{type(array).__qualname__} is a subclass of ndarray")
    dtype = NUMPY_TO_NAME.get(array.dtype.name)
    if dtype is None:
        raise refuse(name, f"an array of dtype {array.dtype} cannot be kept")
    if writes and not array.flags.writeable:
        raise refuse(name, "the array is read-only and cannot be restored in place")
    size = array.dtype.itemsize
    memory = (array.ctypes.data, dtype, array.shape, tuple(array.strides)) if array.size else None
    little = _little(array)
    if any(stride % size for stride in little.strides):
        little = numpy.ascontiguousarray(little)
    strides = tuple(stride // size for stride in little.strides)
    return View(
        "array",
        dtype,
        array.shape,
        strides,
        little.ctypes.data if array.size else 0,
        array.nbytes,
        little,
        memory,
    )


def _array_destination(array):
    numpy = sys.modules["numpy"]
    if array.size == 0:
        return 0, None
    if array.flags.c_contiguous and array.flags.aligned and _little(array) is array:
        return array.ctypes.data, None
    staging = numpy.empty(array.shape, array.dtype.newbyteorder("<"))

    def copy():
        array[...] = staging

    return staging.ctypes.data, copy
