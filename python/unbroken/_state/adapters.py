"""What can be attached, one adapter for each sort of object (collect.py has the interface)."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque

from unbroken._state import tensors
from unbroken._state.collect import CONTAINERS, OBJECTS
from unbroken.errors import StateMismatch
from unbroken._state.generators import GeneratorAdapter, handlers_of
from unbroken._state.names import join, segment_of_node
from unbroken._state.tree import decode, encode, is_container, items_of, pairs_of, tensor_name, tensors_of

_PLAIN = {type(None), bool, int, float, complex, str, bytes}
_DICTS = (dict, OrderedDict, Counter, defaultdict)


def adapter_of(value):
    """The adapter for an object with a state of its own; None for tensors, plain values and containers."""
    if handlers_of(value) is not None:
        return GeneratorAdapter(value)
    if "torch" in sys.modules:
        from unbroken._state import torch_adapters

        adapter = torch_adapters.adapter_of(value)
        if adapter is not None:
            return adapter
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
        return StatefulAdapter(value)
    return None


def root_adapter(value):
    """The adapter for what is attached under a name of its own; None where nothing could be restored in place."""
    adapter = adapter_of(value)
    if adapter is not None:
        return adapter
    if tensors.is_tensor(value) or type(value) in (*_DICTS, list, set, deque):
        return ContainerAdapter(value)
    return None


def is_rich(value) -> bool:
    """True for a tensor, an object with a state of its own, or a container with one of these in it."""
    return any(True for _ in rich_leaves(value))


def rich_leaves(value, _around=()):
    """The tensors and the objects with a state of their own in a value, depth first."""
    if type(value) in _PLAIN:
        return
    if isinstance(value, (*_DICTS, list, tuple, deque)):
        if id(value) in _around:
            return
        for item in value.values() if isinstance(value, _DICTS) else value:
            yield from rich_leaves(item, (*_around, id(value)))
    elif tensors.is_tensor(value) or adapter_of(value) is not None:
        yield value


class StatefulAdapter:
    """Any object with state_dict and load_state_dict: it gets back whole what it gave."""

    is_exact = is_exact_tree = False

    def __init__(self, value):
        self.value = value

    def capture(self, capture, name):
        return capture.value(self.value.state_dict(), name)

    def plan(self, node, name, plan):
        plan.make(node, self._devices(name) if tensors_of(node) else None)
        differences = getattr(self.value, "_unbroken_differences", None)  # our own objects say what differs
        if differences is not None:
            plan.changed += differences(decode(node), name)
        plan.then(OBJECTS, lambda: self._load(plan.value(node), name))

    def _devices(self, name):
        """Where the live object holds the tensor of a name: there the new one is made."""
        devices: dict[str, object] = {}

        def note(value, path):
            if tensors.is_tensor(value):
                devices[path] = getattr(value, "device", None)
                return {"tensor": path}
            adapter = adapter_of(value)
            return adapter.capture(_Names(note), path) if adapter else None

        encode(self.value.state_dict(), name, note)
        return devices.get

    def _load(self, state, name):
        try:
            self.value.load_state_dict(state)
        except StateMismatch:
            raise
        except Exception as error:
            raise StateMismatch(
                f"{name}: {type(self.value).__qualname__}.load_state_dict refuses the saved state: {error}",
                changed=[(name, "the saved state", f"refused: {error}")],
            ) from error


class _Names:
    """A capture that only looks at names."""

    def __init__(self, note):
        self._note = note

    def value(self, value, name):
        return encode(value, name, self._note)

    def tensor(self, value, name):
        return self._note(value, name)


class ContainerAdapter:
    """A dict, a list, a set, a deque, or one tensor: restored in place, tensors keep their memory.

    Keys must agree on both sides, but for a dict or list that is empty here, and for a Counter or a list of plain
    values: they take what was saved. Values that are not tensors are replaced.
    """

    is_exact = True

    def __init__(self, value):
        self.value = value

    @property
    def is_exact_tree(self):
        return all(tensors.is_tensor(leaf) for leaf in rich_leaves(self.value))

    def capture(self, capture, name):
        return capture.value(self.value, name)

    def plan(self, node, name, plan):
        plan_value(self.value, node, name, plan, None)


def plan_value(live, node, name, plan, put) -> None:
    """Plans `live` from `node`. `put(value)` replaces `live` where it stands; None where it cannot be replaced."""
    adapter = adapter_of(live)
    if adapter is not None:
        adapter.plan(node, name, plan)
    elif tensors.is_tensor(live):
        plan.fill(node, live, name)
    elif isinstance(live, _DICTS) and pairs_of(node) is not None:
        _plan_dict(live, node, name, plan)
    elif isinstance(live, (list, deque)) and items_of(node) is not None:
        _plan_list(live, node, name, plan)
    elif isinstance(live, tuple) and items_of(node) is not None and is_rich(live):
        _plan_items(live, items_of(node), name, plan, lambda i, value: None)
    elif isinstance(live, set) and isinstance(node, dict) and node.get("kind") == "set":
        plan.then(CONTAINERS, lambda: (live.clear(), live.update(plan.value(node))))
    elif tensors_of(node) or (put is None) or (is_container(node) and is_rich(live)):
        plan.differs(node, live, name)
    else:
        plan.then(CONTAINERS, lambda: put(plan.value(node)))


def _plan_dict(live, node, name, plan):
    pairs = pairs_of(node)
    if not live or isinstance(live, Counter):
        plan.make(node)
        plan.then(CONTAINERS, lambda: (live.clear(), live.update(plan.value(node))))
        return
    found = {}
    for key in live:
        key_node = encode(key, name)
        found[join(name, segment_of_node(key_node))] = key
    fresh: dict = {}  # values that are replaced, by key
    for key_node, item in pairs:
        path = join(name, segment_of_node(key_node))
        if path not in found:
            plan.unread_below(item, path)
            continue
        key = found.pop(path)
        plan_value(live[key], item, path, plan, lambda value, key=key: fresh.__setitem__(key, value))
    for path, key in found.items():
        plan.missing_below(live[key], path)

    def rebuild():  # in the saved order
        keys = [plan.value(key_node) for key_node, _ in pairs]
        values = {key: fresh.get(key, live[key]) for key in keys}
        live.clear()
        live.update(values)

    plan.then(CONTAINERS, rebuild)


def _plan_list(live, node, name, plan):
    items = items_of(node)
    if not live or not (is_rich(live) or tensors_of(node)):
        plan.make(node)
        plan.then(CONTAINERS, lambda: (live.clear(), live.extend(plan.value(node))))
        return
    _plan_items(live, items, name, plan, live.__setitem__)


def _plan_items(live, items, name, plan, put):
    for i, (value, item) in enumerate(zip(live, items, strict=False)):
        plan_value(value, item, join(name, str(i)), plan, lambda v, i=i: put(i, v))
    for i in range(len(items), len(live)):
        plan.missing_below(live[i], join(name, str(i)))
    for i in range(len(live), len(items)):
        plan.unread_below(items[i], join(name, str(i)))


class StateAdapter:
    """`run.state`: takes whatever was saved. Keys that the checkpoint lacks stay, and are reported."""

    is_exact, is_exact_tree = True, False

    def __init__(self, state: dict):
        self.state = state

    def capture(self, capture, name):
        return capture.value(self.state, name)

    def plan(self, node, name, plan):
        live = {join(name, segment_of_node(encode(key, name))): key for key in self.state}
        for key_node, item in pairs_of(node) or ():
            path = join(name, segment_of_node(key_node))
            key = live.pop(path, None)
            value = self.state.get(key) if key is not None else None
            spec = plan.saved.spec(tensor_name(item)) if tensor_name(item) else None
            if spec and tensors.is_tensor(value) and _fits(value, item, spec, path):
                plan.fill(item, value, path)
            else:
                plan.make(item)
        if live:
            plan.notes.append(f"not in checkpoint {plan.saved.name}, kept as it is: {', '.join(sorted(live))}")

        def put():
            kept = {key: self.state[key] for key in live.values()}
            values = plan.value(node)
            self.state.clear()
            self.state.update({**values, **kept})

        plan.then(CONTAINERS, put)


def _fits(value, node, spec, name):
    view = tensors.view(value, name)
    return view.tag in node and (view.dtype, view.shape) == spec[:2]
