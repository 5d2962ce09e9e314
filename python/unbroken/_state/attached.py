"""Everything that is part of a run's state, by attach name: what a user attached, `state`, `rng` and `run`."""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys

from unbroken import _native
from unbroken._state import tensors
from unbroken._native import call
from unbroken._state.adapters import StateAdapter, placed, root_adapter
from unbroken._state.collect import OBJECTS, Capture, Plan, Saved, differences, plan_root
from unbroken.errors import Misconfigured, StateMismatch, filling
from unbroken._state.generators import GlobalGenerators
from unbroken._state.names import segment_of_node
from unbroken._state.tree import flatten, tensor_name, tensors_of

OURS = ("rng", "run", "state")


class Attached:
    """The registry. Threads: the trainer's."""

    def __init__(self):
        self.state: dict = {}
        self.epoch = 0
        self.epochs: dict[str, int] = {}  # by the name of a loader
        self.generators = GlobalGenerators()
        self._objects: dict[str, object] = {}
        self._adapters: dict[str, object] = {}
        self._state_adapter = StateAdapter(self.state)

    def add(self, name: str, value) -> None:
        """Errors: Misconfigured (a name twice or one of ours, an object that cannot be attached)."""
        if name in OURS:
            raise Misconfigured(f"attach: the name {name!r} is taken by Unbroken itself")
        if name in self._objects:
            raise Misconfigured(f"attach: {name!r} is attached already")
        adapter = root_adapter(value)
        if adapter is None:
            kind = type(value)
            raise Misconfigured(
                f"attach: {name!r} is {kind.__module__}.{kind.__qualname__}, which has neither state_dict and "
                "load_state_dict nor a known kind that can be restored in place (a plain value can stand in a dict, "
                "or in run.state)",
                f"run.state[{name!r}] = ...",
            )
        for path, tensor in placed(value, segment_of_node(name)):
            tensors.check_in_place(tensor, path)
        self._objects[name], self._adapters[name] = value, adapter

    def remove(self, name: str) -> None:
        """Undoes `add`."""
        del self._objects[name], self._adapters[name]

    def get(self, name: str):
        """The object of a name, or None."""
        return self._objects.get(name)

    def name_of(self, value) -> str | None:
        """The name under which an object is attached."""
        return next((name for name, other in self._objects.items() if other is value), None)

    def of_type(self, kind):
        """(name, object) of all attached objects of a type, also of those in attached dicts and lists."""
        from unbroken._state.adapters import rich_leaves

        for name, value in self._objects.items():
            if isinstance(value, kind):
                yield name, value
            elif isinstance(value, (dict, list)):
                yield from ((name, leaf) for leaf in rich_leaves(value) if isinstance(leaf, kind))

    def check_owners(self) -> None:
        """Errors: Misconfigured for an optimizer with a parameter that nothing attached owns."""
        owners = self._owners()
        if owners is None:
            return
        import torch

        for name, optimizer in self.of_type(torch.optim.Optimizer):
            owners.names([group["params"] for group in optimizer.param_groups], name)

    def _owners(self):
        return owners_of(self._objects.items())

    # -- saving

    def capture(self) -> Capture:
        """The state now. Errors: Misconfigured, naming the path of what cannot be kept."""
        capture = Capture(self._owners())
        for name, adapter in self._adapters.items():
            capture.root(name, adapter)
        capture.root("state", self._state_adapter)
        capture.tree.append(["rng", self.generators.capture()])
        capture.tree.append(["run", self._run_node()])
        return capture

    def remember_groups(self):
        """Functions that put the settings of attached optimizers back as they are now."""
        if "torch" not in sys.modules:
            return []
        import torch

        from unbroken._state.torch_optim import OptimizerAdapter

        return [OptimizerAdapter(optimizer).remember() for _, optimizer in self.of_type(torch.optim.Optimizer)]

    def _run_node(self):
        epochs = [[name, epoch] for name, epoch in self.epochs.items() if name in self._objects]
        return {"dict": [["epoch", self.epoch], ["epochs", {"dict": epochs}]]}

    # -- restoring

    def plan(self, saved: Saved, names=None) -> Plan:
        """How the checkpoint goes into the attached objects, or those of `names`.

        Errors: StateMismatch, Misconfigured.
        """
        plan = Plan(saved, self._owners())
        for name, adapter in self._adapters.items():
            if names is None or name in names:
                plan_root(name, adapter, saved, plan)
        if names is None and "state" in saved.roots:
            self._state_adapter.plan(saved.roots["state"], "state", plan)
        if names is None:
            plan.changed += self.generators.check(saved.roots.get("rng", {"dict": []}))
            plan.then(OBJECTS, self._put_epochs, saved.roots.get("run"))
        plan.prepare()
        return plan

    def _put_epochs(self, run) -> None:
        self.epoch = (run or {}).get("epoch", 0)
        self.epochs = dict((run or {}).get("epochs", {}))

    def restore_generators(self, saved: Saved) -> None:
        """Puts the global generators back; attached ones are part of the plan."""
        if "rng" in saved.roots:
            self.generators.restore(saved.roots["rng"])

    def verify(self, saved: Saved, names=None) -> None:
        """The live state must be the saved one now, by digests. Errors: StateMismatch."""
        capture = self.generators.guard(self.capture)  # asking a loader that has no iterator yet may draw
        adapters = {name: a for name, a in self._adapters.items() if names is None or name in names}
        if names is None:
            adapters["state"] = self._state_adapter
        changed = differences(saved, capture, call(_native.core.digests, capture.tensors), adapters)
        if changed:
            raise StateMismatch(
                f"after loading checkpoint {saved.name}, the live state is not the saved one",
                changed=changed,
                next_command=f"unbroken verify DIR {saved.name}",
            )

    def leftover(self, saved: Saved) -> list[str]:
        """The attach names in the checkpoint that nothing here takes (yet)."""
        return [name for name in saved.roots if name not in self._adapters and name not in OURS]


def owners_of(roots):
    """Who owns which parameter among (name, object) pairs, for optimizers; None without torch."""
    if "torch" not in sys.modules:
        return None
    from unbroken._state.torch_optim import Owners

    return Owners(roots)


def unread_names(saved: Saved, roots) -> list[str]:
    """Every name below some roots of a checkpoint."""
    return [
        tensor_name(leaf) or path for root in roots for path, leaf in flatten(saved.roots[root], segment_of_node(root))
    ]


class Loader:
    """What Session.restore calls back: compares before anything is written, then says where the bytes go.

    After a successful restore `finish` completes the live objects. Bytes that belong to attach names nobody has
    yet are kept for them until `drop`.
    """

    def __init__(self, attached: Attached):
        self._attached = attached
        self.saved: Saved | None = None
        self._plan: Plan | None = None
        self._kept: dict[str, bytearray] = {}
        self._groups: list = []  # put back the settings of optimizers, which a new scheduler overwrites
        self._targets: list = []
        self.has_begun = False  # live objects are being filled: an error leaves them undefined

    def check(self, state) -> None:
        """Errors: StateMismatch or Misconfigured; nothing was written, and the live objects are untouched.

        They are not where an earlier checkpoint turned out to be damaged while it was read; the error says so.
        """
        self.saved = Saved(state, json.loads(state.tree))
        with filling(self.saved.name) if self.has_begun else contextlib.nullcontext():
            self._plan = self._attached.plan(self.saved)
            self._targets = list(self._plan.destinations())
            taken = {name for name, _, _ in self._targets}
            self._kept = {}
            for name, (_, _, nbytes, _) in self.saved.specs.items():
                if name not in taken:
                    self._kept[name] = bytearray(nbytes)
                    self._targets.append((name, _address(self._kept[name]), nbytes))

    def targets(self, state):
        """(name, pointer, nbytes) of every stored tensor. From now on live objects may change."""
        del state
        self.has_begun = True
        return self._targets

    def finish(self) -> list[str]:
        """Completes the objects and proves them equal to the checkpoint; lines worth saying.

        Errors: StateMismatch, with the live objects undefined.
        """
        with filling(self.saved.name):
            return self._finish()

    def _finish(self):
        plan, attached = self._plan, self._attached
        plan.finish()
        for root in attached.leftover(self.saved):
            for name in map(self.saved.canon, tensors_of(self.saved.roots[root])):
                if name not in self._kept:  # tied to what was restored: take it from there, before it moves on
                    self._kept[name] = bytearray(tensors.to_bytes(plan.made(name)))
        attached.restore_generators(self.saved)
        attached.verify(self.saved)
        self._plan, self._targets = None, []
        self._groups = attached.remember_groups()
        return plan.notes

    def late(self, name: str) -> list[str]:
        """Gives an object that was attached after the restore its part. Errors: StateMismatch, as ever."""
        plan = self._attached.plan(self.saved, {name})
        with filling(self.saved.name):
            self._give(name, plan)
        return plan.notes

    def _give(self, name, plan):
        for tensor, pointer, nbytes in plan.destinations():
            if nbytes:
                ctypes.memmove(pointer, _address(self._kept[tensor]), nbytes)
        plan.finish()
        if is_scheduler(self._attached.get(name)):
            for put_back in self._groups:
                put_back()
        self._attached.verify(self.saved, {name})

    def drop(self) -> None:
        """Frees what is kept for late attaches."""
        self._kept, self._groups = {}, []


def is_scheduler(value) -> bool:
    """True for a scheduler of torch."""
    if "torch" not in sys.modules:
        return False
    from unbroken._state.torch_adapters import SchedulerAdapter, adapter_of

    return isinstance(adapter_of(value), SchedulerAdapter)


def _address(buffer: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer)) if buffer else 0
