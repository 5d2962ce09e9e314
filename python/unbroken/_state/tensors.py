"""Tensors and arrays as memory: torch and NumPy behind one small set of functions.

Neither library is imported here; an object can only be one of theirs where the library is there already.
"""

from __future__ import annotations

import sys

from unbroken._state.dtypes import NUMPY_TO_NAME
from unbroken.errors import Misconfigured
from unbroken._state.tree import numpy_dtype, refuse
from unbroken._state.view import View, do_elements_meet

_NOT_IN_PLACE = ", so that it cannot be restored in place: attach a copy of it"

_torch_side = None  # the module torch.tensors, once a tensor of torch was seen


def _torch():
    global _torch_side
    if _torch_side is None:
        from unbroken._state.torch import tensors as _torch_side
    return _torch_side


def array_types() -> frozenset:
    """The types of arrays that `view` takes."""
    numpy = sys.modules.get("numpy")
    return frozenset() if numpy is None else frozenset({numpy.ndarray, numpy.memmap})


def plain_types() -> frozenset:
    """The types of tensors and arrays that `view` takes."""
    return array_types() | (_torch().PLAIN if hasattr(sys.modules.get("torch"), "Tensor") else frozenset())


def facts(several):
    """Of tensors of torch: all that their views depend on, in lists. Errors: any, where one has no plain memory."""
    return _torch().facts(several)


def _are_torch(several) -> bool:
    return bool(several) and set(map(type, several)) <= plain_types() - array_types()


def straight(several):
    """(addresses, dtypes, shapes) of tensors of torch on the host; 0 where one does not stand as its logical bytes in plain
    memory. None where one is another thing, or elsewhere."""
    try:
        return _torch().straight(several) if _are_torch(several) else None
    except (RuntimeError, NotImplementedError):  # one has no memory of this sort
        return None


def are_whole(several) -> bool:
    """True for tensors of torch of which check_in_place says nothing, without a closer look."""
    try:
        return _are_torch(several) and _torch().are_whole(several)
    except (RuntimeError, NotImplementedError):
        return False


def is_array(value) -> bool:
    """True for a NumPy array of any sort."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_tensor(value) -> bool:
    """True for a torch tensor or a NumPy array of any sort, also of one that `view` refuses."""
    torch = sys.modules.get("torch")
    return is_array(value) or (torch is not None and isinstance(value, torch.Tensor))


def is_parameter(value) -> bool:
    """True for a plain Parameter of torch."""
    return _torch_side is not None and type(value) is _torch_side.torch.nn.Parameter


def view(value, name: str, reads: bool | str = True, in_place: bool = False, anew: bool = False) -> View:
    """The memory of a tensor. Errors: Misconfigured, by path (quantised, sparse, meta, object dtype, subclass).

    Without `reads` the pointer is not for use, and nothing is copied from an accelerator; nor is it with HOST, and the
    pointer is 0 where torch.device brings the bytes. `in_place`: also what
    check_in_place refuses. `anew`: also what would come back as another type when it is made anew.
    """
    side = _Arrays if is_array(value) else _torch()
    why = side.why_no_write(value) if in_place else None
    if why is not None:
        raise refuse(name, why + _NOT_IN_PLACE)
    why = side.why_not_plain(value) if anew else None
    if why is not None:
        raise refuse(name, why)
    return side.view(value, name, reads)


def composed(value):
    """The module torch.subclasses where the value is a tensor made of other tensors, else None."""
    if is_array(value) or not _torch().is_subclass(value):
        return None
    from unbroken._state.torch import subclasses

    return subclasses if subclasses.is_composed(value) else None


def check_in_place(value, name: str) -> None:
    """Errors: Misconfigured, by path, where the elements could not be written one by one where they are."""
    why = _why_no_write(value) if is_array(value) else _torch().why_no_write(value)
    if why is not None:
        raise refuse(name, why + _NOT_IN_PLACE)


def as_plain(value):
    """The same memory as the type that `make` gives."""
    return value.view(sys.modules["numpy"].ndarray) if is_array(value) else _torch().as_plain(value)


def destination(value):
    """(pointer, copy): where the contiguous bytes go, and what to call afterwards (None where they are in place)."""
    return _array_destination(value) if is_array(value) else _torch().destination(value)


def destinations(several) -> list[tuple]:
    """`destination` of each."""
    pointers, _, _ = straight(several) or ([0] * len(several), (), ())
    return [(at, None) if at else destination(one) for at, one in zip(pointers, several, strict=True)]


def are_in(value) -> bool:
    """True for a tensor or array, or several."""
    return any(map(are_in, value)) if isinstance(value, (list, tuple)) else is_tensor(value)


def numbers(value):
    """A value, or several, with the numbers of tensors in their place: what can be compared and shown."""
    if isinstance(value, (list, tuple)):
        return tuple(map(numbers, value))
    return value.tolist() if is_tensor(value) else value


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


def assign(live, value) -> None:
    """Sets the elements of `live` to those of `value`, converted."""
    if is_array(live):
        live[...] = value
    else:
        _torch().assign(live, value)


def to_bytes(value) -> bytes:
    """The logical bytes, little-endian."""
    if is_array(value):
        return _little(value).tobytes()
    return _torch().to_bytes(value)


def _little(array):
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        return array.astype(array.dtype.newbyteorder("<"))
    return array


def _why_no_write(array) -> str | None:
    if not array.flags.writeable:
        return "the array is read-only"
    is_dense = array.flags.c_contiguous or array.flags.f_contiguous
    if not is_dense and do_elements_meet(array.shape, array.strides, array.dtype.itemsize):
        return "elements of the array share memory"
    return None


def _why_not_plain(array) -> str | None:
    if type(array) is not sys.modules["numpy"].ndarray:
        return f"{type(array).__module__}.{type(array).__qualname__} would come back as numpy.ndarray: keep a plain copy"
    if not array.dtype.isnative:
        return (
            f"an array of dtype {array.dtype.str} would come back in this machine's byte order: "
            'keep x.astype(x.dtype.newbyteorder("="))'
        )
    return None


def _array_view(array, name, reads):
    del reads  # an array is always at hand
    numpy = sys.modules["numpy"]
    if type(array) not in (numpy.ndarray, numpy.memmap):
        raise refuse(name, f"{type(array).__module__}.{type(array).__qualname__} is a subclass of ndarray")
    dtype = NUMPY_TO_NAME.get(array.dtype.name)
    if dtype is None or array.dtype.fields is not None:
        raise refuse(name, f"an array of dtype {array.dtype} cannot be kept")
    size = array.dtype.itemsize
    memory = (array.ctypes.data, array.dtype.str, array.shape, tuple(array.strides)) if array.size else None
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


class _Arrays:
    """What torch.tensors is for tensors."""

    view, why_no_write, why_not_plain = map(staticmethod, (_array_view, _why_no_write, _why_not_plain))
