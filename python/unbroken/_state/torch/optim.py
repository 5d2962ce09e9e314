"""Optimizers, matched by the names of their parameters. Imported only where torch is.

State is written into `Optimizer.state` and `param_groups` directly: `Optimizer.load_state_dict` matches by
position and casts floating point state to the parameter's dtype, without a word.

Names: `<attach>.state.<parameter>.<slot>` and `<attach>.param_groups.<i>.<key>`. A parameter has the name its
module gives it; where one optimizer spans several attached objects, the attach name stands in front.
"""

from __future__ import annotations

import functools

import torch

from unbroken._state import tensors
from unbroken._state.order import OPTIMIZERS
from unbroken.errors import Misconfigured
from unbroken._state.names import join, segment_of_node
from unbroken._state.tree import encode, items_of, pairs_of, tensor_name, tensors_of, text, text_of

#: what a scheduler moves
_MOVING = {"lr", "momentum", "betas"}
#: what it leaves in a group beside
_OF_SCHEDULERS = {"initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr"}


class Owners:
    """Which attached object owns a parameter, of (attach name, name within it, tensor) in order of attaching: they are
    looked at when an optimizer asks."""

    def __init__(self, tensors_of_roots):
        self._tensors = tensors_of_roots

    @functools.cached_property
    def _names(self) -> dict[int, dict[str, str]]:
        """id -> {attach name: name within it}"""
        names: dict[int, dict[str, str]] = {}
        for attach, name, tensor in self._tensors:
            names.setdefault(id(tensor), {}).setdefault(attach, name)
        return names

    def names(self, parameters, where: str) -> list[list[str]]:
        """A name for each parameter of each group. Errors: Misconfigured, by group and index."""
        candidates = [[self._names.get(id(p), {}) for p in group] for group in parameters]
        for i, group in enumerate(candidates):
            for j, found in enumerate(group):
                if not found:
                    raise Misconfigured(
                        f"{where}: parameter {j} of group {i} (shape {list(parameters[i][j].shape)}) belongs to no "
                        "attached object: attach the module that owns it"
                    )
        everything = [found for group in candidates for found in group]
        shared = next((a for a in (everything or [{}])[0] if all(a in found for found in everything)), None)
        if shared is not None:
            return [[found[shared] or shared for found in group] for group in candidates]
        return [[_with_attach_name(*next(iter(found.items()))) for found in group] for group in candidates]


def _with_attach_name(attach: str, name: str) -> str:
    return join(segment_of_node(attach), name) if name else segment_of_node(attach)


class OptimizerAdapter:
    """One optimizer. Captures and plans carry the `owners` of all attached parameters."""

    is_exact, is_exact_tree, is_placed = True, False, True

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def _names(self, owners, name) -> list[list[str]]:
        parameters = [group["params"] for group in self.optimizer.param_groups]
        return (owners or Owners(())).names(parameters, name)

    def look(self, look):
        groups, state = self.optimizer.param_groups, self.optimizer.state
        parameters = [parameter for group in groups for parameter in group["params"]]
        ids, keys = list(map(id, parameters)), list(map(id, state))
        look.marks += (type(self.optimizer), len(keys), len(groups), *(len(group["params"]) for group in groups))
        look.marks += ids
        look.marks += keys
        states = list(state.values() if ids == keys else map(state.get, parameters))
        look.marks += map(bool, states)
        look.dicts([own for own in states if own])

    def take(self, capture, name):
        """(node of the states of parameters, names of the parameters of each group)."""
        names = self._names(capture.owners, name)
        groups = self.optimizer.param_groups
        of_parameter = dict(
            pair for group, own in zip(groups, names, strict=True) for pair in zip(group["params"], own, strict=True)
        )
        marker: list = []
        capture.encoder.enter(marker, name)
        with capture.as_(in_place=True, anew=True):
            node = self._states(capture, name, of_parameter)
        capture.encoder.leave(marker)
        capture.optimizers.add(id(self.optimizer))
        return node, names

    def capture(self, capture, name):
        states, names = capture.part(name, self)
        others = {key: value for key, value in self.optimizer.state.items() if not isinstance(key, torch.Tensor)}
        marker: list = []
        capture.encoder.enter(marker, name)
        with capture.as_(in_place=True, anew=True):
            groups = self._groups(capture, self.optimizer.param_groups, names, name)
            pairs = [["state", states], ["param_groups", groups]]
            if others:
                pairs.append(["others", capture.value(others, f"{name}.others")])
        capture.encoder.leave(marker)
        return {"dict": pairs}

    def _states(self, capture, name, of_parameter):
        states = []
        for parameter, state in self.optimizer.state.items():
            if isinstance(parameter, torch.Tensor) and parameter not in of_parameter:
                if not state:
                    continue
                raise Misconfigured(
                    f"{name}: holds state of a parameter (shape {list(parameter.shape)}) that is in none of its groups"
                )
        for parameter, own in of_parameter.items():
            if self.optimizer.state.get(parameter):
                capture.like = parameter
                states.append([own, capture.value(dict(self.optimizer.state[parameter]), f"{name}.state.{own}")])
        capture.like = None
        return {"dict": states}

    def _groups(self, capture, groups, names, name):
        nodes = []
        for i, (group, group_names) in enumerate(zip(groups, names, strict=True)):
            rest = [(key, value) for key, value in group.items() if key != "params"]
            node = capture.pairs(rest, f"{name}.param_groups.{i}")
            nodes.append({"dict": [["params", list(group_names)], *node["dict"]]})
        return nodes

    # -- the way back

    def plan(self, node, name, plan):
        saved, saved_groups, states = _parts(node)
        if saved is None:
            plan.changed.append((name, "the state of something else", "an optimizer"))
            return
        groups, names = self.optimizer.param_groups, self._names(plan.owners, name)
        match = self._match(saved_groups, names, name, plan)
        if match is None:
            return
        known = {own for group in saved_groups for own in group["params"]}
        slots: list[tuple] = []  # (node, live tensor, name), filled together
        for i, (group, group_names) in enumerate(zip(groups, names, strict=True)):
            if match[i] is None:
                continue  # its parameters are new, and that is permitted
            old = saved_groups[match[i]]
            self._plan_group(group, old, f"{name}.param_groups.{i}", plan)
            moves = bool(_plain(old.get("capturable")) or _plain(old.get("fused")))
            for parameter, own in zip(group["params"], group_names, strict=True):
                if own not in known or plan.skips_all(states.get(own), f"{name}.state.{own}"):
                    states.pop(own, None)
                    continue
                self._plan_state(parameter, states.pop(own, None), f"{name}.state.{own}", moves, plan, slots)
        for i in plan.fills([node for node, _, _ in slots], [value for _, value, _ in slots]):
            plan.fill(*slots[i])
        for own, item in states.items():
            plan.unread_below(item, f"{name}.state.{own}")
        others = saved.get("others")
        if others is not None:
            plan.make(others)
            plan.then(OPTIMIZERS, self.optimizer.state.update, others)

    def remember(self):
        """A function that puts the settings of the groups back as they are now: making a scheduler moves them."""
        kept = []
        for group in self.optimizer.param_groups:
            items = [(key, value) for key, value in group.items() if key != "params"]
            kept += [(group, k, v.detach().clone() if isinstance(v, torch.Tensor) else v) for k, v in items]

        def put():
            for group, key, value in kept:
                if isinstance(value, torch.Tensor) and isinstance(group[key], torch.Tensor):
                    with torch.no_grad():
                        group[key].copy_(value)
                else:
                    group[key] = value

        return put

    def _match(self, saved_groups, names, name, plan):
        """For each group here the saved one with the same parameters, in any order; None where that fails."""
        if len(saved_groups) == len(names):
            left = {frozenset(group["params"]): i for i, group in enumerate(saved_groups)}
            match = [left.get(frozenset(group)) for group in names]
            if None not in match and len(set(match)) == len(match):
                return match
        before = {own: i for i, group in enumerate(saved_groups) for own in group["params"]}
        here = {own: i for i, group in enumerate(names) for own in group}
        new = [f"{name}.state.{own}" for own in here.keys() - before.keys()]
        gone = [f"{name}.state.{own}" for own in before.keys() - here.keys()]
        plan.missing += new
        plan.unread += gone
        if all(map(plan.may_lack, new)) and all(map(plan.skips, gone)):
            match = _match_common(saved_groups, names, before.keys() & here.keys())
            if match is not None:
                return match
        if before.keys() == here.keys():
            moved = [own for own in here if before[own] != here[own]] or list(here)
            plan.changed += [
                (f"{name}.state.{own}", f"in group {before[own]}", f"in group {here[own]}") for own in moved
            ]
        return None

    def _plan_group(self, group, saved, name, plan):
        for key, item in saved.items():
            path = join(name, segment_of_node(key))
            live = group.get(key)
            if key == "params" or plan.skips_all(item, path):
                continue
            if key in group:
                self._compare(key, group, saved, name, plan)
            if isinstance(live, torch.Tensor):
                plan.fill(item, live, path)
                continue
            if key not in group and key not in _OF_SCHEDULERS:
                plan.unread_below(item, path)
                continue
            if tensor_name(item) is not None and key in group and live is not None and key not in ("initial_lr",):
                plan.differs(item, live, path)
                continue
            plan.make(item, lambda _: group["params"][0].device if group["params"] else None)
            plan.then(OPTIMIZERS, lambda value, key=key: group.__setitem__(key, value), item)
        for key, value in group.items():
            if key != "params" and key not in saved and key not in ("initial_lr", "swa_lr"):
                plan.missing_below(value, join(name, segment_of_node(key)))

    def _compare(self, key, group, saved, of, plan):
        """What the script set `group[key]` to must be what it was set to; else the plan notes it."""
        name, live, item = join(of, segment_of_node(key)), group[key], saved[key]
        if key in _MOVING:
            live, item = _as_set(key, group, saved, plan.is_scheduled(self.optimizer)) or (None, None)
        if tensors_of(item) or tensors.are_in(live):
            if key in _MOVING | _OF_SCHEDULERS:
                plan.setting_of_tensors(name, live, item, of)
        elif encode(live, name) != item:
            plan.settings.differ(name, text_of(live, name), text(item), of if key in _MOVING else None)

    def _plan_state(self, parameter, node, name, step_moves, plan, slots):
        live = self.optimizer.state.get(parameter) or {}
        if node is None:
            plan.then(OPTIMIZERS, lambda: self.optimizer.state.pop(parameter, None))
            return
        if id(parameter) in plan.unfilled:
            text = plan.unfilled[id(parameter)]
            plan.changed.append((name, f"the state of a parameter {text}", "another parameter, which stays as it is"))
            return
        taken, filled = [], {}
        for key, item in pairs_of(node):
            value = live.get(key) if isinstance(key, str) else None
            path = join(name, segment_of_node(key))
            if plan.skips_all(item, path):
                continue
            if value is None and _is_composed_node(item) and tensors.composed(parameter) is not None:
                value = torch.zeros_like(parameter.detach())
            if tensors.is_tensor(value) and tensors.composed(value) is not None:
                plan.fill(item, value, path)
                filled[key] = value
                continue
            taken.append([key, item])
            if tensor_name(item) is not None and tensors.is_tensor(value):
                slots.append((item, value, path))
                filled[key] = value
            elif value is not None and (tensors.is_tensor(value) or tensor_name(item) is not None):
                plan.differs(item, value, path)
            else:
                is_step = key == "step" and not step_moves
                plan.make(item, lambda _, is_step=is_step: None if is_step else parameter)
        kept = {key: value for key, value in live.items() if plan.skips(join(name, segment_of_node(encode(key, name))))}
        cast = self._slots_to_cast(parameter, taken, live, name, plan)

        def put(state):
            for key in cast:
                state[key] = state[key].to(parameter.dtype)
            self.optimizer.state[parameter] = {**kept, **state, **filled}

        plan.then(OPTIMIZERS, put, {"dict": taken})

    def _slots_to_cast(self, parameter, pairs, live, name, plan):
        """Slots that follow the dtype of a parameter which is converted, where there is no live tensor to fill."""
        dtype, slots = plan.cast_from.get(id(parameter)), []
        for key, item in pairs if dtype is not None else ():
            path = join(name, segment_of_node(key))
            is_made = tensor_name(item) is not None and not tensors.is_tensor(live.get(key))
            if is_made and plan.saved.spec(tensor_name(item))[0] == dtype and plan.ways.cast.match(path) and key != "step":
                slots.append(key)
                plan.made_as(path)
        return slots


def _as_set(key, group, saved, is_scheduled):
    """(live value, saved node) of what a script set `key` to; None where that cannot be told, as schedulers move it.

    They leave what they began from in the group: `initial_lr`, or the ends of the way of a cycle.
    """
    live, item = group[key], saved[key]

    def has(*keys):
        return any(one in group or one in saved for one in keys)

    if key == "lr":
        if is_scheduled or ("initial_lr" in group and "initial_lr" in saved) or has("max_lr", "base_momentum"):
            return None
        return group.get("initial_lr", live), saved.get("initial_lr", item)
    if not has("base_momentum", "max_momentum"):
        return live, item
    fixed = items_of(item) if key == "betas" else None
    return (tuple(live[1:]), {"tuple": fixed[1:]}) if fixed and isinstance(live, (list, tuple)) else None


def _is_composed_node(item) -> bool:
    return {"type", "context"} <= {key for key, _ in pairs_of(item) or () if isinstance(key, str)}


def _match_common(saved_groups, names, common):
    """As _match, by those parameters that both sides have; None for a group of new ones."""
    left = {frozenset(group["params"]) & common: i for i, group in enumerate(saved_groups)}
    mine = [frozenset(group) & common for group in names]
    match = [left.get(group) if group else None for group in mine]
    found = [i for i in match if i is not None]
    return match if len(set(found)) == len(found) == sum(map(bool, mine)) else None


def _parts(node):
    """What an optimizer saved: everything by key, its groups, the states by parameter. Nones where it saved none."""
    saved = {key: item for key, item in pairs_of(node) or () if isinstance(key, str)}
    groups = [dict(pairs_of(group) or ()) for group in items_of(saved.get("param_groups")) or ()]
    states = dict(pairs_of(saved.get("state")) or ())
    is_one = saved.keys() >= {"state", "param_groups"} and all(
        items_of(group.get("params")) is not None and all(isinstance(own, str) for own in items_of(group["params"]))
        for group in groups
    )
    is_one = is_one and all(pairs_of(state) is not None for state in states.values())
    return (saved, groups, states) if is_one else (None, None, None)


def _plain(node):
    return node if isinstance(node, (bool, int)) else None
