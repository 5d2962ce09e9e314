"""Which adapter knows an object. An *adapter* knows one sort of object:

    capture(capture, name) -> node
    plan(node, name, plan)           compares, calls plan.fill / make / then
    is_placed                        a restore calls none of its code, and puts into place what was read and decoded
    is_exact, is_exact_tree          after a restore the tensors (the tree) must be the saved ones again

and where a capture of it can be remembered (taking/memory.py):
    look(look)                       shows all that `take` depends on
    take(capture, name)              (node, what else `capture` needs), which `capture.part` gives to `capture`
    owns                             its tensors may be parameters of an optimizer
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque

from unbroken._state import tensors
from unbroken._state.generators import GeneratorAdapter, handlers_of
from unbroken._state.names import join, segment, segment_of_node
from unbroken._state.stateful import StatefulAdapter
from unbroken._state.tree import encode

_PLAIN = {type(None), bool, int, float, complex, str, bytes}
DICTS = (dict, OrderedDict, Counter, defaultdict)
_CONTAINERS = (*DICTS, list, tuple, deque)


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


def leaves(value, name: str, _around=()):
    """(name, leaf) of the tensors and the objects with a state of their own in a value, depth first."""
    if type(value) in _PLAIN:
        return
    if isinstance(value, _CONTAINERS):
        if id(value) in _around:
            return
        for key, item in value.items() if isinstance(value, DICTS) else enumerate(value):
            if type(key) in _PLAIN and type(item) in _PLAIN:
                continue
            path = join(name, segment(key) if type(key) is str and key.isascii() else segment_of_node(encode(key, name)))
            if tensors.is_tensor(item):  # most are
                yield path, item
            else:
                yield from leaves(item, path, (*_around, id(value)))
    elif tensors.is_tensor(value) or adapter_of(value) is not None:
        yield name, value


def rich_leaves(value, _around=()):
    """The objects with a state of their own in a value, depth first."""
    if isinstance(value, _CONTAINERS):
        items = list(value.values()) if isinstance(value, DICTS) else value
        if id(value) in _around or set(map(type, items)) <= _PLAIN | tensors.plain_types():
            return
        for item in items:
            yield from rich_leaves(item, (*_around, id(value)))
    elif type(value) not in _PLAIN and not tensors.is_tensor(value) and adapter_of(value) is not None:
        yield value


def rich_paths(value, name: str):
    """(name, object) of the objects with a state of their own in a value."""
    if next(rich_leaves(value), None) is not None:
        yield from ((path, leaf) for path, leaf in leaves(value, name) if not tensors.is_tensor(leaf))


def placed(value, name: str):
    """(name, tensor) of everything in an attached object that is restored in the memory where it is."""
    for path, leaf in leaves(value, name):
        if tensors.is_tensor(leaf):
            yield path, leaf
        else:
            yield from ((join(path, own), tensor) for own, tensor in getattr(adapter_of(leaf), "tensors", tuple)())
