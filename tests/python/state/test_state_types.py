"""What comes out of a restore is what went in, in type and bits, or the save names the path that it refuses."""

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import math
import pathlib
import random
import struct
import uuid

import numpy
import pytest
import torch

import unbroken
from helpers import bits
from unbroken import Misconfigured


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Int(int):
    pass


class Text(str):
    pass


class Float(float):
    pass


class Dict(dict):
    pass


class List(list):
    pass


class Set(set):
    pass


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Data:
    x: int = 1


def nan(pattern):
    return struct.unpack(">d", struct.pack(">Q", pattern))[0]


COME_BACK = {
    "None": None, "true": True, "zero": 0, "edge": 2**64, "huge": 10**9000 + 7, "negative": -(7**20000), "float": 0.1,
    "minus zero": -0.0, "nan": math.nan, "payload": nan(0xFFF8000000000123), "signalling": nan(0x7FF0000000000001),
    "inf": -math.inf, "tiny": 5e-324, "text": "a\0\u20ac\U0001f600", "half": "\ud800", "bytes": b"\0\xff", "empty": b"",
    "complex": complex(-0.0, nan(0x7FF8000000000009)), "list": [1, [], [None]], "tuple": (1, (), [2]),
    "dict": {1: "a", "1": 2, (1, b"x"): 3, None: 4, 2.5: 5, False: 6}, "order": {"b": 1, "a": 2},
    "OrderedDict": collections.OrderedDict(b=1, a=2), "Counter": collections.Counter(a=2, b=-1),
    "defaultdict": collections.defaultdict(None, a=1), "deque": collections.deque([1, 2], 5),
    "endless deque": collections.deque([1]), "set": {1, "a", (2, b"")}, "frozenset": frozenset({1, 2}),
    "Size": torch.Size([2, 0]), "dtype": torch.bfloat16, "float32": numpy.float32(0.1), "float64": numpy.float64(-0.0),
    "float16": numpy.float16(1), "bool_": numpy.bool_(True), "uint8": numpy.uint8(200), "int64": numpy.int64(-5),
    "complex64": numpy.complex64(1j), "scalar payload": numpy.frombuffer(b"\1\0\xa0\x7f", numpy.float32)[0],
    "array": numpy.arange(6, dtype=numpy.int16).reshape(2, 3), "0-d": numpy.array(2.5), "none of it": numpy.zeros((0, 2)),
    "read-only": numpy.broadcast_to(numpy.float32(3), (2, 2)), "strided": numpy.arange(9.0)[::-2],
    "tensor": torch.arange(4, dtype=torch.int8), "bf16": torch.tensor([1.5, -0.0], dtype=torch.bfloat16),
    "expanded": torch.ones(1).expand(3), "conj": torch.tensor([1 + 2j]).conj(), "bits": torch.tensor([math.nan, -0.0]),
}  # fmt: skip

REFUSED = {
    "Ellipsis": ..., "NotImplemented": NotImplemented, "range": range(3), "slice": slice(1), "type": int, "function": len,
    "lambda": lambda: 0, "module": math, "bytearray": bytearray(b"a"), "memoryview": memoryview(b"a"),
    "array.array": array.array("i", [1]), "namedtuple": Point(1, 2), "dataclass": Data(), "Enum": Colour.RED,
    "IntEnum": Level.LOW, "int subclass": Int(1), "str subclass": Text("a"), "float subclass": Float(1),
    "dict subclass": Dict(a=1), "list subclass": List([1]), "set subclass": Set([1]), "Decimal": decimal.Decimal("0.1"),
    "Fraction": fractions.Fraction(1, 3), "datetime": datetime.datetime(2020, 1, 1), "date": datetime.date(2020, 1, 1),
    "timedelta": datetime.timedelta(1), "Path": pathlib.Path("a"), "UUID": uuid.UUID(int=1), "object": object(),
    "exception": ValueError("a"), "ChainMap": collections.ChainMap(), "UserDict": collections.UserDict(),
    "dict view": {1: 2}.keys(), "iterator": iter([]), "two halves": "\ud83d\ude00",
    "factory": collections.defaultdict(list), "longlong": numpy.longlong(1), "longdouble": numpy.longdouble(1),
    "str_": numpy.str_("a"), "bytes_": numpy.bytes_(b"a"), "datetime64": numpy.datetime64(0, "s"),
    "void": numpy.zeros(1, "i4,f4")[0], "numpy dtype": numpy.dtype("i4"), "matrix": numpy.asmatrix([[1]]),
    "masked": numpy.ma.masked_array([1], [True]), "masked constant": numpy.ma.masked,
    "recarray": numpy.zeros(1, "i4,f4").view(numpy.recarray), "structured": numpy.zeros(2, [("a", "i4")]),
    "fields": numpy.zeros(2, numpy.dtype((numpy.int32, {"low": ("i2", 0), "high": ("i2", 2)}))), "objects": numpy.array([None]),
    "texts": numpy.array(["a"]), "times": numpy.zeros(1, "M8[s]"), "big-endian": numpy.arange(3, dtype=">i4"),
    "big-endian float": numpy.ones(2, ">f8"), "device": torch.device("cpu"), "layout": torch.strided,
    "format": torch.contiguous_format, "sparse": torch.eye(2).to_sparse(), "meta": torch.zeros(1, device="meta"),
    "Parameter": torch.nn.Parameter(torch.zeros(2)), "Module": torch.nn.Linear(1, 1), "Random": random.Random(1),
    "Generator": numpy.random.default_rng(1), "RandomState": numpy.random.RandomState(1),
    "BitGenerator": numpy.random.PCG64(1), "torch.Generator": torch.Generator(),
    "optimizer": torch.optim.SGD([torch.zeros(1)], 0.1),
    "scheduler": torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.zeros(1)], 0.1), 1),
    "scaler": torch.amp.GradScaler("cpu", enabled=False),
}  # fmt: skip


def alike(a, b):
    """One type, and equal by bits all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and not isinstance(a, numpy.generic):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, complex) and not isinstance(a, numpy.generic):
        return alike(a.real, b.real) and alike(a.imag, b.imag)
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and a.dtype.isnative == b.dtype.isnative and bits(a) == bits(b)
    if isinstance(a, torch.Tensor):
        return bits(a) == bits(b)
    if isinstance(a, numpy.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            alike(x, y) for p, q in zip(a.items(), b.items(), strict=True) for x, y in zip(p, q, strict=True)
        )
    if isinstance(a, (list, tuple, collections.deque)):
        is_bound = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return is_bound and len(a) == len(b) and all(map(alike, a, b))
    return a == b


def restored(path, value):
    with unbroken.Run(path) as run:
        run.state["v"] = {"deep": [value]}
        for _ in run.steps(1):
            pass
    with unbroken.Run(path) as run:
        run.restore()
        return run.state["v"]["deep"][0]


@pytest.mark.parametrize("name", COME_BACK)
@pytest.mark.failure("huggingface/accelerate#3971")
def test_what_comes_back_is_what_went_in(run_dir, name):
    back = restored(run_dir, COME_BACK[name])
    assert alike(back, COME_BACK[name]), back
    assert alike(unbroken.load(run_dir)["state"]["v"]["deep"][0], COME_BACK[name])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_would_not_come_back_is_refused_by_its_path(run_dir, name):
    with pytest.raises(Misconfigured, match=r"^state\.v\.deep\.0: ") as caught:
        restored(run_dir, REFUSED[name])
    assert caught.value.next_command


@pytest.mark.parametrize("name", ["Module", "Random", "Generator", "torch.Generator", "optimizer", "scheduler"])
def test_what_has_a_state_of_its_own_is_pointed_to_attach(run_dir, name):
    with pytest.raises(Misconfigured, match="attach it") as caught:
        restored(run_dir, REFUSED[name])
    assert caught.value.next_command == "run.attach(NAME=...)"


def test_the_types_of_the_script_do_not_leak_into_what_comes_back(run_dir):
    saved = {"a": numpy.arange(3, dtype="<i4"), "b": torch.arange(3.0), "c": torch.ones(2)}
    with unbroken.Run(run_dir) as run:
        run.state.update(saved)
        for _ in run.steps(1):
            pass
    with unbroken.Run(run_dir) as run:
        run.state.update(a=numpy.zeros(3, ">i4"), b=torch.nn.Parameter(torch.zeros(3)), c=torch.zeros(1).expand(2))
        run.restore()
        assert alike(dict(run.state), saved)


def test_what_is_tied_to_a_parameter_comes_back_as_a_tensor(run_dir):
    model = torch.nn.Linear(2, 1)
    with unbroken.Run(run_dir) as run:
        run.attach(model=model)
        run.state["w"] = model.weight.detach()
        for _ in run.steps(1):
            pass
    again = torch.nn.Linear(2, 1)
    with unbroken.Run(run_dir) as run:
        run.attach(model=again)
        run.restore()
        assert type(run.state["w"]) is torch.Tensor and torch.equal(run.state["w"], model.weight)
        assert run.state["w"].data_ptr() == again.weight.data_ptr()


class Holder:
    """An object with a state of its own that holds anything."""

    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


@pytest.mark.parametrize("name", ["Module", "Generator", "Parameter", "big-endian", "namedtuple", "Random"])
def test_objects_get_back_what_they_gave_or_are_refused(run_dir, name):
    with unbroken.Run(run_dir) as run, pytest.raises(Misconfigured, match=r"^x\.value: "):
        run.attach(x=Holder(REFUSED[name]))
        for _ in run.steps(1):
            pass


def test_two_readings_of_the_same_memory_are_two_arrays(run_dir):
    big = numpy.arange(4, dtype=">i4")
    with unbroken.Run(run_dir) as run:
        run.attach(x={"big": big})
        run.state["little"] = big.view("<i4")
        for _ in run.steps(1):
            pass
    target = numpy.zeros(4, ">i4")
    with unbroken.Run(run_dir) as run:
        run.attach(x={"big": target})
        run.restore()
        assert bits(target) == bits(big) and alike(run.state["little"], big.view("<i4"))
