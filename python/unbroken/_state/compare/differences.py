"""What came back otherwise than it was saved."""

from __future__ import annotations

from unbroken._state.taking.capture import Capture
from unbroken._state.names import segment_of_node
from unbroken._state.saved import Saved
from unbroken._state.tree import flatten, tensor_name, text


def differences(saved: Saved, capture: Capture, digests, adapters, ignores) -> list[tuple[str, str, str]]:
    """(name, saved, live) of what came back otherwise than it was saved; `digests`: name -> that of a captured tensor.

    `ignores(name)`: that one need not be the saved one.
    """
    changed = []
    for name, node in capture.tree:
        adapter = adapters.get(name)
        if adapter is None or name not in saved.roots:
            continue
        if adapter.is_exact:
            changed += _tensor_differences(saved, node, digests, capture)
        if adapter.is_exact_tree and node != saved.roots[name]:
            changed += _tree_differences(saved, saved.roots[name], node, segment_of_node(name))
    return [entry for entry in changed if not ignores(entry[0])]


def _tensor_differences(saved, node, live, capture):
    aliases = dict(capture.aliases)
    for _, leaf in flatten(node):
        name = tensor_name(leaf)
        if name is None or name in capture.inexact:
            continue
        canon = aliases.get(name, name)
        stored = saved.canon(name)
        if stored not in saved.specs:
            yield name, "nothing", "a tensor"
        elif live[canon] != saved.specs[stored][3]:
            yield name, f"digest {saved.specs[stored][3]}", f"digest {live[canon]} after loading"


def _tree_differences(saved, before, after, name):
    left = dict(flatten(before, name))
    right = dict(flatten(after, name))
    for key in left.keys() | right.keys():
        if left.get(key, NotImplemented) != right.get(key, NotImplemented):
            yield key, _text(left, key), _text(right, key) + " after loading"


def _text(side, key):
    return text(side[key]) if key in side else "nothing"
