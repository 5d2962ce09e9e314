"""`load`: a checkpoint for evaluation. It writes no more than a pin, never fences, and never runs any code of a file."""

from __future__ import annotations

import contextlib
import fnmatch
import importlib.util
import json
import sys
import warnings

from unbroken import _native
from unbroken._state import tensors
from unbroken._native import call
from unbroken._state.attached import Attached, is_scheduler
from unbroken._state.plan import Plan
from unbroken._state.saved import Saved
from unbroken._state.dtypes import bits_of, describe
from unbroken.errors import (
    CorruptCheckpoint,
    Error,
    Filling,
    Misconfigured,
    StateMismatch,
    StorageUnavailable,
    naming,
    say,
)
from unbroken.options import checked_at, checked_bool, checked_path
from unbroken._state.names import segment_of_node
from unbroken._state.tree import decode, flatten, leaves_of, numpy_dtype, tensor_name
from unbroken._state.permits.ways import Globs, Ways, globs_of, matches_nothing


_OTHERWISE = "load another checkpoint into them, or make them anew"


class Checkpoint(dict):
    """What `load` returns, a dict: the state in the shape that was attached, {"model": {"fc.weight": tensor, ...}, ...}.

    `.step`, `.attempt`, `.name` ("1200.a3"), `.run` (the UUID of the run it is of); `.fell_back`: damaged checkpoints
    that were passed over, each {"name", "object", "what"}.
    """

    def __init__(self, content, saved: Saved, fell_back):
        super().__init__(content)
        self.step, self.attempt, self.name, self.run = saved.step, saved.attempt, saved.name, saved.uuid
        self.fell_back = list(fell_back)


def load(path, into=None, *, at="newest", only=None, torch=None, pin=False,
         missing=None, unread=None, rename=None, cast=None):  # fmt: skip
    """Reads a checkpoint of the run in `path`. It never disturbs a training that goes on there.

    `at`: "newest", 1200, "1200.a3", "best:val_loss", "tag:NAME". Every byte that is used is checked.

    Without `into`: a Checkpoint; torch tensors come back as CPU tensors where torch can be imported, else, or with
    torch=False, as NumPy arrays (through ml_dtypes, or as raw bytes with a warning). With `into={"model": model}`
    the named objects are filled in place, strictly, but for what `missing`, `unread`, `rename`, `cast` permit (as in
    Run). `only`: a glob, or several, over names. at="newest" falls back past damage with a warning; where that
    leaves none, or another one is damaged, it is CorruptCheckpoint. Retention may take a checkpoint that is being
    read: at="newest" then takes the next, any other is StorageUnavailable. `pin=True` keeps it from that, for which it
    writes into the run; nothing is written without it. Errors: NothingToResume, StateMismatch (nothing changed, unless
    it says so), StorageUnavailable, Misconfigured.
    """
    hold = _native.core.Hold.pin if checked_bool("pin", pin) else _native.core.Hold.nothing
    ways = Ways(missing, unread, rename, cast, only)
    for name, value in {"missing": missing, "unread": unread, "rename": rename, "cast": cast}.items():
        if value is not None and into is None:
            raise Misconfigured(f"load: {name}= says how live objects may differ, and goes with into= only")
    if into is not None and not (isinstance(into, dict) and all(isinstance(name, str) for name in into)):
        raise Misconfigured('load: into= is a dict of names and objects, such as into={"model": model}')
    if torch is not None:
        checked_bool("torch", torch)
    at, path = checked_at("at", at), checked_path(path)
    with naming(path):
        filled = None if into is None else Filled(into, ways, _OTHERWISE)
        with _reading(path, at, hold) as reader:
            return _load(reader, at, filled, globs_of("only", only) or None, torch)


def read_into(path: str, at: str, filled: Filled) -> Checkpoint:
    """Fills live objects from a checkpoint, pinned where its run may be alive. Errors: as load."""
    with _reading(path, at, _native.core.Hold.if_alive) as reader:
        return _load(reader, at, filled)


@contextlib.contextmanager
def _reading(path, at, hold):
    reader = call(_native.core.Reader, path, at, hold)
    try:
        yield reader
    finally:
        try:
            call(reader.close)
        except Error as error:
            say(f"the pin of checkpoint {reader.name} is left to lapse: {error}")


def _load(reader, at, filled: Filled | None, only=None, torch=None):
    with Filling() if filled is None else filled.filling:
        while True:
            state = reader.saved
            saved = Saved(state, json.loads(state.tree))
            try:
                content = _read(reader, saved, only, torch) if filled is None else filled.read(reader, saved)
                break
            except (CorruptCheckpoint, StorageUnavailable) as error:
                is_damaged = isinstance(error, CorruptCheckpoint)
                if at != "newest" or not (is_damaged or error.is_vanished):
                    raise
                found = str(error) if is_damaged else ""
            call(reader.next_older, found)
    for fallen in reader.fell_back:
        where = f"{fallen['object']}: " if fallen["object"] else ""
        say(f"checkpoint {fallen['name']} is damaged ({where}{fallen['what']}): using {saved.name} instead")
    return Checkpoint(content, saved, reader.fell_back)


def _read(reader, saved, only, wants_torch):
    make = _maker(wants_torch)
    roots = {name: node for name, node in saved.roots.items() if node != {"dict": []}}
    if only is not None:
        _check_globs(only, saved, roots)
        roots = {name: _prune(node, segment_of_node(name), only) for name, node in roots.items()}
        roots = {name: node for name, node in roots.items() if node is not None}
    made = {}
    for node in roots.values():
        for leaf in leaves_of(node):
            name = tensor_name(leaf)
            if name is not None and (canon := saved.canon(name)) not in made:
                made[canon] = make("tensor" if "tensor" in leaf else "array", *saved.specs[canon][:3])
    places = zip(made, tensors.destinations(list(made.values())), strict=True)
    call(reader.read, [(name, pointer, saved.specs[name][2]) for name, (pointer, _) in places], True)
    return {name: decode(node, lambda tag, tensor: made[saved.canon(tensor)]) for name, node in roots.items()}


def _check_globs(globs, saved, roots):
    """Errors: Misconfigured for a glob that matches no name, listing near ones."""
    names = {}  # in order
    for root, node in roots.items():
        path = segment_of_node(root)
        for name, leaf in flatten(node, path):
            while name != path:
                names[name], name = None, name[: name.rindex(".")]  # what it lies in is a name, too
            names[path] = None
            if tensor_name(leaf) is not None:
                names[tensor_name(leaf)] = None
    for glob in globs:
        if not any(map(Globs("only", [glob]).match, names)):
            raise matches_nothing("only", glob, names, saved.name)


def _prune(node, name, globs):
    """The part of a node whose names match; None where none does. Only dicts are thinned out."""
    if any(fnmatch.fnmatchcase(name, glob) for glob in globs):
        return node
    if isinstance(node, dict) and "dict" in node and node["dict"]:
        pairs = []
        for key, item in node["dict"]:
            kept = _prune(item, f"{name}.{segment_of_node(key)}", globs)
            if kept is not None:
                pairs.append([key, kept])
        return {"dict": pairs} if pairs else None
    names = [tensor_name(leaf) or path for path, leaf in flatten(node, name)]
    return node if any(fnmatch.fnmatchcase(n, g) for n in names for g in globs) else None


def _maker(wants_torch):
    if wants_torch is None:
        wants_torch = "torch" in sys.modules or importlib.util.find_spec("torch") is not None

    def make(tag, dtype, shape, nbytes):
        if tag == "tensor" and wants_torch:
            return tensors.make("tensor", dtype, shape)
        if numpy_dtype(dtype) is not None:
            return tensors.make("array", dtype, shape)
        warnings.warn(
            f"NumPy has no dtype for {describe(dtype, shape)} (ml_dtypes is missing): raw bytes", stacklevel=4
        )
        numpy = sys.modules["numpy"]
        return numpy.empty((*shape, bits_of(dtype) // 8) if nbytes else (0,), numpy.uint8)

    return make


class Filled:
    """The objects of `into=`, filled in place and strictly. `way_out`: as in Filling."""

    def __init__(self, into: dict, ways: Ways, way_out: str):
        self._into, self._attached = into, Attached(_native.core.digests, ways, follows=False)
        for name, value in into.items():
            self._attached.add(name, value)
        self._attached.check_owners()
        self.ways, self._way_out, self.filling = ways, way_out, Filling(way_out)
        self._filled: dict[int, str] = {}
        self._groups: list = []  # put back the settings of optimizers, which a new scheduler overwrites

    def compare(self, saved) -> Plan:
        """Errors: StateMismatch, Misconfigured, with nothing changed unless it says so."""
        here, ways = self._attached.here(saved), self._attached.ways
        paths = {segment_of_node(name): name for name in self._into if name not in here.roots}
        absent = [path for path, name in paths.items() if not (ways.missing or ways.only)]
        if absent:
            raise StateMismatch(
                f"checkpoint {saved.name} holds {', '.join(saved.roots)}",
                missing=absent,
                next_command=f"unbroken show DIR {saved.name}",
            )
        plan = self._attached.plan(saved, set(self._into))
        plan.in_place(self._filled)
        return plan

    def read(self, reader, saved) -> dict:
        """Errors: those of compare; those of reading, with the live objects undefined."""
        plan = self.compare(saved)
        self.filling.begin(saved.name)
        self._filled = plan.in_place(self._filled)
        call(reader.read, plan.destinations())
        plan.finish()
        self._attached.verify(plan, set(self._into))
        for note in plan.notes:
            say(note)
        if any(map(is_scheduler, self._into.values())):
            for put_back in self._groups:
                put_back()
        self._groups = self._attached.remember_groups()
        return dict(self._into)

    def add(self, name: str, value) -> None:
        """One more object, which alone is filled from now on."""
        self._attached.add(name, value)
        self._into, self._filled, self.filling = {name: value}, {}, Filling(self._way_out)

    def remove(self, name: str) -> None:
        """Undoes `add`."""
        self._attached.remove(name)
