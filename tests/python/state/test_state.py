"""Plain state and NumPy: in place, strictly, by bits; nothing is restored that does not fit."""

import random
from collections import Counter, OrderedDict, deque

import numpy
import pytest

import unbroken
from helpers import bits, stops_at
from unbroken import Misconfigured, StateMismatch


def first_life(path, steps=2, **named):
    """Runs to `steps` and leaves a checkpoint of what is attached."""
    with unbroken.Run(path) as run:
        run.attach(**named)
        for _ in run.steps(steps):
            pass


def second_life(path, **named):
    """Restores; what is attached is filled."""
    with unbroken.Run(path) as run:
        run.attach(**named)
        return run.restore()


def there_and_back(path, before, after):
    first_life(path, x=before)
    second_life(path, x=after)
    return after


def test_arrays_are_filled_in_place(run_dir):
    before = {
        "w": numpy.arange(12.0).reshape(3, 4),
        "n": numpy.array(7),
        "e": numpy.zeros((0, 3), numpy.int8),
    }
    after = {key: numpy.zeros_like(array) for key, array in before.items()}
    arrays = dict(after)
    there_and_back(run_dir, before, after)
    assert bits(after) == bits(before)
    assert all(after[key] is arrays[key] for key in after)


def test_an_array_alone_and_views(run_dir):
    base = numpy.arange(60, dtype=numpy.float32).reshape(6, 10)
    for i, make in enumerate(
        [lambda a: a[::2, 1:7], lambda a: a.T, lambda a: a[::-1], lambda a: a[:, 3], lambda a: a[2:4]]
    ):
        target = numpy.zeros_like(base)
        there_and_back(run_dir / str(i), make(base), make(target))
        assert numpy.array_equal(make(base), make(target))
        outside = numpy.ones_like(base, bool)
        make(outside)[...] = False
        assert not target[outside].any()


@pytest.mark.parametrize(
    "dtype",
    [
        "?",
        "u1",
        "i1",
        "<u2",
        "<i2",
        "<u4",
        "<i4",
        "<u8",
        "<i8",
        "<f2",
        "<f4",
        "<f8",
        "<c8",
        "<c16",
        ">f4",
        ">i8",
        ">c16",
    ],
)
def test_every_numpy_dtype(run_dir, dtype):
    before = (
        numpy.frombuffer(random.Random(1).randbytes(16 * 8), dtype).copy()
        if dtype != "?"
        else numpy.array([True, False])
    )
    after = there_and_back(run_dir, {"a": before}, {"a": numpy.zeros_like(before)})
    assert after["a"].tobytes() == before.tobytes()


@pytest.mark.parametrize(
    "bad",
    [
        numpy.array([object()]),
        numpy.zeros(2, "U3"),
        numpy.zeros(2, [("a", "f4")]),
        numpy.zeros(2, "M8[s]"),
        numpy.matrix([[1]]),
    ],
)
def test_arrays_that_cannot_be_kept(run_dir, bad):
    with pytest.raises(Misconfigured, match=r"x\.deep\.0"):
        first_life(run_dir, x={"deep": [bad]})


def test_containers_come_back_in_place_and_in_order(run_dir):
    def make(filled):
        value = {
            "b": 1,
            "a": [1.5, 2],
            "nested": {"t": (1, 2)},
            "o": OrderedDict(y=0, z=0),
            "seen": set(),
            "q": deque([0, 0, 0], maxlen=3),
            "c": Counter(a=1, b=2),
            "rich": (numpy.full(2, float(filled)), 5 + filled),
        }
        if filled:
            value["a"][0] = 0.25
            value["nested"]["t"] = (3, None)
            value["b"] = 10**30
            value["o"] = OrderedDict(z=1, y=2)
            value["seen"] |= {1, "x", (2, 3)}
            value["q"].extend([1, 2, 3, 4])
            value["c"].update("abba")
        return value

    before, after = make(True), make(False)
    inner = {key: after[key] for key in ("a", "nested", "o", "seen", "q", "c")}
    there_and_back(run_dir, before, after)
    assert bits(after) == bits(before)
    assert list(after) == list(before)
    assert all(after[key] is inner[key] for key in inner)
    assert type(after["o"]) is OrderedDict and list(after["o"]) == ["z", "y"]


def test_two_names_of_one_array_stay_one(run_dir):
    w = numpy.arange(4.0)
    first_life(run_dir, x={"a": w, "b": w, "c": w[1:]})
    v = numpy.zeros(4)
    second_life(run_dir, x={"a": v, "b": v, "c": v[1:]})
    assert v.tolist() == [0, 1, 2, 3]
    with pytest.raises(StateMismatch) as caught:
        second_life(run_dir, x={"a": v, "b": v.copy(), "c": v[1:]})
    assert caught.value.changed == [("x.b", "F64[4] tied to x.a", "F64[4] of its own")]


def test_separate_arrays_may_not_become_one(run_dir):
    first_life(run_dir, x={"a": numpy.zeros(4), "b": numpy.ones(4)})
    v = numpy.zeros(4)
    with pytest.raises(StateMismatch) as caught:
        second_life(run_dir, x={"a": v, "b": v})
    assert caught.value.changed == [("x.b", "F64[4] of its own", "F64[4] tied to x.a")]


def test_a_mismatch_names_everything_and_changes_nothing(run_dir):
    first_life(run_dir, x={"same": numpy.ones(2), "shape": numpy.ones((3, 4), numpy.float32), "dtype": numpy.ones(2, numpy.float32),
                           "gone": numpy.ones(1), "kind": numpy.ones(1), "plain": 3})  # fmt: skip
    live = {"same": numpy.zeros(2), "shape": numpy.zeros((4, 3), numpy.float32), "dtype": numpy.zeros(2), "new": numpy.zeros(5),
            "kind": 5, "plain": 4, "more": [1, 2]}  # fmt: skip
    before = bits(live)
    with pytest.raises(StateMismatch) as caught:
        second_life(run_dir, x=live)
    error = caught.value
    assert error.missing == ["x.more.0", "x.more.1", "x.new"]
    assert error.unread == ["x.gone"]
    assert error.changed == [
        ("x.dtype", "F32[2]", "F64[2]"),
        ("x.kind", "F64[1]", "5"),
        ("x.shape", "F32[3,4]", "F32[4,3]"),
    ]
    for name in [*error.missing, *error.unread, "x.dtype", "x.shape", "F32[3,4]", "F32[4,3]"]:
        assert name in str(error)
    assert bits(live) == before
    assert (error.exit_code, error.kind) == (65, "StateMismatch")


def test_an_object_that_was_forgotten_is_noticed_before_anything_is_saved(run_dir):
    first_life(run_dir, x={"a": 1}, y={"b": numpy.ones(2), "c": 2})
    run = unbroken.Run(run_dir)
    run.attach(x={"a": 0})
    with pytest.raises(StateMismatch) as caught:
        run.steps(5)
    assert caught.value.unread == ["y.b", "y.c"]
    assert run.restore() == unbroken.load(run_dir).step  # after that, anything may be attached
    loop, newest = iter(run.steps(5)), run.newest
    next(loop)
    with pytest.raises(StateMismatch) as caught:
        next(loop)
    assert caught.value.unread == ["y.b", "y.c"]
    assert run.newest == newest
    run.close()


def test_an_object_attached_after_restore_is_given_its_part(run_dir):
    shared = numpy.arange(3.0)
    first_life(run_dir, x={"s": shared}, y={"b": numpy.ones(2), "t": shared, "n": 5})
    with unbroken.Run(run_dir) as run:
        x, y = {"s": numpy.zeros(3)}, {"b": numpy.zeros(2), "t": None, "n": 0}
        y["t"] = x["s"]
        run.attach(x=x)
        run.restore()
        run.attach(y=y)
        assert y["b"].tolist() == [1, 1] and y["n"] == 5 and y["t"].tolist() == [0, 1, 2]
        with pytest.raises(StateMismatch, match="new"):
            run.attach(new={"q": 1})
        for _ in run.steps(4):
            pass


def test_run_state_replaces_its_content(run_dir, capsys):
    with unbroken.Run(run_dir) as run:
        state = run.state
        for step in run.steps(3):
            state["best"] = {"loss": 0.5, "at": step, "w": numpy.full(2, step)}
    with unbroken.Run(run_dir) as run:
        run.state.update(best=None, mine=7)
        state = run.state
        run.restore()
        assert run.state is state
        assert bits(state) == bits({"best": {"loss": 0.5, "at": 2, "w": numpy.full(2, 2)}, "mine": 7})
    assert "state.mine" in capsys.readouterr().err


GENERATORS = {
    "random": lambda seed: random.Random(seed),
    "pcg": lambda seed: numpy.random.default_rng(seed),
    "philox": lambda seed: numpy.random.Generator(numpy.random.Philox(seed)),
    "sfc": lambda seed: numpy.random.Generator(numpy.random.SFC64(seed)),
    "mt": lambda seed: numpy.random.Generator(numpy.random.MT19937(seed)),
    "legacy": lambda seed: numpy.random.RandomState(seed),
    "bits": lambda seed: numpy.random.PCG64DXSM(seed),
}


def draw(generator):
    if isinstance(generator, numpy.random.BitGenerator):
        return generator.random_raw(5).tolist()
    if isinstance(generator, random.Random):
        return [generator.gauss(0, 1), generator.random(), generator.getrandbits(7)]
    values = generator.normal(size=3).tolist()
    return (
        values
        + (generator.integers(99, size=3) if hasattr(generator, "integers") else generator.randint(99, size=3)).tolist()
    )


@pytest.mark.failure("cselab/korali#341")
def test_attached_generators_go_on(run_dir):
    before = {name: make(1) for name, make in GENERATORS.items()}
    for generator in before.values():
        draw(generator)
    first_life(run_dir, g=before, alone=before["pcg"])
    after = {name: make(2) for name, make in GENERATORS.items()}
    second_life(run_dir, g=after, alone=after["pcg"])
    for name in GENERATORS:
        assert draw(before[name]) == draw(after[name]), name


def test_spawned_streams_go_on(run_dir):
    before = numpy.random.default_rng(5)
    before.spawn(3)
    first_life(run_dir, g=before)
    after = numpy.random.default_rng(5)
    second_life(run_dir, g=after)
    assert draw(before.spawn(1)[0]) == draw(after.spawn(1)[0])


def test_another_sort_of_generator_is_a_mismatch(run_dir):
    first_life(run_dir, g=numpy.random.default_rng(5))
    for other in (
        numpy.random.Generator(numpy.random.MT19937(1)),
        random.Random(2),
        numpy.random.RandomState(1),
    ):
        with pytest.raises(StateMismatch):
            second_life(run_dir, g=other)


@pytest.mark.failure("huggingface/transformers#11582", "huggingface/transformers#40500")
def test_global_generators_go_on_without_being_asked(run_dir):
    import torch

    def draws():
        return (
            random.random(),
            random.gauss(0, 1),
            numpy.random.normal(),
            torch.randn(3).tolist(),
            torch.randint(9, (2,)).tolist(),
        )

    def life(seed, steps):
        random.seed(seed), numpy.random.seed(seed), torch.manual_seed(seed)
        seen = []
        with stops_at(steps), unbroken.Run(run_dir) as run:
            for _ in run.steps(10):
                seen.append(draws())
        return seen

    straight_dir, resumed = run_dir.parent / "straight", []
    resumed += life(1, 3)
    resumed += life(2, 7)
    resumed += life(3, 10)
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    with unbroken.Run(straight_dir) as run:
        straight = [draws() for _ in run.steps(10)]
    assert resumed == straight


class Ema:
    def __init__(self):
        self.shadow, self.count = [numpy.zeros(3)], 0

    def state_dict(self):
        return {"shadow": self.shadow, "count": self.count, "blob": b"\0\1"}

    def load_state_dict(self, state):
        if state["count"] < 0:
            raise ValueError("negative")
        self.shadow, self.count = list(state["shadow"]), state["count"]


def test_objects_with_a_state_dict_get_it_back_whole(run_dir):
    before, after = Ema(), Ema()
    before.shadow, before.count = [numpy.ones(3), numpy.ones(5)], 4  # another size than the fresh one
    first_life(run_dir, x=[before])
    second_life(run_dir, x=[after])
    assert bits(after.state_dict()) == bits(before.state_dict())


def test_what_such_an_object_refuses_is_a_mismatch(run_dir):
    before = Ema()
    before.count = -1
    first_life(run_dir, x=before)
    with pytest.raises(StateMismatch, match="negative"):
        second_life(run_dir, x=Ema())


@pytest.mark.parametrize("value", [3, "text", None, (1, 2), object(), lambda: 0, {}.keys()])
def test_what_cannot_be_attached(run_dir, value):
    run = unbroken.Run(run_dir)
    with pytest.raises(Misconfigured, match="attach: 'x'"):
        run.attach(x=value)


def test_names_are_taken_once(run_dir):
    run = unbroken.Run(run_dir)
    run.attach(x={})
    for name in ("x", "rng", "run", "state"):
        with pytest.raises(Misconfigured, match=name):
            run.attach(**{name: {}})


def some_state(rng, depth=0):
    """A random nested state, and the same with every array zeroed and every plain value replaced."""
    kind = rng.choice(["array", "array", "number", "text", "dict", "list"] if depth < 3 else ["array", "number"])
    if kind == "array":
        dtype = rng.choice(["f4", "f8", "i8", "u1", "c16", "f2"])
        shape = tuple(rng.randrange(4) for _ in range(rng.randrange(4)))
        size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        value = numpy.frombuffer(rng.randbytes(size), dtype).reshape(shape).copy()
        if rng.random() < 0.3:
            value = value.T
        return value, numpy.zeros_like(value)
    if kind == "number":
        return rng.choice([(rng.random(), 0.0), (rng.randrange(10**30), 0), (None, 0), (True, False), (2.5, None)])
    if kind == "text":
        return "".join(rng.choices('ab.\\"1', k=3)), ""
    parts = [some_state(rng, depth + 1) for _ in range(rng.randrange(1, 5))]
    if kind == "list":
        return [a for a, _ in parts], [b for _, b in parts]
    keys = rng.sample(["a", "b", "a.b", "1", 1, (1, "x"), "", None, "\\", '"q"', 2.5], len(parts))
    return (
        {k: a for k, (a, _) in zip(keys, parts, strict=True)},
        {k: b for k, (_, b) in zip(keys, parts, strict=True)},
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_states_come_back(run_dir, seed):
    rng = random.Random(seed)
    before, after = (
        {f"k{i}": part for i, part in enumerate(side)}
        for side in zip(*[some_state(rng) for _ in range(3)], strict=True)
    )
    there_and_back(run_dir, before, after)
    assert bits(after) == bits(before)
