"""The memory of torch tensors (tensors.py). Imported only where torch is."""

from __future__ import annotations

import operator

import torch

from unbroken._state.dtypes import NAME_TO_TORCH, TORCH_TO_NAME
from unbroken.errors import Misconfigured
from unbroken._state.view import HOST, View, do_elements_meet
from unbroken._state.tree import refuse

#: the types of tensors that `view` takes
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, *([torch.nn.Buffer] if hasattr(torch.nn, "Buffer") else ())})
#: dtypes of which few operations exist, moved as integers of the same size
_RAW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


_HEAP_MIN = 1 << 46  # no address of plain memory is lower
_NAMES = {getattr(torch, name): ours for name, ours in TORCH_TO_NAME.items() if hasattr(torch, name)}


def dtype_name(tensor, name: str) -> str:
    """Our name of its dtype. Errors: Misconfigured for quantised ones."""
    found = _NAMES.get(tensor.dtype)
    if found is None:
        raise refuse(name, f"a tensor of {tensor.dtype} is quantised and cannot be kept")
    return found


def _check(tensor, name):
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise refuse(name, "the parameter is not initialised yet: run one batch before it is attached")
    if tensor.is_nested:
        raise refuse(name, "nested tensors are not supported: keep the list that unbind() gives, or a padded tensor")
    if type(tensor) not in PLAIN:
        kind = type(tensor)
        raise refuse(name, f"{kind.__module__}.{kind.__qualname__} is a subclass of Tensor without __tensor_flatten__")
    if tensor.is_quantized:
        raise refuse(name, f"a tensor of {tensor.dtype} is quantised and cannot be kept")
    if tensor.layout is not torch.strided:
        raise refuse(name, f"a tensor of layout {tensor.layout} cannot be kept")
    if tensor.device.type == "meta":
        raise refuse(name, "a tensor on the meta device has no bytes")


#: all that the view of a tensor depends on (memory that was freed has another address), called for many without a line of
#: Python for each
_FACTS = (
    torch.Tensor.data_ptr,
    torch.Tensor.stride,
    *map(operator.attrgetter, ("shape", "dtype", "is_cpu")),
    torch.Tensor.is_conj,
    torch.Tensor.is_neg,
    *([torch.Tensor.has_names] if hasattr(torch.Tensor, "has_names") else ()),
)


def facts(several):
    """tensors.facts."""
    return [list(map(fact, several)) for fact in _FACTS]


_SHAPE, _DTYPE, _IS_CPU = map(operator.attrgetter, ("shape", "dtype", "is_cpu"))
_PLACE = torch.Tensor.data_ptr, torch.Tensor.is_contiguous, torch.Tensor.is_conj, torch.Tensor.is_neg


def straight(several):
    """tensors.straight."""
    if not all(map(_IS_CPU, several)):
        return None
    places = zip(*(map(fact, several) for fact in _PLACE), strict=True)
    pointers = [at if at >= _HEAP_MIN and is_whole and not (conj or neg) else 0 for at, is_whole, conj, neg in places]
    return pointers, list(map(_NAMES.get, map(_DTYPE, several))), list(map(_SHAPE, several))


def are_whole(several) -> bool:
    """tensors.are_whole."""
    return all(map(torch.Tensor.is_contiguous, several)) and not any(map(torch.Tensor._is_zerotensor, several))


def is_subclass(value) -> bool:
    """True for a tensor that is neither a Tensor, a Parameter nor a Buffer."""
    return type(value) not in PLAIN


def _is_lazy(tensor) -> bool:
    """Its bytes in memory are not its logical bytes."""
    return tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor()


def _host(tensor):
    tensor = tensor.detach()
    if tensor.device.type == "cuda":
        torch.cuda.synchronize(tensor.device)  # whichever stream writes it
    if _is_lazy(tensor):
        tensor = tensor.resolve_conj().resolve_neg().clone()
    return tensor if tensor.device.type == "cpu" else _raw(tensor).to("cpu")


def why_no_write(tensor) -> str | None:
    """tensors.check_in_place. Of what `view` refuses, it says nothing."""
    if type(tensor) not in PLAIN or tensor.layout is not torch.strided or tensor.is_nested:
        return None
    if tensor._is_zerotensor():
        return "the tensor is a constant zero"
    if tensor.is_contiguous():
        return None
    if do_elements_meet(tensor.shape, tensor.stride(), 1):
        return "elements of the tensor share memory, as after expand()"
    return None


def why_not_plain(tensor) -> str | None:
    """tensors.view, `anew`."""
    if type(tensor) is torch.nn.Parameter:
        return "a Parameter would come back as a Tensor: attach the module that owns it, or keep x.detach().clone()"
    has_names = getattr(tensor, "has_names", None)  # not in every version of torch
    return "the names of its axes cannot be kept: use x.rename(None)" if has_names and has_names() else None


def as_plain(tensor):
    """tensors.as_plain."""
    return tensor if type(tensor) is torch.Tensor else tensor.detach()


def _check_memory(tensor, pointer, name):
    # A freed one points to its offset from null, far below the heap: no need to ask the others.
    if pointer < _HEAP_MIN and not tensor._is_zerotensor() and tensor.untyped_storage().nbytes() == 0:
        raise refuse(name, "the memory of the tensor was freed")


def view(tensor, name: str, reads: bool | str = True) -> View:
    """tensors.view; a tensor on an accelerator is copied to the host where it is to be read."""
    _check(tensor, name)
    dtype, size = dtype_name(tensor, name), tensor.element_size()
    shape, strides, count = tuple(tensor.shape), tensor.stride(), tensor.numel()
    if count == 0:
        return View("tensor", dtype, shape, strides, 0, 0, tensor, None)
    owner, memory, pointer = tensor, None, tensor.data_ptr()
    _check_memory(tensor, pointer, name)
    if not _is_lazy(tensor):
        memory = (pointer, dtype, shape, tuple([s * size for s in strides]))
    if tensor.device.type != "cpu":
        memory = memory and (str(tensor.device), *memory)
    if reads and (memory is None or tensor.device.type != "cpu"):
        if reads == HOST and _is_brought(tensor):
            pointer = 0
        else:
            owner = _host(tensor)
            strides, pointer = owner.stride(), owner.data_ptr()
    return View("tensor", dtype, shape, strides, pointer, count * size, owner, memory)


def _is_brought(tensor) -> bool:
    from unbroken._state.torch import device

    return device.RUNTIME.has(tensor)


def _raw(tensor):
    raw = _RAW.get(tensor.element_size())
    return tensor if raw is None or _is_lazy(tensor) else tensor.view(raw)


def destination(tensor):
    """tensors.destination; a strided, lazy or device tensor is staged in a contiguous one on the host."""
    tensor = tensor.detach()
    if tensor.numel() == 0:
        return 0, None
    if tensor.device.type == "cpu" and tensor.is_contiguous() and not _is_lazy(tensor):
        return tensor.data_ptr(), None
    staging = torch.empty(tensor.shape, dtype=tensor.dtype)

    def copy():
        with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
            if _is_lazy(tensor):
                tensor.copy_(staging)
            else:
                _raw(tensor).copy_(_raw(staging))

    return staging.data_ptr(), copy


def make(dtype: str, shape, like=None):
    """A new tensor: on the device `like`, or with the device and, where the shape agrees, the layout of a tensor."""
    if dtype not in NAME_TO_TORCH or not hasattr(torch, NAME_TO_TORCH[dtype]):
        raise Misconfigured(f"this version of torch has no dtype for {dtype}")
    kind = getattr(torch, NAME_TO_TORCH[dtype])
    if isinstance(like, torch.Tensor):
        if tuple(like.shape) == tuple(shape):
            return torch.empty_like(like.detach(), dtype=kind, requires_grad=False)
        like = like.device
    return torch.empty(tuple(shape), dtype=kind, device=like)


def assign(live, value) -> None:
    """tensors.assign."""
    with torch.inference_mode() if live.is_inference() else torch.no_grad():
        live.copy_(value)


def to_bytes(tensor) -> bytes:
    """tensors.to_bytes."""
    host = _raw(_host(tensor)).contiguous().reshape(-1)
    return host.view(torch.uint8).numpy().tobytes() if host.numel() else b""
