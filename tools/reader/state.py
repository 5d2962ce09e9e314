"""Names and the state tree: docs/format/state.md."""

from __future__ import annotations

import math
import re
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass

import numpy as np

from .dtypes import LOGICAL, NUMPY, bits_of
from .text import Damage, canonical, hexes, number


def check_name(name) -> str:
    if not isinstance(name, str) or not 1 <= len(name.encode("utf-8", "surrogatepass")) <= 1024:
        raise Damage("not a name")
    if name == "__metadata__" or re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", name):
        raise Damage("not a name")
    return name


_PAIRED = {
    "OrderedDict": OrderedDict,
    "Counter": lambda items: Counter(dict(items)),
    "defaultdict_none": lambda items: defaultdict(None, items),
}
_ITEMED = {"Size": tuple, "set": set, "frozenset": frozenset, "deque": list}


@dataclass(frozen=True)
class DType:
    """A torch dtype as a value."""

    name: str


def _hex_bytes(text) -> bytes:
    if not isinstance(text, str) or not re.fullmatch(r"(?:[0-9a-f]{2})*", text):
        raise Damage("tree: not hex digits")
    return bytes.fromhex(text)


def _float(text) -> float:
    return struct.unpack(">d", bytes.fromhex(hexes(text, 16)))[0]


def _big_int(text) -> int:
    if not isinstance(text, str) or not re.fullmatch(r"-?[1-9][0-9]*", text):
        raise Damage("tree: not an integer")
    value = 0
    for at in range(0, len(text.lstrip("-")), 1000):  # Python bounds the digits that int() takes
        part = text.lstrip("-")[at : at + 1000]
        value = value * 10 ** len(part) + int(part)
    value = -value if text[0] == "-" else value
    if -(2**63) <= value < 2**64:
        raise Damage("tree: a small integer in the long spelling")
    return value


def _str16(text) -> str:
    units = _hex_bytes(text)
    if len(units) % 2:
        raise Damage("tree: half a code unit")
    try:
        units.decode("utf-16-le")
    except UnicodeDecodeError:
        return units.decode("utf-16-le", "surrogatepass")
    raise Damage("tree: a text that UTF-8 can hold")


def _numpy(value):
    if not isinstance(value, dict) or set(value) != {"bits", "dtype"} or value["dtype"] not in LOGICAL:
        raise Damage("tree: not a NumPy scalar")
    data = _hex_bytes(value["bits"])
    if len(data) * 8 != bits_of(value["dtype"]) or (value["dtype"] == "BOOL" and data[0] > 1):
        raise Damage("tree: not a NumPy scalar")
    if value["dtype"] in NUMPY:
        return np.frombuffer(data, NUMPY[value["dtype"]])[0]
    return ("numpy", value["dtype"], data)


class _Tree:
    """Node to Python value. `tensor(name)` gives what stands for a tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def value(self, node, depth: int = 0):
        if node is None or isinstance(node, (bool, str)):
            return node
        if isinstance(node, int):
            if not -(2**63) <= node < 2**64:
                raise Damage("tree: an integer beyond 64 bits")
            return node
        if isinstance(node, list):
            return self.items(node, depth + 1)
        if not isinstance(node, dict):
            raise Damage("tree: a number with a fraction")
        return self.kind(node, depth + 1) if "kind" in node else self.tagged(node, depth + 1)

    def tagged(self, node: dict, depth: int):
        if len(node) != 1:
            raise Damage("tree: not a value")
        ((tag, value),) = node.items()
        if tag in ("tensor", "array"):
            return self.tensor(check_name(value))
        if tag == "tuple":
            return tuple(self.items(value, depth))
        if tag == "dict":
            return dict(self.pairs(value, depth))
        if tag == "complex":
            if not isinstance(value, list) or len(value) != 2:
                raise Damage("tree: not a complex number")
            return complex(*map(_float, value))
        if tag == "dtype":
            if not isinstance(value, str) or value not in LOGICAL:
                raise Damage("tree: not a dtype")
            return DType(value)
        plain = {"float": _float, "int": _big_int, "str16": _str16, "bytes": _hex_bytes, "numpy": _numpy}
        if tag not in plain:
            raise Damage(f"tree: unknown kind {tag[:32]!r}")
        return plain[tag](value)

    def kind(self, node: dict, depth: int):
        kind, has_bound = node["kind"], "maxlen" in node
        expected = {"items", "kind"} | ({"maxlen"} if has_bound and kind == "deque" else set())
        if set(node) != expected or not isinstance(kind, str):
            raise Damage("tree: not a value")
        if kind in _PAIRED:
            return _PAIRED[kind](self.pairs(node["items"], depth))
        if kind not in _ITEMED:
            raise Damage(f"tree: unknown kind {kind[:32]!r}")
        items = self.items(node["items"], depth)
        if kind == "deque":
            bound = number(node, "maxlen") if has_bound else None
            if bound is not None and bound < len(items):
                raise Damage("tree: a deque holds more than its maxlen")
            return deque(items, bound if bound is None or bound < sys.maxsize else sys.maxsize)
        if kind == "Size" and not all(type(item) is int and item < 2**63 for item in items):
            raise Damage("tree: a Size holds integers")
        if kind in ("set", "frozenset"):
            self.check_set(node["items"], items)
        return _ITEMED[kind](items)

    @staticmethod
    def check_set(nodes, items):
        texts = [canonical(node).encode() for node in nodes]
        if texts != sorted(set(texts)):
            raise Damage("tree: a set is not sorted")
        if not all(map(_is_hashable, nodes)) or len(set(items)) != len(items):
            raise Damage("tree: an item that cannot be in a set, or stands twice")

    def items(self, nodes, depth: int) -> list:
        if not isinstance(nodes, list) or depth > 64:
            raise Damage("tree: not a list, or nested too deeply")
        return [self.value(node, depth) for node in nodes]

    def pairs(self, nodes, depth: int) -> list:
        if not isinstance(nodes, list) or depth > 64:
            raise Damage("tree: not a list, or nested too deeply")
        out = []
        for node in nodes:
            if not isinstance(node, list) or len(node) != 2 or not _is_hashable(node[0]):
                raise Damage("tree: not a pair, or no key")
            out.append((self.value(node[0], depth), self.value(node[1], depth)))
        texts = {canonical(node[0]) for node in nodes}
        if len(texts) != len(nodes) or len({key for key, _ in out}) != len(out):
            raise Damage("tree: a key stands twice")
        return out


def _is_hashable(node) -> bool:
    if isinstance(node, list):
        return False
    if not isinstance(node, dict):
        return True
    if "tuple" in node or node.get("kind") in ("Size", "frozenset"):
        items = node["tuple"] if "tuple" in node else node.get("items")
        return isinstance(items, list) and all(map(_is_hashable, items))
    return not node.keys() & {"tensor", "array", "dict", "kind"}


def check_tree(node, names=None):
    """Damage unless every value is one; `names` are the tensors that may be named (None: any)."""

    def tensor(name):
        if names is not None and name not in names:
            raise Damage(f"tree: {name} is not in the index")
        return math.nan

    _Tree(tensor).value(node)


def read_tree(node, tensor):
    """The Python value of a checked node; `tensor(name)` gives what stands for a tensor."""
    return _Tree(tensor).value(node)
