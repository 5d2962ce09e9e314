"""A checkpoint back into live objects, in three parts.

`plan_root` compares the saved state of one attached object with the live one and changes nothing: what differs is
collected in the plan and raised at once by `prepare`, as one StateMismatch with every name; everything else that can
fail is done there too, memory allocated and values decoded. `destinations` says where the bytes of each tensor belong,
in place where the live tensor is contiguous. `finish` puts everything else into the objects.
"""

from __future__ import annotations

from unbroken._state import tensors
from unbroken._state.taking.capture import Capture
from unbroken._state.compare.classes import name_of
from unbroken._state.compare.placed import Placed
from unbroken._state.compare.settings import Settings
from unbroken._state.dtypes import can_cast, describe
from unbroken._state.names import join, segment_of_node, upwards
from unbroken._state.order import CASTS, OPTIMIZERS
from unbroken._state.permits.ways import Ways, some
from unbroken._state.saved import Saved
from unbroken._state.tree import decode, flatten, kind_of, kind_of_value, leaves_of, pairs_of, tensor_name, text_of
from unbroken.errors import Misconfigured, StateMismatch


class Plan:
    """How the saved state goes into the live objects. Until `prepare` has returned, nothing is touched."""

    def __init__(self, saved: Saved, owners=None, ways: Ways | None = None, left_out=()):
        self.saved, self.owners, self.ways = saved, owners, ways or Ways()
        self._left_out = set(left_out)  # names with all below them, which unread= covers and which do not fit
        self._above = {name for one in left_out for name in upwards(one) if one not in (name, name_of(name))}
        self.cast_from: dict[int, str] = {}  # id of a live tensor -> the saved dtype, where cast= is used
        self.unfilled: dict[int, str] = {}  # id of a live tensor that stays as it is -> what was saved in its place
        self.settings = Settings()
        self._cast: set[str] = set()
        self._homes: dict[str, object] = {}  # stored name -> live tensor whose bytes it is
        self.missing: list[str] = []
        self.unread: list[str] = []
        self.changed: list[tuple[str, str, str]] = []
        self.notes: list[str] = []
        self.is_scheduled = lambda optimizer: False  # something attached may have moved its rates
        self.grown: list[str] = []  # lists of another length, in words
        self._live: dict[str, object] = {}  # stored name -> live tensor that takes the bytes, but for what `fills` took
        self._memory: dict[tuple, str] = {}  # memory of a live tensor -> stored name
        self._pointers: dict[int, str] = {}  # address of a live tensor -> a stored name
        self._direct: dict[str, int] = {}  # stored name -> address, of what `fills` took
        self._make: dict[str, tuple] = {}  # stored name -> (tag, like)
        self._made: dict[str, object] = {}
        self._copies: list = []
        self._destinations: list[tuple] = []
        self.placed = Placed(saved)
        self._steps: list[tuple] = []  # (order, function, nodes), then (order, function, values)
        self.calls_others = False  # code that is neither ours nor torch's has its part in it

    # -- comparing

    def captured(self, adapter, name):
        """The node of a live object, to compare with the saved one."""
        return adapter.capture(Capture(self.owners), name)

    def missing_below(self, value, name):
        """Everything in the live `value` is missing."""
        node = Capture(self.owners).value(value, name)
        self.missing += [leaf_name for leaf_name, _ in flatten(node, name)]

    def unread_below(self, node, name):
        """Everything in the saved `node` is unread; tensors by their own names."""
        self.unread += [tensor_name(leaf) or leaf_name for leaf_name, leaf in flatten(node, name)]

    def setting_of_tensors(self, name, live, node, of: str):
        """A setting (compare/settings.py) that holds tensors: whether it differs is known once they are read."""
        self.settings.may_differ(name, of)
        live = tensors.numbers(live)

        def compare(saved):
            saved = tensors.numbers(saved)
            if saved != live:
                self.settings.differ(name, repr(live), repr(saved))

        self.make(node)
        self.then(OPTIMIZERS, compare, node)

    # -- what ways out leave alone

    def skips(self, name: str) -> bool:
        """True where what is called `name` stays as it is. Asked for leaves."""
        if self.ways.only and not self.ways.only.match(name):
            return True
        return bool(self._left_out) and any(one in self._left_out for one in upwards(name))

    def skips_all(self, node, name: str) -> bool:
        """True where all of the saved `node` stays unread."""
        if not self.ways.only and not self._left_out:
            return False
        return all(self.skips(tensor_name(leaf) or path) for path, leaf in flatten(node, name))

    def skips_part(self, node, name: str) -> bool:
        """True where a part of it stays unread, or something below `name` that is no part of it."""
        if not self.ways.only and not self._left_out:
            return False
        return name in self._above or any(self.skips(tensor_name(leaf) or path) for path, leaf in flatten(node, name))

    def thinned(self, node, name: str):
        """A dict node without the pairs that stay unread."""
        if pairs_of(node) is None or not self.skips_part(node, name):
            return node
        pairs = [(key, item, join(name, segment_of_node(key))) for key, item in pairs_of(node)]
        kept = [[key, self.thinned(item, path)] for key, item, path in pairs if not self.skips_all(item, path)]
        return {"dict": kept} if "dict" in node else {**node, "items": kept}

    def may_lack(self, name: str) -> bool:
        """True where `name` need not be in the checkpoint."""
        return self.skips(name) or bool(self.ways.missing.match(name))

    def ignores(self, name: str) -> bool:
        """True where the live state need not be the saved one after a restore."""
        return name in self._cast or self.may_lack(name)

    def to_leave_out(self) -> set[str]:
        """Names that do not fit and that unread= covers; a plan has to be made anew without them."""
        if not self.ways.unread:
            return set()
        unread = self.ways.unread
        found = [(name, unread) for name in (*self.unread, *(name for name, _, _ in self.changed))]
        found += self.settings.unread(unread)
        return {globs.cover(name) for name, globs in found if not self.skips(name) and globs.match(name)}

    def _settle(self) -> None:
        """Takes away what ways out permit, and notes it."""
        lacking: dict[str, list] = {}
        for name in self.missing:
            glob = self.ways.missing.match(name)
            if glob and not self.skips(name):
                lacking.setdefault(glob, []).append(name)
        where = f"checkpoint {self.saved.name}"
        for glob, names in lacking.items():
            self.notes.append(f"missing={glob!r}: not in {where}, kept as it is: {some(names)}")
        for glob in self.ways.unread.globs:
            names = [name for name in self._left_out if self.ways.unread.match(name) == glob]
            if names:
                self.notes.append(f"unread={glob!r}: not read from {where}: {some(names)}")
        for glob in self.ways.cast.globs:
            names = [name for name in self._cast if self.ways.cast.match(name) == glob]
            if names:
                self.notes.append(f"cast={glob!r}: converted from {where}: {some(names)}")
        if self.saved.changed_names:
            names = [f"{old} as {new}" for old, new in self.saved.changed_names.items()]
            self.notes.append(f"rename=: taken from {where}: {some(names)}")
        if self.ways.only:
            self.notes.append(f"only={self.ways.only.globs}: nothing else is taken from {where}")
        self.missing = [name for name in self.missing if not self.may_lack(name)]
        self.unread = [name for name in self.unread if not self.skips(name)]
        self.changed = [entry for entry in self.changed if not self.skips(entry[0])]

    def differs(self, node, value, name):
        """`value` cannot take `node`."""
        saved, is_tensor = self.saved.describe(node), tensors.is_tensor(value)
        live = tensors.view(value, name, reads=False).text if is_tensor else text_of(value, name)
        if is_tensor == (tensor_name(node) is not None):  # say what sort each side is
            here = "numpy array" if tensors.is_array(value) else "torch tensor"
            here = here if is_tensor else kind_of_value(value, name)
            saved, live = f"{kind_of(node)} {saved}", f"{here} {live}"
        self.changed.append((name, saved, live))

    def fill(self, node, live, name) -> None:
        """The bytes of the tensor in `node` go into the live tensor or array `live`."""
        if self.skips(name):
            self._note_unfilled(node, live)
            return
        composed = tensors.composed(live)
        if composed is not None:
            composed.plan(self, node, live, name)
            return
        view = tensors.view(live, name, reads=False, in_place=True)
        if tensor_name(node) is None or view.tag not in node:
            self.differs(node, live, name)
            return
        canon = self.saved.canon(tensor_name(node))
        dtype, shape, _, _ = self.saved.specs[canon]
        is_cast = shape == view.shape and can_cast(dtype, view.dtype) and bool(self.ways.cast.match(name))
        if (dtype, shape) != (view.dtype, view.shape) and not is_cast:
            self.changed.append((name, describe(dtype, shape), view.text))
            return
        tied = self._pointers.setdefault(view.pointer, canon) if view.memory else canon
        if tied in self._direct:  # to what `fills` took
            self._memory.setdefault(tensors.view(self._homes[tied], tied, reads=False).memory, tied)
        other = self._homes.get(canon)
        if other is not None and tensors.view(other, name, reads=False).memory != view.memory:
            self.changed.append((name, f"{view.text} tied to {canon}", f"{view.text} of its own"))
        elif view.memory and self._memory.setdefault(view.memory, canon) != canon:
            tied_to = self._memory[view.memory]
            self.changed.append((name, f"{view.text} of its own", f"{view.text} tied to {tied_to}"))
        elif is_cast:
            self._homes[canon] = live
            self._cast.add(name)
            self.cast_from[id(live)] = dtype
            self.make(node)
            self.then(CASTS, lambda value: tensors.assign(live, value), node)
        else:
            self._homes[canon] = self._live[canon] = live

    def fills(self, nodes, lives) -> list[int]:
        """As `fill` for those that simply fit; the places of those that want a closer look, and `fill`."""
        found = None if self.ways or self._left_out else tensors.straight(lives)
        if found is None:
            return list(range(len(lives)))
        names = [node.get("tensor") if type(node) is dict else None for node in nodes]
        left, homes, direct, known = [], self._homes, self._direct, self._pointers
        rows = zip(names, map(self.saved.specs.get, names), lives, *found, strict=True)
        for i, (name, spec, live, pointer, dtype, shape) in enumerate(rows):
            fits = pointer and spec and spec[0] == dtype and spec[1] == shape
            if fits and pointer not in known and name not in homes:
                homes[name], direct[name], known[pointer] = live, pointer, name
            else:
                left.append(i)
        return left

    def _note_unfilled(self, node, live):
        if tensor_name(node) is None or tensors.composed(live) is not None:
            return
        dtype, shape = self.saved.spec(tensor_name(node))[:2]
        if (dtype, shape) != tensors.view(live, "", reads=False)[1:3]:
            self.unfilled[id(live)] = describe(dtype, shape)

    def made_as(self, name: str) -> None:
        """What is made for a tensor is converted later; it need not be the saved one then."""
        self._cast.add(name)

    def make(self, node, like=None) -> None:
        """The tensors in `node` become new ones, for `value`. `like(name)`: a hint for tensors.make."""
        for leaf in leaves_of(node):
            name = tensor_name(leaf)
            if name is not None:
                tag = "tensor" if "tensor" in leaf else "array"
                self._make.setdefault(self.saved.canon(name), (tag, like(name) if like else None))

    def then(self, order: int, function, *nodes) -> None:
        """Calls `function` with the objects of `nodes` once the bytes are there; the smaller `order` comes first.

        Their tensors are those that fill and make arranged for.
        """
        self._steps.append((order, function, nodes))

    def prepare(self) -> None:
        """Raises what differs, and does everything else that can fail: afterwards the bytes may come."""
        self._settle()
        if self.missing or self.unread or self.changed:
            grown = "; ".join(self.grown[:3])
            raise StateMismatch(
                f"checkpoint {self.saved.name} does not fit what is attached"
                + (f": {grown}; what grows belongs in run.state, which takes any length" if grown else ""),
                self.missing,
                self.unread,
                self.changed,
                f"unbroken show DIR {self.saved.name}",
            )
        specs, direct = self.saved.specs, self._direct
        new = {name: how for name, how in self._make.items() if name not in self._live and name not in direct}
        rest = self._live | {name: tensors.make(tag, *specs[name][:2], like) for name, (tag, like) in new.items()}
        self._made = self._homes | rest
        self._destinations = [(name, pointer, specs[name][2]) for name, pointer in direct.items()]
        self.placed.names = {pointer: name for name, pointer in direct.items()}
        for name, (pointer, copy) in zip(rest, tensors.destinations(list(rest.values())), strict=True):
            if copy is not None:
                self._copies.append(copy)
            elif name in self._live:
                self.placed.names[pointer] = name
            self._destinations.append((name, pointer, specs[name][2]))
        self._steps = [(order, f, [self._value(node) for node in nodes]) for order, f, nodes in self._steps]

    def _value(self, node):
        return decode(node, lambda tag, name: tensors.as_plain(self._made[self.saved.canon(name)]))

    # -- carrying out

    def destinations(self) -> list[tuple]:
        """(name, pointer, nbytes) of every tensor that is wanted."""
        return self._destinations

    def in_place(self, before: dict[int, str]) -> dict[int, str]:
        """{address: stored name} of the live memory that is read into, with that of `before`: of the checkpoints that
        turned out to be damaged while they were read. Errors: StateMismatch where some of it is not written over."""
        left = [name for address, name in before.items() if address not in self.placed.names]
        if left:
            raise StateMismatch(
                f"checkpoint {self.saved.name} has nothing for what was read of a damaged one",
                missing=left,
                next_command="unbroken verify DIR",
            )
        return self.placed.names

    def made(self, name: str):
        """The live or new tensor of a stored tensor."""
        return self._made[name]

    def finish(self) -> None:
        """After the bytes arrived: strided and device tensors, then everything else in order."""
        self.placed.finish(bool(self._copies or self._cast or self.calls_others))
        for copy in self._copies:
            copy()
        self._copies.clear()
        for _, function, values in sorted(self._steps, key=lambda step: step[0]):
            function(*values)
        self._steps.clear()
        self.notes[:0] = self.settings.lines(self.skips, self.saved.name)


def plan_root(name, adapter, saved: Saved, plan: Plan) -> None:
    """Plans one attached object."""
    path = segment_of_node(name)
    if name not in saved.roots:
        plan.missing += missing_names(name, adapter, plan.owners)
        return
    if plan.skips_all(saved.roots[name], path):
        return
    adapter.plan(saved.roots[name], path, plan)


def missing_names(name, adapter, owners) -> list[str]:
    """The names of the state of a live object, for messages."""
    path = segment_of_node(name)
    try:
        node = adapter.capture(Capture(owners), path)
    except Misconfigured:
        return [path]
    return [tensor_name(leaf) or leaf_name for leaf_name, leaf in flatten(node, path)]
