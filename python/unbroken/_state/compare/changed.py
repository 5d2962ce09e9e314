"""What has no `state_dict` and changes in place while steps run: averages by hand, statistics, counters of objects.

Only a change tells such a thing from data. What is marked is not kept alive, and costs a few bytes.
"""

from __future__ import annotations

import sys
import sysconfig
import types
import weakref
from collections import deque
from typing import NamedTuple

_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_MARKS_MAX, _ELEMENTS, _ATTRIBUTES_MAX = 20_000, 256, 1_000


class Mark(NamedTuple):
    """`holder`: how the script reaches the variable or attribute that holds it, as itself or among items."""

    holder: str
    is_tensor: bool
    reference: weakref.ref
    look: tuple

    def value(self):
        """The tensor, array or object, where it lives and has changed; else None."""
        value = self.reference()
        return None if value is None or look(value) == self.look else value


class Marks:
    """Values as they were when each was met first."""

    def __init__(self):
        self._marks: dict[int, Mark] = {}

    def add(self, holder: str, value) -> None:
        known = self._marks.get(id(value))
        if len(self._marks) >= _MARKS_MAX or (known is not None and known.reference() is value):
            return
        try:
            self._marks[id(value)] = Mark(holder, is_tensor(value), weakref.ref(value), look(value))
        except TypeError:  # it takes no weak reference
            pass

    def changed(self, covered):
        """(mark, value) of what changed and is not covered: by itself, or by something that shares its memory."""
        found = ((mark, mark.value()) for mark in list(self._marks.values()))
        return [(mark, value) for mark, value in found if value is not None and not covered.holds(value)]


def is_tensor(value) -> bool:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return (torch is not None and isinstance(value, torch.Tensor)) or (numpy is not None and isinstance(value, numpy.ndarray))


def look(value) -> tuple:
    """Differs where the value changed: a count of writes and the first elements, or the numbers and lengths of an object."""
    if is_tensor(value):
        try:
            return _look_at_tensor(value) if hasattr(value, "_version") else _look_at_array(value)
        except Exception:  # of a subclass, or of a device
            return ()
    found = attributes_of(value).items()
    numbers = [(name, item) for name, item in found if type(item) in (int, float)]
    return (*numbers, *((name, len(item)) for name, item in found if type(item) in (list, dict, deque)))


def _look_at_tensor(tensor) -> tuple:
    torch = sys.modules["torch"]
    if not tensor.is_contiguous():
        return (tensor._version,)
    some = tensor.detach().reshape(-1)[:_ELEMENTS].cpu()
    return tensor._version, some.view(torch.uint8).numpy().tobytes()


def _look_at_array(array) -> tuple:
    return () if array.dtype.hasobject else (array.flat[:_ELEMENTS].tobytes(),)


def attributes_of(value) -> dict:
    """Those that stand in the object itself, with no code of it run."""
    found = {}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = kind.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                try:
                    found[name] = member.__get__(value)
                except AttributeError:
                    continue
    try:
        found.update(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        pass
    return {name: item for name, item in list(found.items())[:_ATTRIBUTES_MAX] if isinstance(name, str)}


def is_open(kind) -> bool:
    """True where the attributes of objects of this class are looked at: the script's own, and parts of torch."""
    module = kind.__module__
    return module.startswith(("torch.nn", "torch.utils.data", "torch.optim")) or module == "types" or is_of_script(module)


def is_of_script(module: str) -> bool:
    """True of a module that is no installed library, nor this one."""
    if module.split(".")[0] == "unbroken":
        return False
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None:
        return module == "__main__"
    return not any(path.startswith(where) for where in _LIBRARIES)
