"""Objects to tensors and a tree, and back in place.

Capture: every attached object is walked; its tensors get names, its other state becomes nodes of the tree
(tree.py). Two names of the same memory (storage, offset, shape, strides) are kept once, with an alias.

Plan: the way back, in three parts. `plan` compares the saved state with the live objects and changes nothing: what
differs is collected in the plan and raised at once, as one StateMismatch with every name, and everything else that
can fail is done there too, memory allocated and values decoded. `destinations` says where the bytes of each tensor
belong, in place where the live tensor is contiguous. `finish` puts everything else into the objects.

An *adapter* (adapters.py) knows one sort of object:
    capture(capture, name) -> node
    plan(node, name, plan)           compares, calls plan.fill / make / then
    is_exact, is_exact_tree          after a restore the tensors (the tree) must be the saved ones again
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import contextmanager
from copy import copy as copy_of

from unbroken._state import tensors
from unbroken.errors import Misconfigured, StateMismatch
from unbroken._state.names import CONTROL, NAME_BYTES_MAX, canonical, join, segment_of_node
from unbroken._state.permits.rename import Renamed
from unbroken._state.tree import NOT_A_LEAF, Encoder, decode, encode, flatten, kind_of, pairs_of, refuse, tensor_name, text
from unbroken._state.permits.ways import Ways, some

#: when what is put back (Plan.then): later ones see what earlier ones did
CASTS, CONTAINERS, MODULES, OPTIMIZERS, SCHEDULERS, OBJECTS, GENERATORS = range(7)


class Capture:
    """The state at one moment. `tensors`: tuples for the core; `aliases`: (name, of); `tree`: pairs of the root.

    `keep` holds what the pointers in `tensors` point into. Errors: Misconfigured, naming the path.
    """

    def __init__(self, owners=None):
        self.owners = owners  # names of parameters, for optimizers
        self.tensors: list[tuple] = []
        self.aliases: list[tuple[str, str]] = []
        self.inexact: set[str] = set()  # names whose owner does not promise to give them back unchanged
        self.is_exact = True
        self._in_place, self._anew = True, False
        self.like = None  # the parameter whose state is taken; what is composed like it can be made anew
        self.keep: list = []
        self.tree: list = []
        self._names: set[str] = set()
        self._by_memory: dict[tuple, str] = {}
        self.encoder = Encoder(self._leaf)

    @contextmanager
    def as_(self, in_place: bool, anew: bool, is_exact: bool = True):
        """What is taken meanwhile goes back into the memory it is in, or is made anew, or either."""
        before = self._in_place, self._anew, self.is_exact
        self._in_place, self._anew, self.is_exact = in_place, anew, is_exact and self.is_exact
        yield
        self._in_place, self._anew, self.is_exact = before

    def root(self, name: str, adapter) -> None:
        """Takes the object of `adapter` under the attach name `name`."""
        self.encoder._depth = 1
        self.is_exact = adapter.is_exact
        self.tree.append([name, adapter.capture(self, segment_of_node(name))])

    def value(self, value, name: str):
        """The node of any value; its tensors are taken."""
        return self.encoder.encode(value, name)

    def pairs(self, pairs, name: str):
        """A dict node of (key, value) pairs of plain keys."""
        marker = []
        self.encoder.enter(marker, name)
        node = {"dict": [self.encoder.pair(key, value, name) for key, value in pairs]}
        self.encoder.leave(marker)
        return node

    def tensor(self, value, name: str):
        """The node of a tensor or an array, which is taken."""
        composed = tensors.composed(value)
        if composed is not None:
            if self._anew and type(value) is not type(self.like):
                kind = f"{type(value).__module__}.{type(value).__qualname__}"
                raise refuse(name, f"{kind} can be restored in place only: attach what owns it", "run.attach(NAME=...)")
            return composed.capture(self, value, name)
        if name in self._names:
            raise refuse(name, "two parts of the state have this name")
        if len(name) * 4 > NAME_BYTES_MAX and len(name.encode()) > NAME_BYTES_MAX:
            raise refuse(name, f"the name is longer than {NAME_BYTES_MAX} bytes")
        if not name.isprintable() and CONTROL.search(name):
            raise refuse(ascii(name), "the name holds a control character: rename the parameter or buffer")
        view = tensors.view(value, name, True, self._in_place, self._anew)
        self._names.add(name)
        if not self.is_exact:
            self.inexact.add(name)
        first = self._by_memory.setdefault(view.memory, name) if view.memory else name
        if first != name:
            self.aliases.append((name, first))
        else:
            self.tensors.append((name, view.dtype, view.shape, view.strides, view.pointer, view.nbytes))
            self.keep.append(view.owner)
        return {view.tag: name}

    def _leaf(self, value, name):
        from unbroken._state.adapters import adapter_of

        if tensors.is_tensor(value):
            return self.tensor(value, name)
        adapter = adapter_of(value)
        if adapter is None:
            return NOT_A_LEAF
        if self._anew:
            kind = type(value)
            raise refuse(
                name,
                f"{kind.__module__}.{kind.__qualname__} could only come back as a dict here: attach it under a name",
                "run.attach(NAME=...)",
            )
        before, self.is_exact = self.is_exact, self.is_exact and adapter.is_exact
        node = adapter.capture(self, name)
        self.is_exact = before
        return node

    def scalars(self) -> list[tuple[str, str]]:
        """(name, canonical JSON) of everything that is no tensor, for a drill."""
        leaves = (pair for root, tree in self.tree for pair in flatten(tree, segment_of_node(root)))
        return [(name, canonical(node)) for name, node in leaves if tensor_name(node) is None]

    def node(self, name: str):
        """The node of a root, or None."""
        return next((node for key, node in self.tree if key == name), None)


class Saved:
    """A checkpoint as the core describes it: `.specs` name -> (dtype, shape, nbytes, digest), `.roots` in order."""

    def __init__(self, state, tree):
        self.step, self.attempt, self.name, self.uuid = state.step, state.attempt, state.name, state.run
        self.specs = {
            name: (dtype, tuple(shape), nbytes, digest) for name, dtype, shape, nbytes, digest in state.tensors
        }
        self.aliases = dict(state.alias)
        self.roots = {key: node for key, node in pairs_of(tree) or ()}
        self.changed_names: dict[str, str] = {}  # saved name -> name here, of tensors that rename= concerns

    @property
    def run(self) -> dict:
        """What the checkpoint says of the run itself: epochs, what lives before carried out."""
        node = self.roots.get("run")
        return decode(node) if pairs_of(node) is not None else {}

    def renamed(self, renames) -> Saved:
        """The same state under other names."""
        new = Renamed(renames, self)
        saved = copy_of(self)
        saved.roots, saved.aliases = new.roots, {**self.aliases, **new.aliases}
        saved.changed_names = new.changed
        return saved

    def names(self) -> list[str]:
        """Of every leaf; tensors by their own."""
        return [
            tensor_name(leaf) or path for root, node in self.roots.items() for path, leaf in flatten(node, segment_of_node(root))
        ]

    def canon(self, name: str) -> str:
        """The name under which the bytes of `name` are stored."""
        return self.aliases.get(name, name)

    def spec(self, name: str):
        """(dtype, shape, nbytes, digest) of a tensor or an alias."""
        return self.specs[self.canon(name)]

    def describe(self, node) -> str:
        """A node as one side of a difference: F32[3,4], or a value."""
        name = tensor_name(node)
        if name is None:
            return text(node)
        dtype, shape, _, _ = self.spec(name)
        return tensors.describe(dtype, shape)


_FLOATS = {"F16", "BF16", "F32", "F64", "F8_E5M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}
_INTEGERS = {"U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"}
_COMPLEX = {"C64", "C128"}


def can_cast(saved: str, live: str) -> bool:
    """True where values of one dtype can become values of another one without changing their sort."""
    if saved == live:
        return False
    sorts = ((_FLOATS, _FLOATS), (_INTEGERS, _INTEGERS), (_COMPLEX, _COMPLEX), (_FLOATS, _COMPLEX))
    return any(saved in a and live in b for a, b in sorts)


def kind_of_value(value, name: str) -> str:
    """tree.kind_of for a live value that is no tensor; for an object with a state of its own, its class."""
    kind = type(value)
    if kind in (list, tuple, dict, OrderedDict, Counter, set, frozenset):
        return kind.__name__
    if kind is deque:
        return "deque" if value.maxlen is None else f"deque of at most {value.maxlen}"
    if kind is defaultdict:
        return "defaultdict" if value.default_factory is None else "defaultdict with a factory"
    try:
        return kind_of(encode(value, name))
    except Misconfigured:
        return f"{kind.__module__}.{kind.__qualname__}"


class Plan:
    """How the saved state goes into the live objects. Until `prepare` has returned, nothing is touched."""

    def __init__(self, saved: Saved, owners=None, ways: Ways | None = None, left_out=()):
        self.saved, self.owners, self.ways = saved, owners, ways or Ways()
        self._left_out = set(left_out)  # names with all below them, which unread= covers and which do not fit
        self.cast_from: dict[int, str] = {}  # id of a live tensor -> the saved dtype, where cast= is used
        self.unfilled: dict[int, str] = {}  # id of a live tensor that stays as it is -> what was saved in its place
        self._settings: list[tuple[str, str]] = []  # (name, what to say)
        self._cast: set[str] = set()
        self._homes: dict[str, object] = {}  # stored name -> live tensor whose bytes it is
        self.missing: list[str] = []
        self.unread: list[str] = []
        self.changed: list[tuple[str, str, str]] = []
        self.notes: list[str] = []
        self._live: dict[str, object] = {}  # stored name -> live tensor that takes the bytes
        self._memory: dict[tuple, str] = {}  # memory of a live tensor -> stored name
        self._make: dict[str, tuple] = {}  # stored name -> (tag, like)
        self._made: dict[str, object] = {}
        self._copies: list = []
        self._destinations: list[tuple] = []
        self._steps: list[tuple] = []  # (order, function, nodes), then (order, function, values)

    # -- comparing

    def missing_below(self, value, name):
        """Everything in the live `value` is missing."""
        node = Capture(self.owners).value(value, name)
        self.missing += [leaf_name for leaf_name, _ in flatten(node, name)]

    def unread_below(self, node, name):
        """Everything in the saved `node` is unread; tensors by their own names."""
        self.unread += [tensor_name(leaf) or leaf_name for leaf_name, leaf in flatten(node, name)]

    def setting(self, name, live: str, saved: str):
        """A setting of the script that differs: the checkpoint's is used, and that is said."""
        where = f"{saved} in checkpoint {self.saved.name}"
        self._settings.append((name, f"{name} is {live} in the script and {where}: {saved} is used"))

    # -- what ways out leave alone

    def skips(self, name: str) -> bool:
        """True where what is called `name` stays as it is. Asked for leaves."""
        if self.ways.only and not self.ways.only.match(name):
            return True
        return bool(self._left_out) and any(name == one or name.startswith(one + ".") for one in self._left_out)

    def skips_all(self, node, name: str) -> bool:
        """True where all of the saved `node` stays unread."""
        if not self.ways.only and not self._left_out:
            return False
        return all(self.skips(tensor_name(leaf) or path) for path, leaf in flatten(node, name))

    def skips_part(self, node, name: str) -> bool:
        """True where a part of it stays unread, or something below `name` that is no part of it."""
        if not self.ways.only and not self._left_out:
            return False
        below = any(one.startswith(name + ".") for one in self._left_out)
        return below or any(self.skips(tensor_name(leaf) or path) for path, leaf in flatten(node, name))

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
        names = [*self.unread, *(name for name, _, _ in self.changed), *(name for name, _ in self._settings)]
        return {self.ways.unread.cover(name) for name in names if not self.skips(name) and self.ways.unread.match(name)}

    def _settle(self) -> None:
        """Takes away what ways out permit, and notes it."""
        lacking: dict[str, list] = {}
        for name in self.missing:
            glob = self.ways.missing.match(name)
            if glob and not self.skips(name):
                lacking.setdefault(glob, []).append(name)
        where = f"checkpoint {self.saved.name}"
        self.notes += [text for name, text in self._settings if not self.skips(name)]
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
        live = tensors.view(value, name, reads=False).text if is_tensor else repr(value)[:80]
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
            self.changed.append((name, tensors.describe(dtype, shape), view.text))
            return
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

    def _note_unfilled(self, node, live):
        if tensor_name(node) is None or tensors.composed(live) is not None:
            return
        dtype, shape = self.saved.spec(tensor_name(node))[:2]
        if (dtype, shape) != tensors.view(live, "", reads=False)[1:3]:
            self.unfilled[id(live)] = tensors.describe(dtype, shape)

    def made_as(self, name: str) -> None:
        """What is made for a tensor is converted later; it need not be the saved one then."""
        self._cast.add(name)

    def make(self, node, like=None) -> None:
        """The tensors in `node` become new ones, for `value`. `like(name)`: a hint for tensors.make."""
        for _, leaf in flatten(node):
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
            raise StateMismatch(
                f"checkpoint {self.saved.name} does not fit what is attached",
                self.missing,
                self.unread,
                self.changed,
                f"unbroken show DIR {self.saved.name}",
            )
        for name, (dtype, shape, nbytes, _) in self.saved.specs.items():
            if name in self._live:
                target = self._live[name]
            elif name in self._make:
                tag, like = self._make[name]
                target = tensors.make(tag, dtype, shape, like)
            else:
                continue
            self._made[name] = target
            pointer, copy = tensors.destination(target)
            if copy is not None:
                self._copies.append(copy)
            self._destinations.append((name, pointer, nbytes))
        self._steps = [(order, f, [self._value(node) for node in nodes]) for order, f, nodes in self._steps]

    def _value(self, node):
        return decode(node, lambda tag, name: tensors.as_plain(self._made[self.saved.canon(name)]))

    # -- carrying out

    def destinations(self) -> list[tuple]:
        """(name, pointer, nbytes) of every tensor that is wanted."""
        return self._destinations

    def made(self, name: str):
        """The live or new tensor of a stored tensor."""
        return self._made[name]

    def finish(self) -> None:
        """After the bytes arrived: strided and device tensors, then everything else in order."""
        for copy in self._copies:
            copy()
        self._copies.clear()
        for _, function, values in sorted(self._steps, key=lambda step: step[0]):
            function(*values)
        self._steps.clear()


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


def differences(saved: Saved, capture: Capture, digests, adapters, ignores) -> list[tuple[str, str, str]]:
    """(name, saved, live) of what came back otherwise than it was saved; `digests` are those of the capture.

    `ignores(name)`: that one need not be the saved one.
    """
    changed = []
    live = {entry[0]: digest for entry, digest in zip(capture.tensors, digests, strict=True)}
    for name, node in capture.tree:
        adapter = adapters.get(name)
        if adapter is None or name not in saved.roots:
            continue
        if adapter.is_exact:
            changed += _tensor_differences(saved, node, live, capture)
        if adapter.is_exact_tree and node != saved.roots[name]:
            changed += _tree_differences(saved, saved.roots[name], node, segment_of_node(name))
    return [entry for entry in changed if not ignores(entry[0])]


def _tensor_differences(saved, node, live, capture):
    aliases = dict(capture.aliases)
    for _, leaf in flatten(node):
        name = tensor_name(leaf)
        if name is None or name in capture.inexact:
            continue
        canon = aliases.get(name, name)
        stored = saved.canon(name)
        if stored not in saved.specs:
            yield name, "nothing", "a tensor"
        elif live[canon] != saved.specs[stored][3]:
            yield name, f"digest {saved.specs[stored][3]}", f"digest {live[canon]} after loading"


def _tree_differences(saved, before, after, name):
    left = dict(flatten(before, name))
    right = dict(flatten(after, name))
    for key in left.keys() | right.keys():
        if left.get(key, NotImplemented) != right.get(key, NotImplemented):
            yield key, _text(left, key), _text(right, key) + " after loading"


def _text(side, key):
    return text(side[key]) if key in side else "nothing"
