"""The typed tree: what goes in comes out, with order and kind; what cannot is refused by its path."""

import json
import math
import random
import struct
from collections import Counter, OrderedDict, defaultdict, deque

import numpy
import pytest
import torch

from unbroken import Misconfigured
from unbroken._state import names, tree


def same(a, b):
    """Equal, of one type, floats by their bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, numpy.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            same(x, y)
            for x, y in zip([i for p in a.items() for i in p], [i for p in b.items() for i in p], strict=True)
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, deque):
        return a.maxlen == b.maxlen and same(list(a), list(b))
    return a == b


def round_trip(value):
    return tree.decode(json.loads(names.canonical(tree.encode(value, "x"))))


def scalar(rng):
    return rng.choice(
        [
            lambda: None, lambda: rng.random() < 0.5, lambda: rng.randrange(-(2**63), 2**64),
            lambda: rng.randrange(-(2**200), 2**200), lambda: struct.unpack(">d", rng.randbytes(8))[0],
            lambda: rng.choice([0.0, -0.0, math.inf, -math.inf, 1e-320, 0.1]), lambda: rng.randbytes(rng.randrange(9)),
            lambda: "".join(chr(rng.choice([9, 34, 46, 92, 97, 233, 0x20AC, 0x1F600, 0xD800])) for _ in range(rng.randrange(6))),
            lambda: complex(rng.random(), -0.0), lambda: numpy.float32(rng.random()), lambda: numpy.int64(rng.randrange(99)),
            lambda: numpy.bool_(True), lambda: torch.bfloat16, lambda: torch.Size([rng.randrange(9), 3]),
        ]
    )()  # fmt: skip


def key(rng):
    return rng.choice(
        [
            rng.randrange(99),
            f"k{rng.random()}",
            str(rng.randrange(9)),
            (rng.randrange(9), "t"),
            rng.randbytes(2),
        ]
    )


def value(rng, depth=0):
    if depth == 4 or rng.random() < 0.4:
        return scalar(rng)
    items = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    pairs = {key(rng): item for item in items}
    return rng.choice(
        [
            lambda: items, lambda: tuple(items), lambda: pairs, lambda: OrderedDict(pairs), lambda: defaultdict(None, pairs),
            lambda: deque(items, rng.choice([None, 5])), lambda: {key(rng) for _ in items},
            lambda: frozenset(key(rng) for _ in items), lambda: Counter({k: rng.randrange(-3, 9) for k in pairs}),
        ]
    )()  # fmt: skip


def test_random_values_come_back():
    rng = random.Random(1)
    for _ in range(3000):
        before = value(rng)
        assert same(before, round_trip(before)), before


def test_order_of_keys_is_kept():
    assert list(round_trip({"b": 1, "a": 2, 3: 3})) == ["b", "a", 3]


def test_nan_payloads_are_kept():
    for bits in (0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001):
        payload = struct.unpack(">d", struct.pack(">Q", bits))[0]
        assert struct.pack(">d", round_trip([payload])[0]) == struct.pack(">d", payload)


@pytest.mark.parametrize("integer", [-(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 2**63, 0, -1])
def test_integers_at_the_edges(integer):
    node = tree.encode(integer)
    assert isinstance(node, dict) == (not -(2**63) <= integer < 2**64)
    assert tree.decode(node) == integer


class Odd(int):
    pass


@pytest.mark.parametrize(
    "bad",
    [
        lambda: 0,
        Odd(3),
        object(),
        numpy.datetime64(0, "s"),
        numpy.str_("a"),
        numpy.longdouble(1),
        defaultdict(list, a=[1]),
        range(3),
        int,
        "\ud83d\ude00",
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_path(bad):
    with pytest.raises(Misconfigured, match=r"^run\.a\.0\.b"):
        tree.encode({"a": [{"b": bad}]}, "run")


def test_depth_is_bounded():
    deep = []
    for _ in range(63):
        deep = [deep]
    assert tree.decode(tree.encode(deep)) == deep
    with pytest.raises(Misconfigured, match="64"):
        tree.encode([deep])


def test_a_value_that_contains_itself_is_refused():
    loop = {"a": []}
    loop["a"].append(loop)
    with pytest.raises(Misconfigured, match=r"x\.a\.0: contains itself"):
        tree.encode(loop, "x")


def test_sets_have_one_spelling():
    items = [f"k{i}" for i in range(50)] + list(range(50))
    first = tree.encode(set(items))
    random.shuffle(items)
    assert tree.encode(set(items)) == first


@pytest.mark.parametrize(
    "key, segment",
    [("a", "a"), ("a.b", r"a\.b"), ("a\\b", r"a\\b"), (1, "1"), ("1", '"1"'), ("-3", '"-3"'), ("", '""'), ('"x', r'"\"x"'),
     ("(x", '"(x"'), (None, "(null)"), (True, "(true)"), ((1, "a"), r'({"tuple":[1,"a"]})'), ("a\nb", r"a\x0ab")],
)  # fmt: skip
def test_segments_of_names(key, segment):
    assert names.segment_of_node(tree.encode(key)) == segment


def test_two_paths_never_have_one_name():
    rng, seen = random.Random(3), {}
    parts = ["a", "b", ".", "\\", '"', "1", "", "(", "1.a", 1, -1, None, True, 0.5, ("1",)]
    for _ in range(20000):
        path = tuple(
            rng.choice(parts) if rng.random() < 0.7 else "".join(map(str, rng.sample(parts[:9], 2))) for _ in range(3)
        )
        name = ""
        for part in path:
            name = names.join(name, names.segment_of_node(tree.encode(part)))
        typed = tuple((type(part), part) for part in path)
        assert seen.setdefault(name, typed) == typed


def test_flatten_gives_every_leaf_by_name():
    node = tree.encode({"a": [1, {"b": 2.5}], "1": (), 1: {"x": None}}, "s")
    assert [name for name, _ in tree.flatten(node, "s")] == ["s.a.0", "s.a.1.b", 's."1"', "s.1.x"]
