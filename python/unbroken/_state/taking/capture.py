"""Objects to tensors and a tree.

Every attached object is walked; its tensors get names, its other state becomes nodes of the tree (tree.py). Two names
of the same memory (storage, offset, shape, strides) are kept once, with an alias.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import Protocol
from weakref import proxy

from unbroken._state import tensors
from unbroken._state.adapters import adapter_of
from unbroken._state.names import CONTROL, NAME_BYTES_MAX, canonical, segment_of_node
from unbroken._state.tree import NOT_A_LEAF, Encoder, flatten, refuse, tensor_name


class Waiting(Protocol):
    """What may be copied later: the tensors of optimizers."""

    earned: frozenset[int]  # ids of the optimizers

    def covers(self, value, nbytes: int) -> bool: ...


class Capture:
    """The state at one moment. `tensors`: tuples for the core; `aliases`: (name, of); `tree`: pairs of the root.

    `keep` holds what the pointers in `tensors` point into; `arriving` are indices of what is on an accelerator, with
    `reads` as HOST. `parameters` and `later` are indices of `tensors`: what is looked at for values that are not finite, and
    those of `may_wait`, whose bytes stay as they are for a while. `parts`: what was taken before the roots, by path
    (taking/memory.py). Errors: Misconfigured, naming the path.
    """

    def __init__(self, owners=None, may_wait: Waiting | None = None, reads=True):
        self.owners = owners  # names of parameters, for optimizers
        self.parts: dict[str, tuple] = {}
        self.objects: dict[str, object] = {}  # attached ones, but for those that are known to hold tensors and plain values alone
        self.tensors: list[tuple] = []
        self.aliases: list[tuple[str, str]] = []
        self.inexact: set[str] = set()  # names whose owner does not promise to give them back unchanged
        self.is_exact = True
        self._in_place, self._anew = True, False
        self.like = None  # the parameter whose state is taken; what is composed like it can be made anew
        self.keep: list = []
        self.parameters: list[int] = []
        self.later: list[int] = []
        self.arriving: list[int] = []
        self._reads = reads
        self.may_wait = may_wait
        self.tree: list = []
        self.names: set[str] = set()
        self.by_memory: dict[tuple, str] = {}
        self.prefix = None  # what was adopted
        self.seen: list[int] = []  # ids of all that was taken, in order, and of those in `tensors` the place there
        self.places: list[int] = []
        self.is_steady = True  # all memory that was taken is that of the tensors themselves
        self.optimizers: set[int] = set()  # ids of those whose parameters and state are among the parts
        self.encoder = Encoder(partial(Capture._leaf, proxy(self)))  # no cycle: `keep` goes with the last reference

    def adopt(self, prefix, found) -> None:
        """Takes what the parts gave to an earlier capture. `found`: the tensors that are in them now."""
        self.prefix, self.parts = prefix, dict(prefix.parts)
        self.tensors, self.aliases, self.parameters = list(prefix.tensors), list(prefix.aliases), list(prefix.parameters)
        self.keep = found if len(prefix.places) == len(found) else [found[i] for i in prefix.places]
        if self.may_wait is not None:
            self.later = prefix.later_of(self.may_wait, self.keep)

    def part_of(self, path: str, adapter) -> None:
        """Takes the part of an adapter, before the roots."""
        self.encoder._depth = 1
        self.is_exact = adapter.is_exact
        self.parts[path] = adapter.take(self, path)

    def part(self, path: str, adapter):
        """The part of an adapter."""
        return self.parts[path] if path in self.parts else adapter.take(self, path)

    @contextmanager
    def as_(self, in_place: bool, anew: bool, is_exact: bool = True):
        """What is taken meanwhile goes back into the memory it is in, or is made anew, or either."""
        before = self._in_place, self._anew, self.is_exact
        self._in_place, self._anew, self.is_exact = in_place, anew, is_exact and self.is_exact
        yield
        self._in_place, self._anew, self.is_exact = before

    def root(self, name: str, adapter) -> None:
        """Takes the object of `adapter` under the attach name `name`."""
        self.encoder._depth = 1
        self.is_exact = adapter.is_exact
        self.tree.append([name, adapter.capture(self, segment_of_node(name))])

    def value(self, value, name: str):
        """The node of any value; its tensors are taken."""
        return self.encoder.encode(value, name)

    def pairs(self, pairs, name: str):
        """A dict node of (key, value) pairs of plain keys."""
        marker = []
        self.encoder.enter(marker, name)
        node = {"dict": [self.encoder.pair(key, value, name) for key, value in pairs]}
        self.encoder.leave(marker)
        return node

    def tensor(self, value, name: str):
        """The node of a tensor or an array, which is taken."""
        composed = tensors.composed(value)
        if composed is not None:
            self.is_steady = False
            if self._anew and type(value) is not type(self.like):
                kind = f"{type(value).__module__}.{type(value).__qualname__}"
                raise refuse(name, f"{kind} can be restored in place only: attach what owns it", "run.attach(NAME=...)")
            return composed.capture(self, value, name)
        if name in self.names or (self.prefix is not None and name in self.prefix.names):
            raise refuse(name, "two parts of the state have this name")
        if len(name) * 4 > NAME_BYTES_MAX and len(name.encode()) > NAME_BYTES_MAX:
            raise refuse(name, f"the name is longer than {NAME_BYTES_MAX} bytes")
        if not name.isprintable() and CONTROL.search(name):
            raise refuse(ascii(name), "the name holds a control character: rename the parameter or buffer")
        view = tensors.view(value, name, self._reads, self._in_place, self._anew)
        self.names.add(name)
        self.seen.append(id(value))
        is_own = view.owner is value and (not view.nbytes or (view.memory is not None and view.memory[0] == view.pointer))
        self.is_steady = self.is_steady and is_own
        if not self.is_exact:
            self.inexact.add(name)
        known = None if self.prefix is None else self.prefix.by_memory.get(view.memory)
        first = known or (self.by_memory.setdefault(view.memory, name) if view.memory else name)
        if first != name:
            self.aliases.append((name, first))
        else:
            if tensors.is_parameter(value):
                self.parameters.append(len(self.tensors))
            if self.may_wait is not None and self.may_wait.covers(value, view.nbytes):
                self.later.append(len(self.tensors))
            if not view.pointer and view.nbytes:
                self.arriving.append(len(self.tensors))
            self.tensors.append((name, view.dtype, view.shape, view.strides, view.pointer, view.nbytes))
            self.keep.append(view.owner)
            self.places.append(len(self.seen) - 1)
        return {view.tag: name}

    def _leaf(self, value, name):
        if tensors.is_tensor(value):
            return self.tensor(value, name)
        adapter = adapter_of(value)
        if adapter is None:
            return NOT_A_LEAF
        if self._anew:
            kind = type(value)
            raise refuse(
                name,
                f"{kind.__module__}.{kind.__qualname__} could only come back as a dict here: attach it under a name",
                "run.attach(NAME=...)",
            )
        before, self.is_exact = self.is_exact, self.is_exact and adapter.is_exact
        node = adapter.capture(self, name)
        self.is_exact = before
        return node

    def arrivals(self):
        """What brings the tensors in `arriving`, as the core asks for it; None where there is none."""
        if not self.arriving:
            return None
        from unbroken._state.torch import device

        return device.Arrivals(device.streams(), {i: self.keep[i] for i in self.arriving})

    def scalars(self) -> list[tuple[str, str]]:
        """(name, canonical JSON) of everything that is no tensor, for a drill."""
        leaves = (pair for root, tree in self.tree for pair in flatten(tree, segment_of_node(root)))
        return [(name, canonical(node)) for name, node in leaves if tensor_name(node) is None]

    def node(self, name: str):
        """The node of a root, or None."""
        return next((node for key, node in self.tree if key == name), None)
