"""What is attached without a state of its own: containers and tensors, and `run.state`."""

from __future__ import annotations

import sys
from collections import deque

from unbroken._state import tensors
from unbroken._state.adapters import DICTS, adapter_of, rich_leaves
from unbroken._state.names import join, segment_of_node
from unbroken._state.order import CONTAINERS
from unbroken._state.tree import encode, is_container, items_of, kind_of, kind_of_value, pairs_of, tensor_name
from unbroken.errors import CorruptCheckpoint


def root_adapter(value):
    """The adapter for what is attached under a name of its own; None where nothing could be restored in place."""
    adapter = adapter_of(value)
    if adapter is not None:
        return adapter
    if tensors.is_tensor(value) or type(value) in (*DICTS, list, set, deque):
        return ContainerAdapter(value)
    return None


class ContainerAdapter:
    """A dict, a list, a set, a deque, or one tensor: restored in place, tensors keep their memory.

    Both sides must have the same keys, lengths and sorts of values; None may stand for a plain value that is not
    there yet. Plain values and the items of sets are replaced by the saved ones.
    """

    is_exact = owns = True

    def __init__(self, value):
        self.value = value

    @property
    def is_exact_tree(self):
        return next(rich_leaves(self.value), None) is None

    @property
    def is_placed(self):
        return self.is_exact_tree

    def look(self, look):
        look.value(self.value)

    def take(self, capture, name):
        return capture.value(self.value, name), None

    def capture(self, capture, name):
        return capture.part(name, self)[0]

    def plan(self, node, name, plan):
        plan_value(self.value, node, name, plan, None)


def plan_value(live, node, name, plan, put) -> None:
    """Plans `live` from `node`. `put(value)` replaces `live` where it stands; None where it cannot be replaced."""
    if plan.skips_all(node, name):
        return
    if tensors.is_tensor(live):
        plan.fill(node, live, name)
        return
    adapter = adapter_of(live)
    if adapter is not None:
        adapter.plan(node, name, plan)
    elif not _is_alike(live, node, name):
        plan.differs(node, live, name)
    elif isinstance(live, DICTS):
        _plan_dict(live, node, name, plan)
    elif isinstance(live, (list, deque)):
        _plan_items(live, items_of(node), name, plan, live.__setitem__)
    elif isinstance(live, tuple) and not isinstance(live, _torch_size()):
        _plan_tuple(live, node, name, plan, put)
    elif isinstance(live, set):
        plan.then(CONTAINERS, lambda items: (live.clear(), live.update(items)), node)
    else:
        plan.then(CONTAINERS, put, node)


def _is_alike(live, node, name) -> bool:
    here, there = kind_of_value(live, name), kind_of(node)
    is_open = here == "None" or there == "None"  # one of them is a value that is not there yet
    return here == there or (is_open and not (is_container(node) or tensor_name(node) or isinstance(live, _SEVERAL)))


_SEVERAL = (*DICTS, list, tuple, deque, set, frozenset)


def _torch_size():
    return sys.modules["torch"].Size if hasattr(sys.modules.get("torch"), "Size") else ()


def _plan_dict(live, node, name, plan):
    keys, pairs, order = list(live), pairs_of(node), []  # the order of the keys, as it was saved
    if set(map(type, keys)) <= {str} and keys == [key for key, _ in pairs]:
        order = keys
        left = plan.fills([item for _, item in pairs], list(live.values()))
        keys, pairs = [keys[i] for i in left], [pairs[i] for i in left]
        if not left:
            return
    found = {}
    for key in keys:
        found[join(name, segment_of_node(encode(key, name)))] = key
    fresh: dict = {}  # values that are replaced, by key
    for key_node, item in pairs:
        path = join(name, segment_of_node(key_node))
        if path not in found:
            plan.unread_below(item, path)
            continue
        key = found.pop(path)
        order.append(key)
        plan_value(live[key], item, path, plan, lambda value, key=key: fresh.__setitem__(key, value))
    for path, key in found.items():
        plan.missing_below(live[key], path)

    def rebuild():
        values = {key: fresh.get(key, live[key]) for key in dict.fromkeys([*order, *live])}
        live.clear()
        live.update(values)

    plan.then(CONTAINERS, rebuild)


def _plan_tuple(live, node, name, plan, put):
    fresh = list(live)
    _plan_items(live, items_of(node), name, plan, fresh.__setitem__)

    def replace():
        if any(a is not b for a, b in zip(fresh, live, strict=True)):
            put(tuple(fresh))

    plan.then(CONTAINERS, replace)


def _plan_items(live, items, name, plan, put):
    if len(live) != len(items):
        plan.grown.append(f"{name} has {len(items)} items in the checkpoint and {len(live)} here")
    for i, (value, item) in enumerate(zip(live, items, strict=False)):
        plan_value(value, item, join(name, str(i)), plan, lambda v, i=i: put(i, v))
    for i in range(len(items), len(live)):
        plan.missing_below(live[i], join(name, str(i)))
    for i in range(len(live), len(items)):
        plan.unread_below(items[i], join(name, str(i)))


class StateAdapter:
    """`run.state`: takes whatever was saved. Keys that the checkpoint lacks stay, and are reported."""

    is_exact, is_exact_tree, is_placed = True, False, True

    def __init__(self, state: dict):
        self.state = state

    def capture(self, capture, name):
        with capture.as_(in_place=False, anew=True), capture.encoder.apart():
            return capture.value(self.state, name)

    def plan(self, node, name, plan):
        live = {join(name, segment_of_node(encode(key, name))): key for key in self.state}
        if kind_of(node) != "dict":
            raise CorruptCheckpoint(f"checkpoint {plan.saved.name}: its state is no dict")
        taken = []
        for key_node, item in pairs_of(node):
            path = join(name, segment_of_node(key_node))
            if plan.skips_all(item, path):
                continue
            taken.append([key_node, item])
            value = self.state[live.pop(path)] if path in live else None
            plan.make(item, lambda _, value=value: getattr(value, "device", None) if tensors.is_tensor(value) else None)
        if live and not plan.ways.only:
            plan.notes.append(f"not in checkpoint {plan.saved.name}, kept as it is: {', '.join(sorted(live))}")

        def put(values):
            kept = {key: self.state[key] for key in live.values()}
            self.state.clear()
            self.state.update({**values, **kept})

        plan.then(CONTAINERS, put, {"dict": taken})
