"""Tensors that are made of other tensors: subclasses with `__tensor_flatten__`, restored in the memory of their parts.

Such a tensor is a dict in the state tree: "type" (a text, compared), "context" (what `__tensor_flatten__` gives beside
the names, compared), and each inner tensor under its attribute. Imported only where torch is.
"""

from __future__ import annotations

import torch

from unbroken._state.names import join, segment
from unbroken._state.tree import encode, kind_of, pairs_of, refuse, text
from unbroken.errors import Misconfigured

_OURS = ("type", "context")


def is_composed(tensor) -> bool:
    """True for a tensor that says of which ones it is made; a nested one is refused as such."""
    if tensor.is_nested or type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return False
    return callable(getattr(type(tensor), "__tensor_flatten__", None))


def parts(tensor, name: str):
    """(type, context node, [(attribute, inner tensor)]). Errors: Misconfigured, by path."""
    kind = type(tensor)
    names, context = tensor.__tensor_flatten__()
    try:
        node = encode(context, join(name, "context"))
    except Misconfigured as error:
        raise refuse(
            name, f"what {kind.__module__}.{kind.__qualname__}.__tensor_flatten__ gives beside tensors cannot be kept: {error}"
        ) from None
    if set(names) & set(_OURS):
        raise refuse(name, f"{kind.__module__}.{kind.__qualname__} has an inner tensor named {' or '.join(_OURS)}")
    return f"{kind.__module__}.{kind.__qualname__}", node, [(one, getattr(tensor, one)) for one in names]


def inner(tensor, name: str = ""):
    """(name, tensor) of each plain tensor in it."""
    for one, value in parts(tensor, name)[2]:
        path = join(name, segment(one))
        if is_composed(value):
            yield from inner(value, path)
        else:
            yield path, value


def capture(capture_, tensor, name: str):
    """The node; its inner tensors are taken."""
    kind, context, below = parts(tensor, name)
    pairs = [["type", kind], ["context", context]]
    marker = [pairs]
    capture_.encoder.enter(marker, name)
    pairs += [[one, capture_.tensor(value, join(name, segment(one)))] for one, value in below]
    capture_.encoder.leave(marker)
    return {"dict": pairs}


def plan(plan_, node, tensor, name: str) -> None:
    """The inner tensors of `node` go into those of the live tensor."""
    kind, context, below = parts(tensor, name)
    saved = {key: item for key, item in pairs_of(node) or () if isinstance(key, str)}
    if kind_of(node) != "dict" or saved.get("type") != kind:
        there = saved.get("type") if isinstance(saved.get("type"), str) else plan_.saved.describe(node)
        plan_.changed.append((name, there, kind))
        return
    if saved.get("context") != context:
        plan_.changed.append((join(name, "context"), text(saved.get("context")), text(context)))
    for one, value in below:
        path = join(name, segment(one))
        if one in saved:
            plan_.fill(saved[one], value, path)
        else:
            plan_.missing.append(path)
    for one in saved.keys() - {*_OURS, *(one for one, _ in below)}:
        plan_.unread_below(saved[one], join(name, segment(one)))
