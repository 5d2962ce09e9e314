"""`Run.audit`: what has a state, is within reach of the script, and is not attached.

The walk goes through dicts, lists, tuples, sets, the attributes of objects, and what functions hold
(unbroken._state.compare.functions). It runs no code of what it looks at but `state_dict`-like names are looked up on classes
only; properties are not read. What has no `state_dict` is named once it
changed in place (unbroken._state.compare.changed).
"""

from __future__ import annotations

import hashlib
import os
import sys
import types
import weakref
from collections import deque
from typing import NamedTuple

from unbroken._state.attached import owners_of
from unbroken._state.taking.capture import Capture
from unbroken._state.compare.changed import Marks, attributes_of, is_open, is_tensor
from unbroken._state.compare.functions import FUNCTIONS, held_by, is_own_function
from unbroken._state.containers import root_adapter
from unbroken._state.generators import handlers_of, is_global

_OBJECTS_MAX, _ITEMS_MAX = 50_000, 1_000
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_OPAQUE = (
    types.ModuleType, types.CodeType, types.FrameType, types.GeneratorType, types.CoroutineType, types.TracebackType, type,
    str, bytes, bytearray, int, float, complex,
)  # fmt: skip


class Unattached(NamedTuple):
    """What `Run.audit` finds. `path`: how the script reaches it.

    `kind`: optimizer, scheduler, scaler, module, generator, loader, ema, other.
    """

    path: str
    kind: str


def audit(attached, suspects, roots=None, frame=None) -> list[Unattached]:
    """What is reachable from `roots`, or from the variables of `frame`, has a state, and is part of nothing attached."""
    walk = _audited(attached, roots, frame, Marks())
    return walk.found + suspects.changed_of(attached, walk)


def states(attached, frame, digests) -> list[tuple[str, str]]:
    """(path, digest of its state) of what `audit` finds, for a drill; an empty digest of what cannot be taken."""
    walk = _audited(attached, None, frame)
    return [(item.path, _digest(item.path, value, attached, digests)) for item, value in zip(walk.found, walk.values, strict=True)]


def _digest(path, value, attached, digests) -> str:
    adapter = root_adapter(value)
    if adapter is None:
        return ""
    capture = Capture(owners_of([*attached.objects.items(), (path, value)]))
    try:
        capture.root(path, adapter)
    except Exception:  # of the user's object, or it could not be attached as it is
        return ""
    parts = [(entry[0], digest) for entry, digest in zip(capture.tensors, digests(capture.tensors), strict=True)]
    return hashlib.blake2b(repr((parts, capture.scalars())).encode(), digest_size=16).hexdigest()


def _audited(attached, roots, frame, marks=None) -> _Walk:
    walk = _Walk(_Covered(attached), marks)
    if roots:
        names = [f"roots[{i}]" for i in range(len(roots))] if len(roots) > 1 else [""]
        walk.begin(zip(names, roots, strict=True))
    elif frame is not None:
        walk.begin(frame.f_locals.items())
        walk.begin(item for item in frame.f_globals.items() if not item[0].startswith("__"))
    return walk


def callers_frame(is_own: bool = False):
    """The innermost frame that is not of this package; with `is_own`, None where it is that of an installed library."""
    frame = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "unbroken":
        frame = frame.f_back
    if frame is not None and is_own:
        parts = frame.f_code.co_filename.split(os.sep)
        if "site-packages" in parts or "dist-packages" in parts:
            return None
    return frame


class Suspects:
    """What was not attached when the run began. Some of it may be before the first step is complete."""

    def __init__(self):
        self._found: list = []  # (what it is, a function that gives it, or None where it is gone)
        self._marks = Marks()

    def look(self, attached, frame) -> None:
        """Notes what the variables of `frame` reach."""
        walk = _audited(attached, None, frame, self._marks)
        self._found += [(item, _reference(value)) for item, value in zip(walk.found, walk.values, strict=True)]

    def lines(self, attached) -> list[str]:
        """What still is not attached, a line for each; all is forgotten then."""
        (found, self._found), covered, left = (self._found, []), _Covered(attached), {}
        for item, reference in found:
            value = reference()
            if value is not None and value not in covered and _kind(value, item.path, covered) is not None:
                left.setdefault(id(value), item)
        changed = {mark.holder: None for mark, _ in self._marks.changed(covered) if mark.is_tensor}
        return [
            f"not attached: {item.path} ({item.kind}) has a state that no checkpoint will hold: run.attach(NAME={item.path})"
            for item in left.values()
        ] + [f"not attached: {path} changes as steps run, and no checkpoint will hold it: run.attach(NAME={path})" for path in changed]

    def changed_of(self, attached, walk) -> list[Unattached]:
        """What changed since the run began, of what a walk met, under the names that it has there."""
        found = (walk.holders.get(id(value)) for _, value in self._marks.changed(_Covered(attached)))
        return [Unattached(path, "ema" if _is_ema(None, path) else "other") for path in dict.fromkeys(found) if path]


def _reference(value):
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class _Covered:
    """What is attached, with all that belongs to it: parts of modules, schedulers in schedulers, loaders' generators."""

    def __init__(self, attached):
        self._ids: set[int] = set()
        self._keep: list = []
        self.tensors: set[int] = set()
        self._memory: set[int] | None = None
        for value in (*attached.objects.values(), attached.state, attached):
            self._add(value)

    def __contains__(self, value) -> bool:
        return id(value) in self._ids

    def holds(self, value) -> bool:
        """Is a value attached, or a tensor that shares memory with one that is?"""
        if value in self or id(value) in self.tensors:
            return True
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Tensor):
            return False
        if self._memory is None:
            modules = (part for part in self._keep if isinstance(part, torch.nn.Module))
            inside = (tensor for module in modules for tensor in (*module.parameters(), *module.buffers()))
            tensors = (part for part in (*self._keep, *inside) if isinstance(part, torch.Tensor))
            self._memory = {_memory_of(tensor) for tensor in tensors} - {None}
        return _memory_of(value) in self._memory

    def _add(self, value):
        pending = [value]
        while pending and len(self._ids) < _OBJECTS_MAX:
            value = pending.pop()
            if id(value) in self._ids or isinstance(value, _OPAQUE) or value is None:
                continue
            self._ids.add(id(value))
            self._keep.append(value)
            pending += _belongings(value, self.tensors)


def _memory_of(tensor) -> int | None:
    """Where its storage is; None for one that has none of its own, such as a sparse one."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return None


def _belongings(value, own_tensors):
    """What counts as attached with a value: no dataset, nothing that only refers to it."""
    torch = sys.modules.get("torch")
    if isinstance(value, dict):
        return list(value.values())[:_ITEMS_MAX]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return list(value)[:_ITEMS_MAX]
    bits = getattr(value, "bit_generator", None) if _is_generator(value) else None
    if bits is not None:
        return [bits]
    belongings = getattr(type(value), "_unbroken_belongings", None)  # of our own objects
    if belongings is not None:
        return belongings(value)
    if torch is None:
        return []
    from unbroken._state.torch.modules import unwrap

    if isinstance(value, torch.nn.Module):
        inner = unwrap(value)
        own_tensors.update(map(id, (*inner.parameters(), *inner.buffers())))
        return [inner, *inner._modules.values()]
    if isinstance(value, torch.optim.lr_scheduler.LRScheduler):
        return [part for part in vars(value).get("_schedulers", ())]
    if _is_loader(value) or isinstance(value, torch.utils.data.Sampler):
        return [part for part in attributes_of(value).values() if _is_generator(part) or _is_sampler(part) or _is_loader(part)]
    return []


class _Walk:
    """Breadth first, so that each thing is named by the shortest path."""

    def __init__(self, covered: _Covered, marks: Marks | None):
        self._covered = covered
        self._marks = marks
        self.holders: dict[int, str] = {}  # id of what may be marked -> how the script reaches what holds it
        self._seen: set[int] = set()
        self.found: list[Unattached] = []
        self.values: list = []  # of these

    def begin(self, named) -> None:
        pending = deque((str(name), str(name), value, True) for name, value in named)
        while pending and len(self._seen) < _OBJECTS_MAX:
            path, holder, value, may_mark = pending.popleft()
            if value is None or isinstance(value, _OPAQUE) or id(value) in self._seen:
                continue
            self._seen.add(id(value))
            kind = None if value in self._covered else _kind(value, path, self._covered)
            if kind is not None:
                self.found.append(Unattached(path or type(value).__name__, kind))
                self.values.append(value)
                self._seen.update(map(id, _parts(value)))
                continue
            may_mark = self._mark(path, holder, value, may_mark)
            is_container = isinstance(value, _CONTAINERS)
            pending.extend((below, holder if is_container else below, item, may_mark) for below, item in _below(value, path))

    def _mark(self, path, holder, value, may_mark) -> bool:
        """Marks a tensor, or an object of the script. Is what is below to be marked too?"""
        if self._marks is None:
            return False
        if isinstance(value, _CONTAINERS):
            return may_mark and value not in self._covered
        if not is_tensor(value):
            holder, may_mark = path, _is_plain_holder(value, self._covered)
        if may_mark and not self._covered.holds(value):
            self.holders[id(value)] = holder
            self._marks.add(holder, value)
        return may_mark


def _is_plain_holder(value, covered) -> bool:
    """True for an object of the script's own that neither gives its state to anybody nor is data."""
    kind, torch = type(value), sys.modules.get("torch")
    if isinstance(value, FUNCTIONS):
        return is_own_function(value)
    if torch is not None and isinstance(value, torch.nn.Module):  # what is no parameter and no buffer is in no state_dict
        return all(getattr(kind, name) is getattr(torch.nn.Module, name) for name in ("state_dict", "get_extra_state"))
    if not is_open(kind) or kind.__module__.split(".")[0] == "torch":
        return False
    is_data = all(hasattr(kind, name) for name in ("__len__", "__getitem__")) or _is_loader(value) or _is_sampler(value)
    is_dataset = torch is not None and isinstance(value, torch.utils.data.Dataset)
    return value not in covered and not is_data and not is_dataset


def _parts(value):
    """What needs no line of its own where the value has one."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        return list(value.modules())
    return _belongings(value, set())


def _below(value, path):
    if isinstance(value, dict):
        return [(f"{path}[{key!r}]", item) for key, item in list(value.items())[:_ITEMS_MAX] if isinstance(key, (str, int))]
    if isinstance(value, (list, tuple, deque)):
        return [(f"{path}[{i}]", item) for i, item in zip(range(_ITEMS_MAX), value, strict=False)]
    if isinstance(value, (set, frozenset)):
        return [(f"{path}.{{item}}", item) for item in list(value)[:_ITEMS_MAX]]
    if isinstance(value, FUNCTIONS):
        return held_by(value, path)
    if is_tensor(value) or not is_open(type(value)):
        return []
    return [(f"{path}.{name}" if path else name, item) for name, item in attributes_of(value).items()]


def _kind(value, path, covered) -> str | None:
    """The kind of what has a state; None for what has none, or whose state is part of something attached."""
    if _is_generator(value):
        return None if is_global(value) or getattr(value, "bit_generator", None) in covered else "generator"
    torch = sys.modules.get("torch")
    if torch is not None:
        found = _torch_kind(torch, value, path, covered)
        if found is not NotImplemented:
            return found
    has_state = all(callable(getattr(type(value), method, None)) for method in ("state_dict", "load_state_dict"))
    if not has_state or type(value).__module__.split(".")[0] == "unbroken" and not _is_loader(value):
        return None
    if _is_loader(value):
        return "loader"
    return "ema" if _is_ema(value, path) else "other"


def _torch_kind(torch, value, path, covered):
    from unbroken._state.torch.adapters import SCALERS, SCHEDULER_KINDS
    from unbroken._state.torch.modules import unwrap

    if isinstance(value, torch.nn.Module):
        inner = unwrap(value)
        state = [*inner.parameters(), *inner.buffers()]
        if inner in covered or not state or all(id(tensor) in covered.tensors for tensor in state):
            return None
        return "ema" if _is_ema(value, path) else "module"
    wrapped = [part for name, part in attributes_of(value).items() if name in ("optimizer", "scheduler", "_optimizer")]
    if isinstance(value, torch.optim.Optimizer):
        is_wrapper = any(part in covered for part in wrapped if isinstance(part, torch.optim.Optimizer))
        return None if is_wrapper else "optimizer"
    if isinstance(value, SCHEDULER_KINDS):
        return "scheduler"
    if any(part in covered for part in wrapped if isinstance(part, SCHEDULER_KINDS)):
        return None
    if isinstance(value, SCALERS):
        return "scaler" if value.is_enabled() else None
    if isinstance(value, torch.utils.data.DataLoader) and not hasattr(type(value), "state_dict"):
        is_shuffled = not isinstance(value.sampler, torch.utils.data.SequentialSampler)
        return "loader" if is_shuffled and not _has_own_order(value) else None
    return NotImplemented


def _has_own_order(loader) -> bool:
    """True for a loader inside one of ours, which gives it the order."""
    return type(loader.sampler).__module__.startswith("unbroken") or type(loader.batch_sampler).__module__.startswith("unbroken")


def _is_ema(value, path) -> bool:
    name, last = type(value).__name__.lower(), path.lower().split(".")[-1].strip("{}")
    return "averagedmodel" in name or "ema" in name or "movingaverage" in name or "ema" in last.split("_")


def _is_generator(value) -> bool:
    return handlers_of(value) is not None


def _is_loader(value) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.utils.data.DataLoader):
        return True
    methods = ("__iter__", "state_dict", "load_state_dict")
    return all(callable(getattr(type(value), method, None)) for method in methods)


def _is_sampler(value) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.utils.data.Sampler)
