"""Random generators: their state as nodes, and back into the same objects.

The global ones are taken without being asked, under `rng`: `rng.python`, `rng.numpy` (the legacy global state),
`rng.torch.cpu`, `rng.torch.cuda.0`. One whose library is not imported when a run resumes is kept, saved again as
it is, and handed over right after the import.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import random
import struct
import sys

from unbroken._state.order import GENERATORS
from unbroken.errors import CorruptCheckpoint, StateMismatch
from unbroken._state.tree import decode, encode, kind_of, pairs_of, refuse, text

_WORDS = 624  # of a Mersenne Twister, 32 bits each


def _words(values) -> dict:
    return {"bytes": struct.pack(f"<{len(values)}I", *values).hex()}


def python_node(generator: random.Random, name: str):
    """State of a random.Random."""
    if type(generator) is not random.Random:
        try:
            return encode(generator.getstate(), name)
        except NotImplementedError as error:
            raise refuse(name, f"{type(generator).__name__} has no state: {error}") from None
    version, words, gauss = generator.getstate()
    return {
        "dict": [
            ["version", version],
            ["words", _words(words[:_WORDS])],
            ["position", words[_WORDS]],
            ["gauss", encode(gauss, name)],
        ]
    }


def set_python(generator: random.Random, node) -> None:
    """The reverse of python_node."""
    if type(generator) is not random.Random:
        generator.setstate(decode(node))
        return
    state = decode(node)
    words = struct.unpack(f"<{_WORDS}I", state["words"])
    generator.setstate((state["version"], (*words, state["position"]), state["gauss"]))


def _numpy_value(value, name):
    """A value of BitGenerator.state: nested dicts, texts, integers of any size, 1-d arrays of unsigned words."""
    if type(value) is dict:
        return {"dict": [[key, _numpy_value(item, f"{name}.{key}")] for key, item in value.items()]}
    if hasattr(value, "tobytes") and getattr(value, "ndim", 0) == 1:
        return {
            "tuple": [
                value.dtype.str.replace(">", "<").replace("=", "<"),
                {"bytes": value.astype(value.dtype.newbyteorder("<")).tobytes().hex()},
            ]
        }
    return encode(value.item() if hasattr(value, "item") else value, name)


def _numpy_back(value):
    if isinstance(value, dict):
        return {key: _numpy_back(item) for key, item in value.items()}
    if isinstance(value, tuple):
        numpy = sys.modules["numpy"]
        dtype, data = value
        if dtype not in ("<u4", "<u8", "|u1", "<u2", "<i4", "<i8"):
            raise CorruptCheckpoint(f"the state of a generator holds words of dtype {dtype!r}")
        return numpy.frombuffer(data, dtype).astype(numpy.dtype(dtype).newbyteorder("="))
    return value


def numpy_node(generator, name: str):
    """State of a numpy Generator, BitGenerator or RandomState; how many streams were spawned is part of it."""
    numpy = sys.modules["numpy"]
    if isinstance(generator, numpy.random.RandomState):
        return _numpy_value(generator.get_state(legacy=False), name)
    bits = getattr(generator, "bit_generator", generator)
    node = _numpy_value(bits.state, name)
    spawned = getattr(getattr(bits, "seed_seq", None), "n_children_spawned", None)
    if isinstance(spawned, int):
        node["dict"].append(["spawned", spawned])
    return node


def set_numpy(generator, node) -> None:
    """The reverse of numpy_node."""
    spawned = _set_numpy_bits(generator, node)
    bits = getattr(generator, "bit_generator", generator)
    if spawned is not None:
        behind = spawned - bits.seed_seq.n_children_spawned
        if behind > 0:
            bits.seed_seq.spawn(behind)


def _set_numpy_bits(generator, node):
    """Without the spawned streams, which cannot be taken back; how many they are, or None."""
    state = _numpy_back(decode(node))
    spawned = state.pop("spawned", None)
    if isinstance(generator, sys.modules["numpy"].random.RandomState):
        generator.set_state(state)
    else:
        getattr(generator, "bit_generator", generator).state = state
    return spawned


def torch_node(generator, name: str):
    """State of a torch.Generator."""
    return {"bytes": bytes(generator.get_state().numpy()).hex()}


def _torch_state(node):
    torch = sys.modules["torch"]
    return torch.frombuffer(bytearray(decode(node)), dtype=torch.uint8)


def set_torch(generator, node) -> None:
    """The reverse of torch_node."""
    generator.set_state(_torch_state(node))


def handlers_of(value):
    """(kind, node function, set function) for a generator object, else None."""
    if isinstance(value, random.Random):
        return "random.Random", python_node, set_python
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        kinds = (numpy.Generator, numpy.RandomState, numpy.BitGenerator)
        if isinstance(value, kinds):
            return "numpy", numpy_node, set_numpy
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Generator):
        return "torch.Generator", torch_node, set_torch
    return None


class GeneratorAdapter:
    """One attached generator; other sorts of state (PCG64 for MT19937) are a difference."""

    is_exact = is_exact_tree = True
    is_placed = False

    def __init__(self, generator):
        self.generator = generator
        self._kind, self._node, self._set = handlers_of(generator)

    def capture(self, capture, name):
        return self._node(self.generator, name)

    def plan(self, node, name, plan):
        if plan.skips_part(node, name):
            return
        live = self._node(self.generator, name)
        if _sort_of(node) != _sort_of(live):
            plan.changed.append((name, _sort_of(node, kind_of(node)), _sort_of(live)))
            return
        before, here = _spawned(node), _spawned(live)
        if before is None and here is None or None not in (before, here) and before >= here:
            put = _set_numpy_bits if self._set is set_numpy else self._set
            why = _why_refused(lambda: live, lambda state: put(self.generator, state), node)
            if why is not None:
                plan.changed.append((name, "a state", f"a generator that refuses it: {why}"))
            plan.then(GENERATORS, lambda: self._set(self.generator, node))
        else:
            plan.changed.append((name, f"{before} streams spawned", f"{here} streams spawned"))


def _spawned(node):
    return next((value for key, value in pairs_of(node) or () if key == "spawned"), None)


def _why_refused(get, put, node) -> str | None:
    """Why a generator does not take a state; None where it does. It is left as it was."""
    before = get()
    try:
        put(node)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        put(before)
    return None


def _sort_of(node, other="a generator") -> str:
    pairs = dict((key, value) for key, value in pairs_of(node) or () if isinstance(key, str))
    if "bit_generator" in pairs:
        return f"numpy {text(pairs['bit_generator'])}"
    if "words" in pairs:
        return "random.Random"
    return "torch.Generator" if isinstance(node, dict) and "bytes" in node else other


# -- the global ones


def _accelerators(torch):
    """(name, get, set) of each device of an accelerator that is in use; nothing is initialised by asking."""
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        if module is not None and getattr(module, "is_initialized", lambda: False)():
            for i in range(module.device_count()):
                yield (
                    f"{kind}.{i}",
                    (lambda m=module, i=i: m.get_rng_state(i)),
                    (lambda s, m=module, i=i: m.set_rng_state(s, i)),
                )
    mps = getattr(torch, "mps", None)
    if mps is not None and torch.backends.mps.is_available():
        yield "mps.0", mps.get_rng_state, mps.set_rng_state


def _here():
    """name below rng -> (get, put) of every global generator of the libraries that are imported; states are nodes."""
    found = {"python": (lambda: python_node(random._inst, "rng.python"), lambda n: set_python(random._inst, n))}
    legacy = sys.modules.get("numpy.random")
    if legacy is not None:
        found["numpy"] = (
            lambda: _numpy_value(legacy.get_state(legacy=False), "rng.numpy"),
            lambda n: legacy.set_state(_numpy_back(decode(n))),
        )
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        mine = torch.default_generator
        found["torch.cpu"] = (lambda: torch_node(mine, "rng.torch.cpu"), lambda n: set_torch(mine, n))
        for name, get, put in _accelerators(torch):
            found[f"torch.{name}"] = (
                lambda get=get: {"bytes": bytes(get().numpy()).hex()},
                lambda n, put=put: put(_torch_state(n)),
            )
    return found


class GlobalGenerators:
    """`rng`. Threads: the trainer's."""

    def __init__(self):
        self._kept: dict[str, object] = {}  # name below rng -> node, for a library that is not there yet
        self._hook = None

    def capture(self):
        """{"dict": ...} of every global generator of the libraries that are imported, and of the kept ones."""
        found = {name: get() for name, (get, _) in _here().items()}
        for name, node in self._kept.items():
            found.setdefault(name, node)
        return _nest(found)

    def check(self, node):
        """(name, saved, live) of what a generator that is there does not take."""
        here = _here()
        for name, state in _unnest(node).items():
            why = _why_refused(*here[name], state) if name in here else None
            if why is not None:
                yield f"rng.{name}", "a state", f"a generator that refuses it: {why}"

    def restore(self, node) -> None:
        """Puts all back; what has no library yet is kept for it."""
        self._kept = _unnest(node)
        self.hand_over()
        waiting = {name.split(".")[0] for name in self._kept}
        wanted = {{"numpy": "numpy.random", "torch": "torch"}[n] for n in waiting & {"numpy", "torch"}}
        wanted -= sys.modules.keys()
        if wanted and self._hook is None:
            self._hook = _AfterImport(wanted, self.hand_over)
            sys.meta_path.insert(0, self._hook)

    def hand_over(self) -> None:
        """Gives kept states to the libraries that are there by now."""
        here = _here()
        for name in [name for name in self._kept if name in here]:
            get, put = here[name]
            node = self._kept.pop(name)
            why = _why_refused(get, put, node)
            if why is not None:
                raise StateMismatch(
                    "a generator refuses the saved state",
                    changed=[(f"rng.{name}", "a state", f"a generator that refuses it: {why}")],
                )
            put(node)

    def guard(self, function):
        """function(), with every global generator as it was before."""
        before = self.capture()
        try:
            return function()
        finally:
            self.restore(before)

    def close(self) -> None:
        """Stops waiting for imports."""
        if self._hook in sys.meta_path:
            sys.meta_path.remove(self._hook)
        self._hook = None


def _nest(found):
    torch = [[name.removeprefix("torch."), node] for name, node in found.items() if name.startswith("torch.")]
    pairs = [[name, node] for name, node in found.items() if not name.startswith("torch.")]
    if torch:
        by_kind: dict[str, list] = {}
        for name, node in torch:
            kind, _, index = name.partition(".")
            by_kind.setdefault(kind, []).append([int(index) if index else None, node])
        nested = [[kind, items[0][1] if items[0][0] is None else {"dict": items}] for kind, items in by_kind.items()]
        pairs.append(["torch", {"dict": nested}])
    return {"dict": pairs}


def _unnest(node):
    found = {}
    for name, item in pairs_of(node) or ():
        if name != "torch":
            found[name] = item
            continue
        for kind, below in pairs_of(item) or ():
            devices = pairs_of(below)
            for index, state in devices if devices is not None else [(None, below)]:
                found[f"torch.{kind}" + ("" if index is None else f".{index}")] = state
    return found


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function right after one of some modules was imported for the first time."""

    def __init__(self, names, function):
        self._names, self._function = set(names), function

    def find_spec(self, name, path=None, target=None):
        if name not in self._names:
            return None
        self._names.discard(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run, function = spec.loader.exec_module, self._function

        def exec_module(module):
            run(module)
            function()

        spec.loader.exec_module = exec_module
        return spec


def is_global(generator) -> bool:
    """True for those that are saved without being asked."""
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if generator is random._inst:
        return True
    if numpy is not None:
        legacy = getattr(numpy.mtrand, "_rand", None)
        if generator is legacy or generator is getattr(legacy, "_bit_generator", NotImplemented):
            return True
    return torch is not None and generator is getattr(torch, "default_generator", None)
