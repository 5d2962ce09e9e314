"""Everything that is part of a run's state, by attach name: what a user attached, `state`, `rng` and `run`."""

from __future__ import annotations

import ctypes
import json
import sys

from unbroken._state import tensors
from unbroken._native import call
from unbroken._state.accumulation import Accumulation
from unbroken._state.adapters import placed, rich_leaves
from unbroken._state.taking.capture import Capture
from unbroken._state.containers import ContainerAdapter, StateAdapter, root_adapter
from unbroken._state.compare.classes import classes_of, name_of, plan_classes
from unbroken._state.compare.differences import differences
from unbroken._state.compare.exactness import Exactness
from unbroken.errors import Filling, Misconfigured, StateMismatch
from unbroken._state.generators import GlobalGenerators
from unbroken._state.names import segment_of_node
from unbroken._state.order import GENERATORS
from unbroken._state.plan import Plan, missing_names, plan_root
from unbroken._state.saved import Saved
from unbroken._state.tree import encode, flatten, tensor_name, tensors_of
from unbroken._state.permits.ways import Ways, some
from unbroken._state.taking.memory import Memory

OURS = ("rng", "run", "state")


class Attached:
    """The registry. `digests` makes those of tensors, as the core does. Threads: the trainer's."""

    def __init__(self, digests, ways: Ways | None = None, follows: bool = True):
        self.ways = ways or Ways()
        self._follows = follows  # checkpoints are of this run: what they say was carried out, was
        self.parent: str | None = None  # "1200.a3 of run <uuid>", where the run began from a checkpoint of another one
        self._done: list[str] = []  # ways out that this life and those before it were given
        self.state: dict = {}
        self.epoch = 0
        self.epochs: dict[str, int] = {}  # by the name of a loader
        self.accumulation = Accumulation()
        self.late: set[str] = set()  # names that were attached after the restore
        self.generators = GlobalGenerators()
        self.exactness = Exactness(digests)
        self._digests = digests
        self._is_checked = False  # the globs of the ways out name something
        self._objects: dict[str, object] = {}
        self._adapters: dict[str, object] = {}
        self._state_adapter = StateAdapter(self.state)
        self._memory = Memory()

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
        if type(value) is not dict or not tensors.are_whole(list(value.values())):
            for path, tensor in placed(value, segment_of_node(name)):
                tensors.check_in_place(tensor, path)
        self._objects[name], self._adapters[name] = value, adapter

    def remove(self, name: str) -> None:
        """Undoes `add`."""
        del self._objects[name], self._adapters[name]
        self.late.discard(name)

    @property
    def objects(self) -> dict:
        """What is attached, by name."""
        return dict(self._objects)

    def name_of(self, value) -> str | None:
        """The name under which an object is attached."""
        return next((name for name, other in self._objects.items() if other is value), None)

    def of_type(self, kind, objects=None):
        """(name, object) of all attached objects of a type, also of those in attached dicts and lists. `objects`: of these."""
        for name, value in (self._objects if objects is None else objects).items():
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

    def capture(self, may_wait=None, reads=True) -> Capture:
        """The state now. Errors: Misconfigured, naming the path of what cannot be kept."""
        capture = Capture(self._owners(), may_wait, reads)
        parts = self._memory.begin(capture, {segment_of_node(name): adapter for name, adapter in self._adapters.items()})
        bare = {name for name, one in self._adapters.items() if isinstance(one, ContainerAdapter) and segment_of_node(name) in parts}
        capture.objects = {name: value for name, value in self._objects.items() if name not in bare}
        for name, adapter in self._adapters.items():
            capture.root(name, adapter)
        capture.root("state", self._state_adapter)
        capture.tree.append(["rng", self.generators.capture()])
        capture.tree.append(["run", self._run_node(capture.objects, self.exactness.take(capture.objects))])
        return capture

    def _capture_of(self, adapters) -> Capture:
        capture = Capture(self._owners())
        for name, adapter in adapters.items():
            capture.root(name, adapter)
        return capture

    def names(self) -> list[str]:
        """Of every part of the live state."""
        owners, parts = self._owners(), [*self._adapters.items(), ("state", self._state_adapter)]
        names = [n for name, adapter in parts for n in missing_names(name, adapter, owners)]
        return names + [*map(name_of, classes_of(self._objects))]

    def remember_groups(self):
        """Functions that put the settings of attached optimizers back as they are now."""
        if "torch" not in sys.modules:
            return []
        import torch

        from unbroken._state.torch.optim import OptimizerAdapter

        return [OptimizerAdapter(optimizer).remember() for _, optimizer in self.of_type(torch.optim.Optimizer)]

    def _run_node(self, objects, exactness):
        epochs = [[name, epoch] for name, epoch in self.epochs.items() if name in self._objects]
        pairs = [["epoch", self.epoch], ["epochs", {"dict": epochs}]]
        done = list(dict.fromkeys([*self._done, *self.ways.texts()]))
        pairs += self.accumulation.pairs()
        pairs += [["ways", done]] if done else []
        pairs += [["parent", self.parent]] if self.parent else []
        pairs += [["late", sorted(self.late)]] if self.late else []
        pairs += [["exactness", exactness]] if exactness else []
        classes = classes_of(objects)
        pairs += [["classes", encode(classes)]] if classes else []
        return {"dict": pairs}

    def begin_fresh(self) -> None:
        """Nothing is restored; what lives after this one find was given from the beginning."""
        self._done = self.ways.texts()

    # -- restoring

    def plan(self, saved: Saved, names=None, is_complete=False) -> Plan:
        """How the checkpoint goes into the attached objects, or those of `names`. `is_complete`: nothing will be attached
        later, but for what was late in the life that saved it.

        Errors: StateMismatch, Misconfigured.
        """
        owners, ways, left_out = self._owners(), self.ways, set()
        unread = self.unread(saved, saved.run.get("late", [])) if is_complete else []
        if ways:
            done = self._carried_out(saved)
            if names is None or not self._is_checked:
                here = self.generators.guard(self.names)  # asking a loader that has no iterator yet may draw
                ways.check([*here, *saved.names()], done, saved.name)
                self._is_checked = True
            ways, saved = ways.left(done), self.here(saved)
        while True:
            plan = Plan(saved, owners, ways, left_out)
            self._compare(plan, names)
            more = plan.to_leave_out()
            if not more:
                break
            left_out |= more
        plan.unread += unread
        plan.prepare()
        plan.notes += self.exactness.differences(saved.run.get("exactness"), self._objects, names, plan.skips)
        return plan

    def _carried_out(self, saved: Saved) -> list[str]:
        return list(saved.run.get("ways", [])) if self._follows else []

    def here(self, saved: Saved) -> Saved:
        """The checkpoint with the names that rename= gives it here."""
        renames = self.ways.rename
        renames = renames.without(self._carried_out(saved)) if renames else renames
        return saved.renamed(renames) if renames else saved

    def _compare(self, plan: Plan, names) -> None:
        saved = plan.saved
        plan.is_scheduled = self._schedules(plan)
        # Optimizers last: their state follows the parameters.
        for name, adapter in sorted(self._adapters.items(), key=lambda item: _is_optimizer(item[0])):
            if names is None or name in names:
                plan_root(name, adapter, saved, plan)
                plan_classes({name: self._objects[name]}, plan)
        if names is not None:
            return
        if "state" in saved.roots:
            self._state_adapter.plan(saved.roots["state"], "state", plan)
        rng, run = saved.roots.get("rng", {"dict": []}), saved.roots.get("run")
        if not plan.skips_all(rng, "rng"):
            rng = plan.thinned(rng, "rng")
            plan.changed += self.generators.check(rng)
            plan.then(GENERATORS, lambda: self.generators.restore(rng))
        if run is not None and not plan.ways.only:
            plan.then(GENERATORS, self._put_run, run)

    def _schedules(self, plan: Plan):
        """Tells of an optimizer whether something attached steers it, or something that will be attached may."""
        leaves = [leaf for value in self._objects.values() for leaf in rich_leaves(value)]
        steps = [leaf for leaf in leaves if callable(getattr(type(leaf), "step", None))]
        steered = {id(getattr(leaf, "__dict__", {}).get("optimizer")) for leaf in steps}
        later = [n for n in self.leftover(plan.saved) if not plan.ways.unread.match(segment_of_node(n))]
        paths = [path for name in later for path, _ in flatten(plan.saved.roots[name])]
        may_come = any("_last_lr" in path.split(".") for path in paths)  # the state of a scheduler of torch
        return lambda optimizer: may_come or id(optimizer) in steered

    def _put_run(self, run) -> None:
        self.epoch = run.get("epoch", 0)
        self.epochs = dict(run.get("epochs", {}))
        self.parent = run.get("parent")
        self.accumulation.restore(run)

    def _unread_paths(self, saved: Saved, roots):
        ways = self.ways.left(self._carried_out(saved))
        names = unread_names(self.here(saved), roots)
        if ways.only:
            names = [name for name in names if ways.only.match(name)]
        return names, [name for name in names if not ways.unread.match(name)]

    def unread(self, saved: Saved, late=()) -> list[str]:
        """The names in the checkpoint that nothing here takes, and no way out permits to leave. Those below the attach
        names of `late` may still be taken."""
        return self._unread_paths(saved, [name for name in self.leftover(saved) if name not in late])[1]

    def notes_on_leftover(self, saved: Saved) -> list[str]:
        """What unread= left, where nothing was attached for it."""
        names, left = self._unread_paths(saved, self.leftover(saved))
        names = set(names) - set(left)
        return [f"unread=: not read from checkpoint {saved.name}: {some(names)}"] if names else []

    def remember_ways(self, saved: Saved) -> None:
        """The checkpoint was restored: later ones say what lives before carried out."""
        self._done = list(dict.fromkeys([*self._carried_out(saved), *self.ways.texts()]))

    def verify(self, plan: Plan, names=None) -> None:
        """The live state must be the saved one now, by digests, but for what is known to be; where no foreign code was called
        and no memory is shared, only what went through a load_state_dict is looked at. Errors: StateMismatch."""
        saved, is_sure = plan.saved, plan.placed.is_sure
        adapters = {name: a for name, a in self._adapters.items() if names is None or name in names}
        if is_sure:
            adapters = {name: a for name, a in adapters.items() if not a.is_placed}
        elif names is None:
            adapters["state"] = self._state_adapter
        # asking a loader that has no iterator yet may draw
        capture = self.generators.guard(lambda: self._capture_of(adapters) if is_sure else self.capture())
        digests = {entry[0]: saved.spec(entry[0])[3] for entry in capture.tensors if plan.placed.holds(entry)}
        others = [entry for entry in capture.tensors if entry[0] not in digests]
        digests |= zip((entry[0] for entry in others), call(self._digests, others) if others else (), strict=True)
        changed = differences(saved, capture, digests, adapters, plan.ignores)
        if changed:
            raise StateMismatch(
                f"after loading checkpoint {saved.name}, the live state is not the saved one",
                changed=changed,
                next_command=f"unbroken verify DIR {saved.name}",
            )

    def leftover(self, saved: Saved) -> list[str]:
        """The attach names in the checkpoint, as `here` names them, that nothing takes (yet)."""
        return [name for name in self.here(saved).roots if name not in self._adapters and name not in OURS]


def owners_of(roots):
    """Who owns which parameter among (name, object) pairs, for optimizers; None without torch."""
    if "torch" not in sys.modules:
        return None
    from unbroken._state.torch.optim import Owners

    return Owners((attach, name, tensor) for attach, value in roots for name, tensor in placed(value, ""))


def unread_names(saved: Saved, roots) -> list[str]:
    """Every name below some roots of a checkpoint."""
    return [
        tensor_name(leaf) or path for root in roots for path, leaf in flatten(saved.roots[root], segment_of_node(root))
    ]


class Restoring:
    """What Session.restore calls back: compares before anything is written, then says where the bytes go.

    After a successful restore `finish` completes the live objects. Bytes that belong to attach names nobody has
    yet are kept for them until `drop`.
    """

    def __init__(self, attached: Attached, is_complete: bool):
        self._attached, self._is_complete = attached, is_complete
        self.saved: Saved | None = None
        self._plan: Plan | None = None
        self._kept: dict[str, bytearray] = {}
        self._groups: list = []  # put back the settings of optimizers, which a new scheduler overwrites
        self._targets: list = []
        self.filling = Filling()
        self._filled: dict[int, str] = {}  # what of them: Plan.in_place

    def check(self, state) -> None:
        """Errors: StateMismatch or Misconfigured; nothing was written, and the live objects are untouched.

        They are not where an earlier checkpoint turned out to be damaged while it was read; the error says so.
        """
        self.saved = Saved(state, json.loads(state.tree))
        self._plan = self._attached.plan(self.saved, is_complete=self._is_complete)
        self._plan.in_place(self._filled)
        self._targets = list(self._plan.destinations())
        taken = {name for name, _, _ in self._targets}
        self._kept = {}
        for name, (_, _, nbytes, _) in self.saved.specs.items():
            if name not in taken:  # for what is attached later
                self._kept[name] = bytearray(nbytes)
                self._targets.append((name, _address(self._kept[name]), nbytes))

    def targets(self, state):
        """(name, pointer, nbytes) of every stored tensor. From now on live objects may change."""
        del state
        self.filling.begin(self.saved.name)
        self._filled = self._plan.in_place(self._filled)
        return self._targets

    def finish(self) -> list[str]:
        """Completes the objects and proves them equal to the checkpoint; lines worth saying.

        Errors: StateMismatch, with the live objects undefined.
        """
        with self.filling:
            return self._finish()

    def _finish(self):
        plan, attached = self._plan, self._attached
        plan.finish()
        for root in attached.leftover(self.saved):
            for name in map(plan.saved.canon, tensors_of(plan.saved.roots[root])):
                if name not in self._kept:  # tied to what was restored: take it from there, before it moves on
                    self._kept[name] = bytearray(tensors.to_bytes(plan.made(name)))
        attached.verify(plan)
        attached.remember_ways(self.saved)
        self._plan, self._targets = None, []
        self._groups = attached.remember_groups()
        return plan.notes

    def late(self, name: str, value, is_loader: bool) -> list[str]:
        """Gives an object that was attached after the restore its part. Errors: StateMismatch, as ever."""
        if is_loader and name not in self.saved.roots:
            return []  # a phase that begins now
        plan = self._attached.plan(self.saved, {name})
        with self.filling:
            self._give(name, value, plan)
        return plan.notes

    def _give(self, name, value, plan):
        for tensor, pointer, nbytes in plan.destinations():
            if nbytes:
                ctypes.memmove(pointer, _address(self._kept[tensor]), nbytes)
        plan.finish()
        if is_scheduler(value):
            for put_back in self._groups:
                put_back()
        self._attached.verify(plan, {name})

    def check_taken(self) -> None:
        """A step is complete, or the state is to be saved. Errors: StateMismatch for what nothing was attached for."""
        unread = self._attached.unread(self.saved)
        if unread:
            raise StateMismatch(
                f"checkpoint {self.saved.name} holds what nothing was attached for. This attempt has begun, and the live objects "
                "hold what was read; it saved nothing, and a script that attaches the rest goes on from that checkpoint",
                unread=unread,
                next_command=f"unbroken show DIR {self.saved.name}",
            )

    def end(self) -> list[str]:
        """The first step is complete: frees what is kept for late attaches; lines worth saying. Errors: as check_taken."""
        self.check_taken()
        self._kept, self._groups = {}, []
        return self._attached.notes_on_leftover(self.saved)


def _is_optimizer(adapter) -> bool:
    return type(adapter).__name__ == "OptimizerAdapter"  # its module needs torch


def is_scheduler(value) -> bool:
    """True for a scheduler of torch."""
    if "torch" not in sys.modules:
        return False
    from unbroken._state.torch.adapters import SchedulerAdapter, adapter_of

    return isinstance(adapter_of(value), SchedulerAdapter)


def _address(buffer: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer)) if buffer else 0
