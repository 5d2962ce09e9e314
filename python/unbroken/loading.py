"""`load`: a checkpoint for evaluation. It never writes, never fences a training, and never runs any code of a file."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import sys
import warnings

from unbroken import _native
from unbroken._state import tensors
from unbroken._native import call
from unbroken._state.attached import Attached
from unbroken._state.collect import Plan, Saved
from unbroken._state.dtypes import bits_of, describe
from unbroken.errors import CorruptCheckpoint, Misconfigured, StateMismatch, StorageUnavailable, comes_later, say
from unbroken.options import checked_path
from unbroken._state.names import segment_of_node
from unbroken._state.tree import decode, flatten, numpy_dtype, tensor_name


_LATER = ("missing", "unread", "rename", "cast")  # ways out of a mismatch


class Checkpoint(dict):
    """The state in the shape that was attached: {"model": {"fc.weight": tensor, ...}, ...}.

    `.step`, `.attempt`, `.name` ("1200.a3"); `.fell_back`: damaged checkpoints that were passed over, each
    {"name", "object", "what"}.
    """

    def __init__(self, content, saved: Saved, fell_back):
        super().__init__(content)
        self.step, self.attempt, self.name = saved.step, saved.attempt, saved.name
        self.fell_back = list(fell_back)


def load(path, into=None, *, at="newest", only=None, torch=None, pin=False, **later):
    """Reads a checkpoint of the run in `path`.

    Without `into`: a Checkpoint; torch tensors come back as CPU tensors where torch can be imported, else, or with
    torch=False, as NumPy arrays (through ml_dtypes, or as raw bytes with a warning). With `into={"model": model}`
    the named objects are filled in place, strictly. `only`: a glob, or several, over names. at="newest" falls back
    past damage with a warning; any other damaged checkpoint is CorruptCheckpoint. Errors: NothingToResume,
    StateMismatch, StorageUnavailable, Misconfigured.
    """
    for name in later:
        raise comes_later(name) if name in _LATER else TypeError(f"load() got an unexpected keyword argument {name!r}")
    if pin:
        raise comes_later("pin")
    if into is not None and only is not None:
        raise comes_later("only= together with into=")
    if into is not None and not isinstance(into, dict):
        raise Misconfigured('load: into= is a dict of names and objects, such as into={"model": model}')
    reader = call(_native.core.Reader, checked_path(path), str(at))
    passed = []  # damaged ones that only reading found
    while True:
        saved = Saved(reader.saved, json.loads(reader.saved.tree))
        try:
            if into is None:
                content = _read(reader, saved, [only] if isinstance(only, str) else only, torch)
            else:
                content = _read_into(reader, saved, into)
            break
        except (CorruptCheckpoint, StorageUnavailable) as error:
            is_damaged = isinstance(error, CorruptCheckpoint)
            if at != "newest" or not (is_damaged or error.is_vanished) or not call(reader.next_older):
                raise
            if is_damaged:
                passed.append({"name": saved.name, "object": "", "what": str(error)})
    known = {fallen["name"] for fallen in reader.fell_back}
    fell_back = [*reader.fell_back, *(fallen for fallen in passed if fallen["name"] not in known)]
    for fallen in fell_back:
        where = f"{fallen['object']}: " if fallen["object"] else ""
        say(f"checkpoint {fallen['name']} is damaged ({where}{fallen['what']}): using {saved.name} instead")
    return Checkpoint(content, saved, fell_back)


def _read(reader, saved, only, wants_torch):
    make = _maker(wants_torch)
    roots = {name: node for name, node in saved.roots.items() if flatten(node) != [("", node)] or node != {"dict": []}}
    if only is not None:
        roots = {name: _prune(node, segment_of_node(name), only) for name, node in roots.items()}
        roots = {name: node for name, node in roots.items() if node is not None}
    made = {}
    for node in roots.values():
        for _, leaf in flatten(node):
            if tensor_name(leaf) is not None:
                canon = saved.canon(tensor_name(leaf))
                if canon not in made:
                    made[canon] = make("tensor" if "tensor" in leaf else "array", *saved.specs[canon][:3])
    targets = []
    for name, value in made.items():
        targets.append((name, tensors.destination(value)[0], saved.specs[name][2]))
    call(reader.read, targets)
    return {name: decode(node, lambda tag, tensor: made[saved.canon(tensor)]) for name, node in roots.items()}


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


def _read_into(reader, saved, into):
    attached = Attached()
    for name, value in into.items():
        attached.add(name, value)
    absent = [segment_of_node(name) for name in into if name not in saved.roots]
    if absent:
        raise StateMismatch(f"checkpoint {saved.name} holds {', '.join(saved.roots)}", missing=absent)
    plan: Plan = attached.plan(saved, set(into))
    call(reader.read, plan.destinations())
    plan.finish()
    attached.verify(saved, set(into))
    return dict(into)
