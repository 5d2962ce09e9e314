"""Everything that a restore refuses it refuses before anything is written; what it cannot know before stops the run."""

import json
import os
import random
from collections import OrderedDict, deque

import numpy
import pytest
import torch

import unbroken
from helpers import bits
from unbroken import Misconfigured, StateMismatch
from unbroken._state import tensors

SGD = torch.optim.SGD


def first_life(path, steps=1, **named):
    with unbroken.Run(path) as run:
        run.attach(canary=numpy.ones(3), **named)
        for _ in run.steps(steps):
            for optimizer in (value for value in named.values() if isinstance(value, torch.optim.Optimizer)):
                optimizer.step()


def refused(path, kind=(StateMismatch, Misconfigured), late=None, **named):
    """The error of a restore into `named`, after which a live array and the run's directory are as before."""
    canary, files = numpy.zeros(3), sorted(os.listdir(path / "journal")) if path.exists() else None
    with unbroken.Run(path) as run:
        run.attach(canary=canary, **named)
        if late is not None:
            late()
        with pytest.raises(kind) as caught:
            run.restore()
    assert not caught.value.live_is_undefined and caught.value.next_command
    assert canary.tolist() == [0, 0, 0] and run.attempt == 0
    assert files is None or sorted(os.listdir(path / "journal")) == files
    return caught.value


# -- memory that cannot be written element by element


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(1).expand(5), lambda: torch.zeros(3, 1).expand(3, 4), lambda: torch.zeros(6).unfold(0, 3, 1),
        lambda: torch.zeros(8).as_strided((2, 3), (2, 1)), lambda: torch.nn.Parameter(torch.zeros(1).expand(2)),
        lambda: numpy.lib.stride_tricks.as_strided(numpy.zeros(9), (3, 3), (8, 8)),
        lambda: numpy.lib.stride_tricks.as_strided(numpy.zeros(9, "u4"), (3,), (2,)),
        lambda: numpy.broadcast_to(numpy.zeros(1), (3,)), lambda: torch._efficientzerotensor((2,)),
    ],
)  # fmt: skip
def test_what_cannot_be_written_in_place_is_refused_when_it_is_attached(run_dir, make):
    with unbroken.Run(run_dir) as run:
        for value, name in ((make(), "x"), ({"a": [make()]}, r"x\.a\.0"), ((deque([make()])), r"x\.0")):
            with pytest.raises(Misconfigured, match=f"^{name}: .* cannot be restored in place: attach a copy") as caught:
                run.attach(x=value)
            assert caught.value.next_command
        module = torch.nn.Module()
        module.register_buffer("b", torch.zeros(1).expand(5))
        with pytest.raises(Misconfigured, match=r"^m\.b: "):
            run.attach(m=module)
        run.attach(x={})  # the name is free


@pytest.mark.parametrize("value", [torch.zeros(1).expand(5), numpy.broadcast_to(numpy.zeros(1), (5,))])
def test_it_is_refused_at_a_save_and_before_a_restore_too(run_dir, value):
    fresh = (lambda: torch.zeros(5)) if isinstance(value, torch.Tensor) else (lambda: numpy.zeros(5))
    live = {"x": fresh()}
    first_life(run_dir, d=dict(live))
    error = refused(run_dir, Misconfigured, late=lambda: live.update(x=value), d=live)
    assert str(error).startswith("d.x: ")
    with unbroken.Run(run_dir.parent / "other") as run, pytest.raises(Misconfigured, match=r"^d\.x: "):
        live["x"] = fresh()
        run.attach(d=live)
        for _ in run.steps(2):
            live["x"] = value


def test_optimizer_state_that_shares_memory_is_refused_by_its_name(run_dir):
    model = torch.nn.Linear(2, 1)
    optimizer = SGD(model.parameters(), 0.1)
    optimizer.state[model.weight]["m"] = torch.zeros(1).expand(2)
    with pytest.raises(Misconfigured, match=r"^optimizer\.state\.weight\.m: "):
        first_life(run_dir, model=model, optimizer=optimizer)


@pytest.mark.parametrize(
    "shape, strides, size, meets",
    [((5,), (0,), 1, True), ((1, 5), (0, 1), 1, False), ((2, 3), (3, 2), 1, False), ((2, 3), (2, 1), 1, True), ((4,), (-1,), 1, False),
     ((3,), (2,), 4, True), ((3,), (4,), 4, False), ((0, 5), (0, 0), 1, False), ((), (), 1, False), ((3, 2), (2, 3), 1, False),
     ((4, 2), (2, 3), 1, False), ((4, 3), (2, 3), 1, True), ((2000, 2000), (1, 1), 1, True)],
)  # fmt: skip
def test_elements_meet_where_two_of_them_share_a_byte(shape, strides, size, meets):
    assert tensors.do_elements_meet(shape, strides, size) == meets


def test_elements_meet_as_brute_force_says():
    rng = random.Random(4)
    for _ in range(2000):
        shape = [rng.randrange(1, 4) for _ in range(rng.randrange(1, 4))]
        strides = [rng.randrange(-6, 7) for _ in shape]
        places = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in numpy.ndindex(*shape)]
        assert tensors.do_elements_meet(shape, strides, 1) == (len(set(places)) < len(places)), (shape, strides)


# -- every other difference, before the first byte


def test_memory_that_is_gone_is_refused(run_dir):
    first_life(run_dir, x={"a": torch.zeros(4)})
    freed = torch.zeros(4)
    freed.untyped_storage().resize_(0)
    assert "freed" in str(refused(run_dir, Misconfigured, x={"a": freed}))
    freed = torch.zeros(9)[5:]
    freed.untyped_storage().resize_(0)
    assert "freed" in str(refused(run_dir, Misconfigured, x={"a": freed}))
    assert "meta" in str(refused(run_dir, Misconfigured, x={"a": torch.zeros(4, device="meta")}))


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_is_refused_as_such(run_dir, layout):
    value = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=layout)
    with unbroken.Run(run_dir.parent / "fresh") as run, pytest.raises(Misconfigured) as caught:
        run.attach(x={"a": value})
        for _ in run.steps(1):
            pass
    first_life(run_dir, x={"a": torch.zeros(5)})
    for error in (caught.value, refused(run_dir, Misconfigured, x={"a": value})):
        message = str(error)
        assert message.startswith("x.a: ") and "nested tensors are not supported" in message and "padded" in message


def test_a_list_that_grew_is_sent_to_the_state(run_dir):
    first_life(run_dir, x=deque([1, 2]), y={"losses": [0.5]})
    message = str(refused(run_dir, StateMismatch, x=deque(), y={"losses": []}))
    assert "x has 2 items in the checkpoint and 0 here; y.losses has 1 items" in message and "run.state" in message


@pytest.mark.parametrize(
    "saved, live, name",
    [
        ({"a": 1}, {}, "x.a"), ([1, 2], [1], "x.1"), ([1], [1, 2], "x.1"), ({}, {"a": 1}, "x.a"), (deque([1]), deque(), "x.0"),
        ({"a": (1, 2)}, {"a": (1,)}, "x.a.1"), ({"a": {"b": [1]}}, {"a": {"b": []}}, "x.a.b.0"),
        ({"a": 1}, {"a": 1.0}, "x.a"), ({"a": 1}, {"a": True}, "x.a"), ({"a": 1}, {"a": "1"}, "x.a"), ({"a": b""}, {"a": ""}, "x.a"),
        ({"a": [1]}, {"a": (1,)}, "x.a"), ({"a": {}}, {"a": []}, "x.a"), ({"a": {}}, {"a": OrderedDict()}, "x.a"),
        ({"a": None}, {"a": []}, "x.a"), ({"a": []}, {"a": None}, "x.a"), ({"a": {1}}, {"a": frozenset()}, "x.a"),
        ({"a": deque([], 2)}, {"a": deque([], 3)}, "x.a"), ({"a": numpy.float32(1)}, {"a": numpy.float64(1)}, "x.a"),
        ({"a": numpy.float64(1)}, {"a": 1.0}, "x.a"), ({"a": torch.int8}, {"a": "int8"}, "x.a"),
        ({"a": numpy.zeros(1)}, {"a": None}, "x.a"), ({"a": 5}, {"a": numpy.zeros(1)}, "x.a"),
        ({"a": torch.zeros(2)}, {"a": numpy.zeros(2, "f4")}, "x.a"), ({"a": numpy.zeros(2, "f4")}, {"a": torch.zeros(2)}, "x.a"),
        ({"a": numpy.zeros(2)}, {"a": numpy.zeros(3)}, "x.a"), ({"a": numpy.zeros(2)}, {"a": [0.0, 0.0]}, "x.a"),
        ({"a": (numpy.zeros(1), 1)}, {"a": (numpy.zeros(1), 1.5)}, "x.a.1"), ({"a": random.Random(1)}, {"a": 1}, "x.a"),
        ({"a": numpy.random.PCG64(1)}, {"a": numpy.random.SFC64(1)}, "x.a"), ({"a": 1}, {"a": random.Random(1)}, "x.a"),
    ],
)  # fmt: skip
def test_keys_lengths_and_sorts_must_agree(run_dir, saved, live, name):
    before = bits(live)
    first_life(run_dir, x=saved)
    error = refused(run_dir, StateMismatch, x=live)
    assert {*error.missing, *error.unread, *(n for n, _, _ in error.changed)} and str(error).count(name)
    assert all(n == name or n.startswith(name + ".") for n in (*error.missing, *error.unread))
    assert all(n == name and left != right for n, left, right in error.changed)
    assert bits(live) == before


def test_both_sides_of_a_difference_say_their_sort(run_dir):
    first_life(run_dir, x={"a": torch.zeros(2), "b": 1})
    error = refused(run_dir, x={"a": numpy.zeros(2, "f4"), "b": 1.0})
    assert error.changed == [("x.a", "torch tensor F32[2]", "numpy array F32[2]"), ("x.b", "int 1", "float 1.0")]


def test_none_stands_for_a_value_that_is_not_there_yet(run_dir):
    first_life(run_dir, x={"best": 0.5, "gone": None, "seen": {1, 2}})
    live = {"best": None, "gone": 3, "seen": set()}
    with unbroken.Run(run_dir) as run:
        run.attach(canary=numpy.zeros(3), x=live)
        run.restore()
    assert live == {"best": 0.5, "gone": None, "seen": {1, 2}}


def test_streams_that_were_spawned_cannot_be_taken_back(run_dir):
    first_life(run_dir, g=numpy.random.default_rng(1))
    live = numpy.random.default_rng(1)
    live.spawn(2)
    assert refused(run_dir, g=live).changed == [("g", "0 streams spawned", "2 streams spawned")]


def test_something_else_under_the_name_of_an_object(run_dir):
    model = torch.nn.Linear(2, 1)
    optimizer = SGD(model.parameters(), 0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3])
    shapes = [{}, [1], {"param_groups": {"a": 1}, "state": 1}, {"state": [], "param_groups": [1]}, {"base_lrs": 1}, [numpy.zeros(2)]]
    for i, shape in enumerate(shapes):
        first_life(run_dir / str(i), model=model, x=shape)
        for live in (optimizer, scheduler, torch.nn.Linear(1, 1), torch.nn.ReLU(), random.Random(1), torch.amp.GradScaler("cpu")):
            if i > 0 or not isinstance(live, torch.nn.ReLU):  # which has no state either
                refused(run_dir / str(i), StateMismatch, model=model, x=live)


def constant(_):
    return 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, [constant] * len(o.param_groups)),
        lambda o: torch.optim.lr_scheduler.MultiplicativeLR(o, [constant] * len(o.param_groups)),
        lambda o: torch.optim.lr_scheduler.StepLR(o, 2),
    ],
)
def test_a_scheduler_of_other_groups(run_dir, make):
    p, q = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    first_life(run_dir, s=make(SGD([{"params": [p]}, {"params": [q]}], 0.1)))
    error = refused(run_dir, StateMismatch, s=make(SGD([p], 0.1)))
    assert ("s.base_lrs", "2 items", "1 items") in error.changed


def edited(fake, path, edit):
    """Changes the saved tree of the newest checkpoint."""
    checkpoint = fake.DISK[str(path)]["checkpoints"][-1]
    tree = json.loads(checkpoint["tree"])
    edit(dict(tree["dict"]))
    checkpoint["tree"] = json.dumps(tree)


def shortened(node, *path):
    """Halves the bytes below a path of keys."""
    for key in path:
        node = dict((json.dumps(k), v) for k, v in node["dict"])[json.dumps(key)]
    node = node["tuple"][1] if "tuple" in node else node
    node["bytes"] = node["bytes"][: len(node["bytes"]) // 4 * 2]


@pytest.mark.parametrize(
    "root, path",
    [("rng", ["python", "words"]), ("rng", ["numpy", "state", "key"]), ("rng", ["torch", "cpu"]), ("t", []), ("r", ["words"]),
     ("n", ["state", "key"])],
)  # fmt: skip
def test_a_state_that_a_generator_refuses(run_dir, fake, root, path):
    def make(seed):
        return {"t": torch.Generator().manual_seed(seed), "r": random.Random(seed), "n": numpy.random.MT19937(seed)}

    first_life(run_dir, **make(1))
    edited(fake, run_dir, lambda roots: shortened(roots[root], *path))
    live = make(2)
    before = live["t"].get_state().tolist(), live["r"].getstate(), random.getstate(), torch.get_rng_state().tolist()
    error = refused(run_dir, StateMismatch, **live)
    assert [name.split(".")[0] for name, _, _ in error.changed] == [root]
    assert before == (live["t"].get_state().tolist(), live["r"].getstate(), random.getstate(), torch.get_rng_state().tolist())


def test_values_that_nothing_can_read_are_refused_first(run_dir, fake):
    first_life(run_dir, x={"a": b"12"})
    edited(fake, run_dir, lambda roots: roots["x"]["dict"][0].__setitem__(1, {"bytes": "xyz"}))
    refused(run_dir, unbroken.CorruptCheckpoint, x={"a": b""})


# -- what cannot be known before


class Fussy:
    def __init__(self, refuses=False):
        self.refuses = refuses

    def state_dict(self):
        return {"a": 1}

    def load_state_dict(self, state):
        if self.refuses:
            raise ValueError("no")


class FussyModule(torch.nn.Linear):
    def get_extra_state(self):
        return {"a": 1}

    def set_extra_state(self, state):
        raise OSError("no")


def is_stopped(run):
    for call in (lambda: run.steps(9), run.restore, lambda: run.step(), run.save, lambda: run.attach(z={})):
        with pytest.raises(Misconfigured, match="undefined") as caught:
            call()
        assert caught.value.next_command == f"unbroken ls {run.path}"


@pytest.mark.parametrize("make", [lambda refuses: Fussy(refuses), lambda _: FussyModule(1, 1)])
def test_an_object_that_refuses_at_the_end_stops_the_run(run_dir, make):
    first_life(run_dir, x=make(False))
    newest = unbroken.load(run_dir).name
    with unbroken.Run(run_dir) as run:
        run.attach(canary=numpy.zeros(3), x=make(True))
        with pytest.raises(StateMismatch, match="undefined: start this program again") as caught:
            run.restore()
        assert caught.value.live_is_undefined and caught.value.next_command
        is_stopped(run)
    assert unbroken.load(run_dir).name == newest


def test_a_late_one_stops_the_run_within_its_body(run_dir):
    first_life(run_dir, x=Fussy())
    newest = unbroken.load(run_dir).name
    with unbroken.Run(run_dir) as run:
        run.attach(canary=numpy.zeros(3))
        run.restore()
        with pytest.raises(Misconfigured, match="undefined"):
            for _ in run.steps(9):
                with pytest.raises(StateMismatch) as caught:
                    run.attach(x=Fussy(True))
                assert caught.value.live_is_undefined
        is_stopped(run)
    assert unbroken.load(run_dir).name == newest


def test_a_late_difference_changes_nothing_and_stops_nothing(run_dir):
    first_life(run_dir, x={"a": numpy.ones(1)})
    with unbroken.Run(run_dir) as run:
        run.attach(canary=numpy.zeros(3))
        run.restore()
        with pytest.raises(StateMismatch) as caught:
            run.attach(x={"a": numpy.zeros(2)})
        assert not caught.value.live_is_undefined
        run.attach(x={"a": numpy.zeros(1)})
        for _ in run.steps(2):
            pass


def test_an_older_checkpoint_that_does_not_fit_after_a_damaged_one(run_dir, fake):
    x = {"a": numpy.ones(2)}
    with unbroken.Run(run_dir, every=1) as run:
        run.attach(x=x)
        for _ in run.steps(2):
            x["b"] = 1
    checkpoints = fake.DISK[str(run_dir)]
    checkpoints["damaged"] = {"2.a1"}
    edited_tree = json.loads(checkpoints["checkpoints"][0]["tree"])
    dict(edited_tree["dict"])["x"]["dict"].pop()
    checkpoints["checkpoints"][0]["tree"] = json.dumps(edited_tree)
    with unbroken.Run(run_dir) as run:
        run.attach(x={"a": numpy.zeros(2), "b": 0})
        with pytest.raises(StateMismatch, match="undefined") as caught:
            run.restore()
        assert caught.value.live_is_undefined and caught.value.missing == ["x.b"]
        is_stopped(run)
    with pytest.raises(StateMismatch):
        unbroken.load(run_dir, into={"x": {"a": numpy.zeros(2), "b": 0}})


def test_load_into_says_when_the_live_objects_are_undefined(run_dir):
    first_life(run_dir, x=Fussy())
    with pytest.raises(StateMismatch, match="undefined") as caught:
        unbroken.load(run_dir, into={"x": Fussy(True)})
    assert caught.value.live_is_undefined
    canary = numpy.zeros(4)
    with pytest.raises(StateMismatch) as caught:
        unbroken.load(run_dir, into={"x": Fussy(True), "canary": canary})
    assert not caught.value.live_is_undefined


# -- what would come back as something else


@pytest.mark.parametrize("shared", [[], {}, deque(), {1}, OrderedDict()], ids=lambda value: type(value).__name__)
def test_one_container_in_two_places_of_the_state_is_refused(run_dir, shared):
    with unbroken.Run(run_dir) as run:
        run.attach(w=numpy.zeros(1))
        run.restore()
        run.state.update(queue=shared, seen=[0, (shared,)])
        with pytest.raises(Misconfigured, match=r"^state\.seen\.1\.0: is one \w+ with state\.queue") as caught:
            run.step()
    assert caught.value.next_command


def test_equal_containers_and_shared_arrays_may_stand_in_two_places(run_dir):
    array = numpy.zeros(2)
    with unbroken.Run(run_dir) as run:
        run.restore()
        run.state.update(a=[1], b=[1], c=(), d=(), e=array, f=array)
        run.step()
        run.save()
    state = unbroken.load(run_dir)["state"]
    assert state["a"] == state["b"] == [1] and state["e"] is state["f"]


@pytest.mark.parametrize("name", ["a\nb", "a\x7f", "\x85"])
def test_a_parameter_with_a_control_character_in_its_name_is_refused_by_name(run_dir, name):
    module = torch.nn.Module()
    module.register_parameter(name, torch.nn.Parameter(torch.zeros(2)))
    with unbroken.Run(run_dir) as run:
        with pytest.raises(Misconfigured, match="control character") as caught:
            run.attach(module=module)
            run.restore()
            run.step()
        assert ascii(name)[1:-1] in str(caught.value)
