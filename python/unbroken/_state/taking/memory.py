"""What the captures of one registry have in common.

A *part* is what one attached object holds in tensors: of a module its parameters and buffers, of an optimizer the state of
the parameters, else all. The parts come first in a capture. While each of them looks as it did (look.py), their names, views
and nodes are those of the last capture, as one prefix; a difference in any makes all of them anew. Where only plain values
differ, the nodes of that part are. The names in a part of an optimizer are those that the owners of its parameters give
them: it is one only while all of these are.
"""

from __future__ import annotations

from unbroken import _native
from unbroken._native import call
from unbroken._state.names import canonical
from unbroken._state.taking.capture import Capture
from unbroken._state.taking.look import Look

_MISSES_MAX = 3  # captures in turn in which a part differed: then it is none any more, as where tensors are replaced in each step


def _look_at(adapter) -> Look | None:
    """None where there is no part, or it cannot be known without a capture."""
    look = Look()
    try:
        adapter.look(look)
        look.end()
    except Exception:  # an adapter without parts; a tensor without memory: its capture tells
        return None
    return look


class Prefix:
    """What the parts gave to a capture that has taken nothing else yet."""

    def __init__(self, capture: Capture, looks: dict[str, Look]):
        self.looks = looks
        self.tensors, self.aliases, self.parameters = list(capture.tensors), list(capture.aliases), list(capture.parameters)
        self.parts, self.optimizers, self.names = dict(capture.parts), set(capture.optimizers), set(capture.names)
        self.by_memory, self.places = dict(capture.by_memory), list(capture.places)
        self._later, self._earned = list(capture.later), None if capture.may_wait is None else capture.may_wait.earned
        self._known = None

    def later_of(self, may_wait, keep) -> list[int]:
        """Capture.later, of these parts; `keep`: their tensors."""
        if may_wait.earned != self._earned or not self._earned <= self.optimizers:
            self._earned = may_wait.earned
            self._later = [i for i, (tensor, entry) in enumerate(zip(keep, self.tensors, strict=True)) if may_wait.covers(tensor, entry[5])]
        return list(self._later)


    def known(self):
        """(all of it for the core, which keeps it; the nodes in it), from the first time it is asked for."""
        if self._known is None:
            nodes = [node for node, _ in self.parts.values()]
            texts = list(map(canonical, nodes))
            self._known = call(_native.core.Known, self.tensors, self.aliases, self.parameters, texts), nodes
        return self._known


class Memory:
    """`by_id`: it matters which tensors they are that hold the memory, as where optimizers tell which may be copied later.
    Threads: one at a time."""

    def __init__(self, by_id: bool = True):
        self._by_id = by_id
        self._prefix: Prefix | None = None
        self._misses: dict[str, int] = {}

    def begin(self, capture: Capture, adapters: dict) -> set[str]:
        """Takes the parts of the adapters, by path; the paths of those that have one. Errors: those of a capture."""
        looks = {path: _look_at(adapter) for path, adapter in adapters.items() if self._misses.get(path, 0) < _MISSES_MAX}
        self._misses.update({path: _MISSES_MAX for path, look in looks.items() if look is None})
        may_own = {path for path, adapter in adapters.items() if getattr(adapter, "owns", False)}
        is_owned = all(looks.get(path) is not None for path in may_own)
        looks = {path: look for path, look in looks.items() if look is not None and (is_owned or path in may_own)}
        if self._is_known(looks):
            self._renew(capture, adapters, looks)
            capture.adopt(self._prefix, [one for look in looks.values() for one in look.tensors])
        else:
            self._make(capture, adapters, looks)
        for look in looks.values():
            look.forget()
        return set(looks)

    def _is_known(self, looks) -> bool:
        before = {} if self._prefix is None else self._prefix.looks
        alike = {path: look.is_like(before[path], self._by_id) for path, look in looks.items() if path in before}
        for path, is_alike in alike.items():
            self._misses[path] = 0 if is_alike else self._misses.get(path, 0) + 1
        return self._prefix is not None and looks.keys() == before.keys() and all(alike.values())

    def _renew(self, capture, adapters, looks):
        """Where plain values differ, the names are those of before all the same."""
        for path, look in looks.items():
            if not look.has_plain_of(self._prefix.looks[path]):
                other = Capture(capture.owners)
                other.part_of(path, adapters[path])
                self._prefix.parts[path], self._prefix.looks[path] = other.parts[path], look

    def _make(self, capture, adapters, looks):
        self._prefix, unsteady = None, []
        for path in looks:
            capture.is_steady = True
            capture.part_of(path, adapters[path])
            if not capture.is_steady:
                unsteady.append(path)
        seen = [one for look in looks.values() for one in look.ids]
        if seen == capture.seen and not unsteady:
            self._prefix = Prefix(capture, looks)
        elif capture.seen:
            self._misses.update(dict.fromkeys(unsteady or looks, _MISSES_MAX))
