"""A look at an object that holds tensors: all that its capture depends on but for the bytes, in flat lists that are made and
compared without a line of Python for each tensor.

Two looks that are equal stand for captures that are equal: the same containers with the same keys in the same order; at
the same places the same plain values and tensors; and of each tensor the same type, memory (address, shape, strides) and
dtype, read from the tensor that stands there now. So a tensor that was replaced, given other memory
(`.data`, `set_`, `resize_`, a swap), another shape, dtype or device, or freed, is seen. Nothing of an earlier look is
kept alive by it but keys and plain values, and nothing is read through an address of an earlier look that was not found
again. What a look does not know (objects with a state of their own, subclasses, keys that are neither texts nor integers) has none.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from itertools import chain, compress

from unbroken._state import tensors
from unbroken._state.tree import DEPTH_MAX

_PLAIN = {type(None), bool, int, float, complex, str, bytes}
_KEYS = {str, int}
_EQUAL = {int, str, bytes}  # of one type and equal, they are the same
_ARRAY = operator.attrgetter("__array_interface__")


class Unknown(Exception):
    """The object holds what a look does not know."""


class Look:
    """`marks` are compared as values, `plain` and `tensors` as objects (the latter by id), in the order of the capture."""

    __slots__ = ("marks", "plain", "tensors", "ids", "_tensor_types", "_kinds", "_facts")

    def __init__(self):
        self.marks: list = []
        self.plain: list = []
        self.tensors: list = []
        self.ids: list[int] = []
        self._tensor_types = tensors.plain_types()
        self._kinds: set = set()
        self._facts = None

    def value(self, value, depth: int = 0) -> None:
        """Any value. Errors: Unknown."""
        kind = type(value)
        if kind is dict or kind is OrderedDict:
            self.pairs(value, depth)
        elif kind is list or kind is tuple:
            self.marks += (kind, len(value))
            self.items(value, depth)
        elif kind in self._tensor_types:
            self.items((value,))
        else:
            raise Unknown

    def pairs(self, value: dict, depth: int = 0) -> None:
        """A dict with texts and integers as keys. Errors: Unknown."""
        if not set(map(type, value)) <= _KEYS:
            raise Unknown
        self.marks += (type(value), len(value))
        self.marks += value
        self.items(value.values(), depth)

    def dicts(self, values, depth: int = 0) -> None:
        """Dicts that stand beside each other, with such keys. Errors: Unknown."""
        keys = list(chain.from_iterable(values))
        if not set(map(type, values)) <= {dict} or not set(map(type, keys)) <= _KEYS:
            raise Unknown
        self.marks += (dict, len(values), *map(len, values))
        self.marks += keys
        self.items(list(chain.from_iterable(map(dict.values, values))), depth)

    def items(self, values, depth: int = 0) -> None:
        """Values that stand beside each other. Errors: Unknown."""
        kinds = list(map(type, values))
        found = set(kinds)
        self._kinds |= found
        self.marks += kinds
        if found <= self._tensor_types:
            self.tensors += values
        elif found <= _PLAIN:
            self.plain += values
        else:
            if depth > DEPTH_MAX:
                raise Unknown
            for kind, value in zip(kinds, values, strict=True):
                if kind in _PLAIN:
                    self.plain.append(value)
                elif kind in self._tensor_types:
                    self.tensors.append(value)
                else:
                    self.value(value, depth + 1)

    def end(self) -> None:
        """All was looked at. Errors: whatever a tensor raises that has no memory of the plain sort; Unknown."""
        self.ids = list(map(id, self.tensors))
        arrays, others = [], self.tensors
        if not self._kinds.isdisjoint(tensors.array_types()):
            is_array = list(map(tensors.is_array, self.tensors))
            arrays, others = list(compress(others, is_array)), list(compress(others, map(operator.not_, is_array)))
        self._facts = tensors.facts(others) if others else None, list(map(_ARRAY, arrays))

    def is_like(self, other: Look, by_id: bool) -> bool:
        """The same but for plain values. Without `by_id` other tensors of the same memory are the same."""
        return self.marks == other.marks and (not by_id or self.ids == other.ids) and self._facts == other._facts

    def has_plain_of(self, other: Look) -> bool:
        """The very same plain values, in a look that is like it."""
        if all(map(operator.is_, self.plain, other.plain)):
            return True
        pairs = zip(self.plain, other.plain, strict=True)
        return all(one is two or (type(one) in _EQUAL and one == two) for one, two in pairs)

    def forget(self) -> None:
        """Lets go of the tensors."""
        self.tensors = []
