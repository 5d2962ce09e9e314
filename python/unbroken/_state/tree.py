"""The typed state tree: everything of a run's state that is not a tensor, with order and kind kept.

A *node* is a JSON value (docs/format is normative; src/state/tree.h lists the forms). Encoding refuses, by its
path, whatever could not be read back as it was; decoding builds plain objects only and never runs any code.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import contextmanager

from unbroken._state.dtypes import NAME_TO_NUMPY, NAME_TO_TORCH, NUMPY_TO_NAME, TORCH_TO_NAME
from unbroken.errors import CorruptCheckpoint, Misconfigured
from unbroken._state.names import canonical, join, segment_of_node

DEPTH_MAX = 64
NOT_A_LEAF = object()

_PAIRS = {OrderedDict: "OrderedDict", Counter: "Counter", defaultdict: "defaultdict_none"}
_ITEMS = {set: "set", frozenset: "frozenset", deque: "deque"}


def refuse(name: str, why: str, next_command: str = "python -m pydoc unbroken.Run.attach") -> Misconfigured:
    """The error for what cannot be part of the state, by its path."""
    return Misconfigured(f"{name}: {why}", next_command)


def float_node(value: float):
    return {"float": struct.pack(">d", value).hex()}


def encode_str(value: str, name: str):
    try:
        value.encode("utf-8")
        return value
    except UnicodeEncodeError:
        units = value.encode("utf-16-le", "surrogatepass")
    try:
        units.decode("utf-16-le")
    except UnicodeDecodeError:
        return {"str16": units.hex()}
    raise refuse(name, "a text that holds a character as two separate surrogates cannot be kept")


_SHOWN = 200  # characters of a value in a message
_BLOCK = 4000  # digits at a time: Python refuses to write or read more than 4300 of one integer


def _decimal(value: int) -> str:
    blocks, rest = [], abs(value)
    while rest >= 10**_BLOCK:
        rest, block = divmod(rest, 10**_BLOCK)
        blocks.append(f"{block:0{_BLOCK}d}")
    return "-" * (value < 0) + str(rest) + "".join(reversed(blocks))


def _integer(text: str) -> int:
    digits = text.removeprefix("-")
    head = len(digits) % _BLOCK or _BLOCK
    value = int(digits[:head])
    for start in range(head, len(digits), _BLOCK):
        value = value * 10**_BLOCK + int(digits[start : start + _BLOCK])
    return -value if text.startswith("-") else value


def _scalar(value, kind, name):
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**64 else {"int": _decimal(value)}
    if kind is float:
        return float_node(value)
    if kind is str:
        return encode_str(value, name)
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is complex:
        return {"complex": [struct.pack(">d", part).hex() for part in (value.real, value.imag)]}
    return NOT_A_LEAF


def _quick(value):
    """The node of the commonest plain values, without a name at hand."""
    kind = type(value)
    if value is None or kind is bool or (kind is int and -(2**63) <= value < 2**64):
        return value
    return float_node(value) if kind is float else NOT_A_LEAF


def _foreign(value, kind, name):
    """NumPy scalars, torch dtypes, torch.Size: only where their library is there already."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        dtype = NUMPY_TO_NAME.get(value.dtype.name)
        if dtype is None or numpy_dtype(dtype).type is not kind:  # longlong is another type of the same size
            raise refuse(name, f"a NumPy scalar of dtype {value.dtype} cannot be kept")
        data = value.tobytes() if sys.byteorder == "little" else value.newbyteorder().tobytes()
        return {"numpy": {"dtype": dtype, "bits": data.hex()}}
    torch = sys.modules.get("torch")
    if torch is not None:
        if kind is torch.dtype:
            dtype = TORCH_TO_NAME.get(str(value).removeprefix("torch."))
            if dtype is None:
                raise refuse(name, f"{value} is quantised and cannot be kept")
            return {"dtype": dtype}
        if kind is torch.Size:
            return {"kind": "Size", "items": list(value)}
    return NOT_A_LEAF


class Encoder:
    """Objects to nodes. `leaf(value, name)` gets what is neither plain nor a container: a tensor, a module.

    It returns a node, or NOT_A_LEAF for what it does not know either, which is then refused.
    Errors: Misconfigured, naming the path.
    """

    def __init__(self, leaf=None):
        self._leaf = leaf
        self._open: set[int] = set()  # the containers around the value at hand
        self._homes: dict[int, str] | None = None  # container -> its name, while no container may have two
        self._depth = 0

    @contextmanager
    def apart(self):
        """Refuses meanwhile a container that stands in two places: two equal ones would come back."""
        self._homes = {}
        yield
        self._homes = None

    def enter(self, value, name):
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise refuse(name, f"nested deeper than {DEPTH_MAX} containers")
        if id(value) in self._open:
            raise refuse(name, "contains itself")
        self._open.add(id(value))

    def leave(self, value):
        self._depth -= 1
        self._open.discard(id(value))

    def encode(self, value, name: str):
        kind = type(value)
        node = _scalar(value, kind, name)
        if node is not NOT_A_LEAF:
            return node
        if kind in (list, tuple, dict) or kind in _PAIRS or kind in _ITEMS:
            self.enter(value, name)
            self._check_home(value, kind, name)
            node = self._container(value, kind, name)
            self.leave(value)
            return node
        node = _foreign(value, kind, name)
        if node is NOT_A_LEAF and self._leaf is not None:
            node = self._leaf(value, name)
        if node is NOT_A_LEAF:
            raise refuse(
                name,
                f"{kind.__module__}.{kind.__qualname__} cannot be part of the state (attach takes tensors, arrays, plain "
                "values, containers of them, generators, and objects with state_dict and load_state_dict): turn it into "
                "one of these, such as a text or a dict",
            )
        return node

    def _check_home(self, value, kind, name):
        if self._homes is None or kind in (tuple, frozenset):
            return
        home = self._homes.setdefault(id(value), name)
        if home != name:
            raise refuse(name, f"is one {kind.__name__} with {home}, and two would come back: keep it in one place only")

    def _container(self, value, kind, name):
        if kind is list or kind is tuple:
            items = self._items(value, name)
            return items if kind is list else {"tuple": items}
        if kind is dict or kind in _PAIRS:
            if kind is defaultdict and value.default_factory is not None:
                raise refuse(name, "a defaultdict with a factory cannot be kept (a factory is code): use a dict")
            pairs = [self.pair(key, item, name) for key, item in value.items()]
            return {"dict": pairs} if kind is dict else {"kind": _PAIRS[kind], "items": pairs}
        if kind is deque:
            items = self._items(value, name)
            bound = {} if value.maxlen is None else {"maxlen": value.maxlen}
            return {"kind": "deque", "items": items, **bound}
        items = [self.plain(item, f"{name}.{{item}}") for item in value]
        return {"kind": _ITEMS[kind], "items": sorted(items, key=lambda node: canonical(node).encode())}

    def _items(self, values, name):
        nodes = []
        for i, value in enumerate(values):
            node = _quick(value)
            nodes.append(self.encode(value, join(name, str(i))) if node is NOT_A_LEAF else node)
        return nodes

    def pair(self, key, item, name):
        """[key, item] of a dict at `name`."""
        key_node = self.plain(key, f"{name}.{{key}}")
        return [key_node, self.encode(item, join(name, segment_of_node(key_node)))]

    def plain(self, value, name):
        """A dict key or a set item: no tensor in it."""
        node = _scalar(value, type(value), name)
        if node is not NOT_A_LEAF:
            return node
        plain = Encoder()
        plain._depth = self._depth
        return plain.encode(value, name)


def encode(value, name: str = "", leaf=None):
    """The node of `value`; see Encoder."""
    node = _scalar(value, type(value), name)
    return Encoder(leaf).encode(value, name) if node is NOT_A_LEAF else node


def is_container(node) -> bool:
    return isinstance(node, list) or (isinstance(node, dict) and bool(node.keys() & {"tuple", "dict", "kind"}))


def pairs_of(node):
    """The [key, value] pairs of a dict-like node, else None."""
    if not isinstance(node, dict):
        return None
    if "dict" in node:
        return node["dict"]
    return node["items"] if node.get("kind") in _PAIRS.values() else None


def items_of(node):
    """The items of a list-like node (list, tuple, deque, Size), else None."""
    if isinstance(node, list):
        return node
    if not isinstance(node, dict):
        return None
    if "tuple" in node:
        return node["tuple"]
    return node["items"] if node.get("kind") in ("deque", "Size") else None


def tensor_name(node) -> str | None:
    """The name in a tensor or array node, else None."""
    return node.get("tensor", node.get("array")) if isinstance(node, dict) else None


def kind_of(node) -> str:
    """The sort of value in a node, in words: two values of one sort may replace each other."""
    if node is None or isinstance(node, (bool, int, str, list)):
        return "None" if node is None else type(node).__name__
    if "kind" in node:
        bound = f" of at most {node['maxlen']}" if "maxlen" in node else ""
        return node["kind"].removesuffix("_none") + bound
    tag = next(iter(node))
    if tag == "numpy":
        return f"numpy scalar {node['numpy']['dtype']}"
    return {"str16": "str", "tensor": "torch tensor", "array": "numpy array", "dtype": "torch.dtype"}.get(tag, tag)


def children(node, name: str):
    """(node, name) of what is directly below; nothing below leaves, and a set is a leaf."""
    pairs = pairs_of(node)
    if pairs is not None:
        return [(item, join(name, segment_of_node(key))) for key, item in pairs]
    items = items_of(node)
    return [(item, join(name, str(i))) for i, item in enumerate(items or ())]


def flatten(node, name: str = ""):
    """(name, node) of every leaf below `name`, in order; an empty container is a leaf."""
    below = children(node, name)
    if not below:
        return [(name, node)]
    return [leaf for child, child_name in below for leaf in flatten(child, child_name)]


def leaves_of(node):
    """The leaves of `flatten` without their names."""
    below = [item for _, item in pairs_of(node) or ()] or items_of(node)
    return [leaf for item in below for leaf in leaves_of(item)] if below else [node]


def tensors_of(node):
    """The names of the tensors and arrays in a node, in order."""
    return [name for name in map(tensor_name, leaves_of(node)) if name is not None]


def text(node) -> str:
    """A leaf as a person reads it in a message: 0.1, 'adam', None, 5056 bytes. What is long is cut."""
    try:
        value = decode(node)
        if isinstance(value, bytes) and len(value) > _SHOWN // 4:
            return f"{len(value)} bytes"
        return shortened(repr(value))
    except Exception:  # a tensor, a library that is not there, an integer that Python does not write
        return shortened(canonical(node))


def text_of(value, name: str) -> str:
    """A live value as `text` shows a node."""
    try:
        return text(encode(value, name))
    except Misconfigured:
        return shortened(repr(value))


def shortened(shown: str) -> str:
    """At most so much of it as belongs into a line."""
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}... ({len(shown)} characters)"


def _no_tensor(kind, name):
    raise ValueError(name)


def decode(node, resolve=_no_tensor):
    """The object of a node. `resolve("tensor" or "array", name)` gives the tensors.

    Errors: CorruptCheckpoint for what is no node, Misconfigured where a value needs a library that is missing.
    """
    if node is None or isinstance(node, (bool, int, str)):
        return node
    if isinstance(node, list):
        return [decode(item, resolve) for item in node]
    try:
        return _decode_object(node, resolve)
    except (KeyError, TypeError, ValueError, OverflowError, struct.error, AttributeError) as error:
        raise CorruptCheckpoint(f"the state tree holds what is no value: {str(node)[:80]}") from error


def _decode_object(node, resolve):
    if "kind" in node:
        return _decode_kind(node, resolve)
    ((tag, value),) = node.items()
    match tag:
        case "dict":
            return {decode(key, resolve): decode(item, resolve) for key, item in value}
        case "tuple":
            return tuple(decode(item, resolve) for item in value)
        case "float":
            return struct.unpack(">d", bytes.fromhex(value))[0]
        case "tensor" | "array":
            return resolve(tag, value)
        case "int":
            return _integer(value)
        case "bytes":
            return bytes.fromhex(value)
        case "complex":
            return complex(*(struct.unpack(">d", bytes.fromhex(part))[0] for part in value))
        case "str16":
            return bytes.fromhex(value).decode("utf-16-le", "surrogatepass")
        case "numpy":
            return _numpy_scalar(value["dtype"], bytes.fromhex(value["bits"]))
        case "dtype":
            return getattr(_library("torch"), NAME_TO_TORCH[value])
    raise KeyError(tag)


def _decode_kind(node, resolve):
    kind, items = node["kind"], node["items"]
    if kind in _PAIRS.values():
        pairs = ((decode(key, resolve), decode(item, resolve)) for key, item in items)
        if kind == "OrderedDict":
            return OrderedDict(pairs)
        return Counter(dict(pairs)) if kind == "Counter" else defaultdict(None, pairs)
    values = [decode(item, resolve) for item in items]
    if kind == "Size":
        return _library("torch").Size(values)
    if kind == "deque":
        return deque(values, node.get("maxlen"))
    return {"set": set, "frozenset": frozenset}[kind](values)


def _library(name: str):
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Misconfigured(f"the checkpoint holds values of {name}, which cannot be imported: {error}") from None


def numpy_dtype(name: str):
    """The numpy.dtype of one of our names; through ml_dtypes where NumPy lacks it. None where neither has it."""
    numpy = _library("numpy")
    if name not in NAME_TO_NUMPY:
        return None
    try:
        return numpy.dtype(NAME_TO_NUMPY[name])
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        return None
    found = getattr(ml_dtypes, NAME_TO_NUMPY[name], None)
    return None if found is None else numpy.dtype(found)


def _numpy_scalar(dtype: str, data: bytes):
    numpy, kind = _library("numpy"), numpy_dtype(dtype)
    if kind is None:
        raise Misconfigured(f"the checkpoint holds a NumPy scalar of {dtype}: install ml_dtypes")
    return numpy.frombuffer(data, kind)[0]


def kind_of_value(value, name: str) -> str:
    """kind_of for a live value that is no tensor; for an object with a state of its own, its class."""
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
