"""Which adapter knows an object. An *adapter* knows one sort of object:

    capture(capture, name) -> node
    plan(node, name, plan)           compares, calls plan.fill / make / then
    is_exact, is_exact_tree          after a restore the tensors (the tree) must be the saved ones again
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque

from unbroken._state import tensors
from unbroken._state.generators import GeneratorAdapter, handlers_of
from unbroken._state.names import join, segment_of_node
from unbroken._state.stateful import StatefulAdapter
from unbroken._state.tree import encode

_PLAIN = {type(None), bool, int, float, complex, str, bytes}
DICTS = (dict, OrderedDict, Counter, defaultdict)


def adapter_of(value):
    """The adapter for an object with a state of its own; None for tensors, plain values and containers."""
    if handlers_of(value) is not None:
        return GeneratorAdapter(value)
    if "torch" in sys.modules:
        from unbroken._state.torch import adapters as torch_adapters

        adapter = torch_adapters.adapter_of(value)
        if adapter is not None:
            return adapter
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
        return StatefulAdapter(value)
    return None


def is_rich(value) -> bool:
    """True for a tensor, an object with a state of its own, or a container with one of these in it."""
    return any(True for _ in rich_leaves(value))


def rich_leaves(value, _around=()):
    """The tensors and the objects with a state of their own in a value, depth first."""
    if type(value) in _PLAIN:
        return
    if isinstance(value, (*DICTS, list, tuple, deque)):
        if id(value) in _around:
            return
        for item in value.values() if isinstance(value, DICTS) else value:
            yield from rich_leaves(item, (*_around, id(value)))
    elif tensors.is_tensor(value) or adapter_of(value) is not None:
        yield value


def placed(value, name: str, _around=()):
    """(name, tensor) of everything in an attached object that is restored in the memory where it is."""
    if type(value) in _PLAIN:
        return
    if tensors.is_tensor(value):
        yield name, value
    elif isinstance(value, (*DICTS, list, tuple, deque)):
        if id(value) in _around:
            return
        pairs = value.items() if isinstance(value, DICTS) else enumerate(value)
        for key, item in pairs:
            yield from placed(item, join(name, segment_of_node(encode(key, name))), (*_around, id(value)))
    else:
        for own, tensor in getattr(adapter_of(value), "tensors", tuple)():
            yield join(name, own), tensor
