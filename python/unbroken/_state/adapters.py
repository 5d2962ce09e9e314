"""What can be attached, one adapter for each sort of object (collect.py has the interface)."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque

from unbroken._state import tensors
from unbroken._state.collect import CONTAINERS, OBJECTS, kind_of_value
from unbroken.errors import CorruptCheckpoint, StateMismatch
from unbroken._state.generators import GeneratorAdapter, handlers_of
from unbroken._state.names import join, segment_of_node
from unbroken._state.tree import decode, encode, is_container, items_of, kind_of, pairs_of, tensor_name, tensors_of

_PLAIN = {type(None), bool, int, float, complex, str, bytes}
_DICTS = (dict, OrderedDict, Counter, defaultdict)


def adapter_of(value):
    """The adapter for an object with a state of its own; None for tensors, plain values and containers."""
    if handlers_of(value) is not None:
        return GeneratorAdapter(value)
    if "torch" in sys.modules:
        from unbroken._state.torch import adapters as torch_adapters

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


def placed(value, name: str, _around=()):
    """(name, tensor) of everything in an attached object that is restored in the memory where it is."""
    if type(value) in _PLAIN:
        return
    if tensors.is_tensor(value):
        yield name, value
    elif isinstance(value, (*_DICTS, list, tuple, deque)):
        if id(value) in _around:
            return
        pairs = value.items() if isinstance(value, _DICTS) else enumerate(value)
        for key, item in pairs:
            yield from placed(item, join(name, segment_of_node(encode(key, name))), (*_around, id(value)))
    else:
        for own, tensor in getattr(adapter_of(value), "tensors", tuple)():
            yield join(name, own), tensor


class StatefulAdapter:
    """Any object with state_dict and load_state_dict: it gets back whole what it gave."""

    is_exact = is_exact_tree = False

    def __init__(self, value):
        self.value = value

    def capture(self, capture, name):
        with capture.as_(in_place=False, anew=True, is_exact=self.is_exact):
            return capture.value(self.value.state_dict(), name)

    def plan(self, node, name, plan):
        if plan.skips_part(node, name):
            return  # it gets its state whole, or keeps its own
        plan.make(node, self._devices(name) if tensors_of(node) else None)
        differences = getattr(self.value, "_unbroken_differences", None)  # our own objects say what differs
        if differences is not None:
            plan.changed += differences(decode(node, lambda tag, tensor: None), name)
        plan.then(OBJECTS, lambda state: self._load(state, name), node)

    def _devices(self, name):
        """Where the live object holds the tensor of a name: there the new one is made."""
        devices: dict[str, object] = {}

        def note(value, path):
            if tensors.is_tensor(value):
                devices[path] = getattr(value, "device", None)

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


class ContainerAdapter:
    """A dict, a list, a set, a deque, or one tensor: restored in place, tensors keep their memory.

    Both sides must have the same keys, lengths and sorts of values; None may stand for a plain value that is not
    there yet. Plain values and the items of sets are replaced by the saved ones.
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
    elif isinstance(live, _DICTS):
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


_SEVERAL = (*_DICTS, list, tuple, deque, set, frozenset)


def _torch_size():
    return sys.modules["torch"].Size if hasattr(sys.modules.get("torch"), "Size") else ()


def _plan_dict(live, node, name, plan):
    found = {}
    for key in live:
        found[join(name, segment_of_node(encode(key, name)))] = key
    fresh: dict = {}  # values that are replaced, by key
    order = []  # of the keys, as it was saved
    for key_node, item in pairs_of(node):
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
        values = {key: fresh.get(key, live[key]) for key in [*order, *(key for key in live if key not in order)]}
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
