"""A capture as the core takes it. What it remembers of an earlier one the core keeps, so that only the rest crosses over."""

from __future__ import annotations

from unbroken._state.names import canonical

_DEPTH = 2  # a part is a root, or an item of one


def crossing(capture) -> tuple:
    """(known, places, tensors, aliases, tree, parameters), as Session.save takes them."""
    if capture.prefix is None:
        return None, [], capture.tensors, capture.aliases, canonical({"dict": capture.tree}), capture.parameters
    prefix, places = capture.prefix, []
    known, nodes = prefix.known()
    tree = _without({"dict": capture.tree}, {id(node): i for i, node in enumerate(nodes)}, (), places)
    rest = (own[len(before) :] for own, before in zip(_lists(capture), _lists(prefix), strict=True))
    tensors, aliases, parameters = rest
    return known, places, tensors, aliases, canonical(tree), parameters


def _lists(one):
    return one.tensors, one.aliases, one.parameters


def _without(node, nodes, at, places):
    """The node with None where one of `nodes` stands: of each (its number, the indices of the items that lead to it)."""
    if id(node) in nodes:
        places.append((nodes[id(node)], list(at)))
        return None
    if len(at) == _DEPTH or type(node) is not dict or "dict" not in node:
        return node
    return {"dict": [[key, _without(item, nodes, (*at, i), places)] for i, (key, item) in enumerate(node["dict"])]}
