"""A capture that remembers the last one is the capture that remembers nothing, whatever was done to the objects between."""

import json
import weakref
from collections import OrderedDict

import numpy
import pytest
import torch
from torch import nn

import unbroken
from unbroken import _native, functional
from unbroken._state.attached import OURS, Attached
from unbroken._state.taking.crossing import crossing
from unbroken._state.taking.memory import Memory
from unbroken.errors import Misconfigured


NAMES = ("optimizer", "net", "named", "complex", "arrays")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x):
        return self.second(self.first(x))


class World:
    def __init__(self):
        torch.manual_seed(0)
        self.net = Net()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.1)
        self.named = {"a": torch.randn(4, 4), "b": torch.randn(4, 4), "c": [torch.randn(2), {"d": 1, "e": 0.0}]}
        self.named["k"] = {1: torch.randn(2)}
        self.complex = {"z": torch.randn(3, dtype=torch.complex64), "r": torch.randn(3)}
        self.arrays = {"x": numpy.arange(6.0), "y": numpy.arange(6.0)}
        self.step()
        self.attached = self.registry()

    def step(self):
        self.net(torch.randn(3, 4)).sum().backward()
        self.optimizer.step()

    def registry(self):
        attached = Attached(_native.core.digests)
        for name in NAMES:
            attached.add(name, getattr(self, name))
        return attached


def seen(registry):
    """All that is saved, by name."""
    try:
        capture = registry().capture()
    except Misconfigured as error:
        return str(error)
    digests = zip(capture.tensors, _native.core.digests(capture.tensors), strict=True)
    stored = {entry[0]: (entry[1:4], digest) for entry, digest in digests}
    return stored, dict(capture.aliases), {capture.tensors[i][0] for i in capture.parameters}, capture.tree


def _set(**values):
    def change(world):
        for name, make in values.items():
            world.named[name] = make(world.named[name])

    return change


def _data(make, where=lambda world: world.net.first.weight):
    def change(world):
        tensor = where(world)
        tensor.data = make(tensor.data)

    return change


def _swap(world):
    torch.utils.swap_tensors(world.named["a"], world.named["b"])


def _reorder(world):
    world.named["a"] = world.named.pop("a")


def _rename(world):
    first = world.net.first
    first._parameters["other"] = first._parameters.pop("weight")


def _tie(world):
    world.net.second.weight.data = world.net.second.bias.data


def _untie(world):
    _tie(world)
    world.attached.capture()
    _data(torch.clone, lambda world: world.net.second.weight)(world)


def _exchange(world):
    """Two parameters with one memory change places: the state of the one has the other's name then."""
    second = world.net.second
    _tie(world)
    group = world.optimizer.param_groups[0]
    group["params"] = [one for one in group["params"] if one is not second.bias]
    del world.optimizer.state[second.bias]
    seen(lambda: world.attached)
    second.weight, second.bias = second.bias, second.weight


def _replace_module(world):
    world.net.first = nn.Linear(4, 4)
    world.optimizer.param_groups[0]["params"][:2] = list(world.net.first.parameters())
    world.optimizer.state.clear()


def _resize_array(world):
    world.arrays["x"].resize(8, refcheck=False)


CHANGES = {
    "nothing": lambda world: None,
    "a step": World.step,
    "values": lambda world: world.named["a"].add_(1),
    "another tensor": _set(a=torch.clone),
    "another dtype": _set(a=torch.Tensor.double),
    "a number for a tensor": _set(a=lambda _: 1),
    "True for 1": lambda world: world.named["c"][1].update(d=True),
    "-0.0 for 0.0": lambda world: world.named["c"][1].update(e=-0.0),
    "another number": lambda world: world.named["c"][1].update(d=7),
    "a key less": lambda world: world.named.pop("a"),
    "a key more": _set(c=lambda old: [*old, torch.ones(1)]),
    "another order": _reorder,
    "an item moved": lambda world: world.named["c"].reverse(),
    "a list within itself": lambda world: world.named["c"].append(world.named["c"]),
    "data": _data(torch.clone),
    "data transposed where it is": _data(torch.t),
    "data of another shape where it is": _data(lambda data: data.view(2, 8), lambda world: world.named["a"]),
    "data of fewer rows where it is": _data(lambda data: data[:2]),
    "data of another dtype where it is": _data(lambda data: data.view(torch.int32), lambda world: world.named["a"]),
    "data conjugated where it is": _data(torch.conj, lambda world: world.complex["z"]),
    "data negated where it is": _data(torch._neg_view, lambda world: world.complex["r"]),
    "set_": lambda world: world.named["a"].set_(torch.ones(16), 0, (4, 4)),
    "set_ to an offset": lambda world: world.named["a"].set_(world.named["a"].untyped_storage(), 4, (3, 4)),
    "resize_": lambda world: world.named["a"].resize_(8, 8),
    "freed": lambda world: world.named["a"].untyped_storage().resize_(0),
    "freed in the optimizer": lambda world: next(iter(world.optimizer.state.values()))["exp_avg"].untyped_storage().resize_(0),
    "a bigger storage": lambda world: world.named["a"].untyped_storage().resize_(4096),
    "swapped": _swap,
    "tied": _tie,
    "untied": _untie,
    "exchanged": _exchange,
    "expanded": _data(lambda data: data[:1].expand(4, 4)),
    "another parameter": lambda world: setattr(world.net.first, "bias", nn.Parameter(torch.zeros(4))),
    "no parameter": lambda world: setattr(world.net.first, "bias", None),
    "a buffer more": lambda world: world.net.register_buffer("more", torch.ones(1)),
    "a buffer no longer kept": lambda world: world.net.second._non_persistent_buffers_set.add("running_mean"),
    "a parameter renamed": _rename,
    "another module": _replace_module,
    "frozen": lambda world: world.net.first.weight.requires_grad_(False),
    "evaluating": lambda world: world.net.second.eval(),
    "another scratch": lambda world: world.net.scratch.add_(1),
    "a rate": lambda world: world.optimizer.param_groups[0].update(lr=0.5),
    "a rate in a tensor": lambda world: world.optimizer.param_groups[0].update(lr=torch.tensor(0.5)),
    "a parameter of nobody": lambda world: world.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]}),
    "order of a group": lambda world: world.optimizer.param_groups[0]["params"].reverse(),
    "no state": lambda world: world.optimizer.state.clear(),
    "less state": lambda world: world.optimizer.state.pop(world.net.first.weight),
    "other state": lambda world: world.optimizer.state[world.net.first.weight].update(count=3),
    "state of others": lambda world: world.optimizer.state.update({"count": 3}),
    "another state": lambda world: world.optimizer.load_state_dict(world.optimizer.state_dict()),
    "another array": lambda world: world.arrays.update(x=numpy.ones(6)),
    "an array resized": _resize_array,
    "an array of another shape": lambda world: setattr(world.arrays["x"], "shape", (2, 3)),
    "an array that is read only": lambda world: world.arrays["x"].setflags(write=False),
    "True for a key 1": lambda world: world.named["k"].update({True: world.named["k"].pop(1)}),
    "a text for a key 1": lambda world: world.named["k"].update({"1": world.named["k"].pop(1)}),
    "an ordered dict for a dict": _set(k=OrderedDict),
    "an array for a tensor": lambda world: world.named.update(a=world.named["a"].numpy()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_capture_after_a_change_is_that_of_a_registry_that_saw_nothing_before(change):
    world = World()
    for _ in range(2):
        seen(lambda: world.attached)
    change(world)
    for _ in range(3):
        assert seen(lambda: world.attached) == seen(world.registry)
        world.net.second.bias.data.add_(1)


def stored(path):
    """All that the newest checkpoint holds, but for what is ours and differs anyway."""
    reader = _native.core.Reader(str(path), "newest")
    saved, tree = reader.saved, json.loads(reader.saved.tree)["dict"]
    reader.close()
    tensors = {name: (dtype, tuple(shape), digest) for name, dtype, shape, _, digest in saved.tensors}
    return tied(tensors, saved.alias), [pair for pair in tree if pair[0] not in OURS]


def tied(tensors, aliases):
    """By all names of each: which of them the bytes are stored under is no matter."""
    names = {name: [name] for name in tensors}
    for alias, of in aliases:
        names[of].append(alias)
    return {tuple(sorted(names[name])): seen for name, seen in tensors.items()}


def due(capture):
    """What a checkpoint of it has to hold."""
    digests = zip(capture.tensors, _native.core.digests(capture.tensors), strict=True)
    tensors = {entry[0]: (entry[1], tuple(entry[2]), digest) for entry, digest in digests}
    return tied(tensors, capture.aliases), [pair for pair in capture.tree if pair[0] not in OURS]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_checkpoint_after_a_change_holds_what_a_registry_finds_that_saw_nothing_before(change, run_dir):
    world = World()
    with unbroken.Run(run_dir, every=10**6) as run:
        run.attach(**{name: getattr(world, name) for name in NAMES})
        run.restore()

        def is_saved():
            world.optimizer.zero_grad()
            run.step()
            try:
                run.save()
            except Misconfigured as error:
                assert str(error).endswith(seen(world.registry))
            else:
                assert stored(run_dir) == due(world.registry().capture())

        for _ in range(2):  # what the second save finds again it gives to the core, which has it from then on
            is_saved()
        change(world)
        for _ in range(3):
            is_saved()
            world.net.second.bias.data.add_(1)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_save_is_given_again_after_a_change_is_what_it_finds_the_first_time(change, run_dir):
    world = World()

    def is_saved():
        state = {name: getattr(world, name) for name in NAMES}
        state |= {"of net": world.net.state_dict(), "of optimizer": world.optimizer.state_dict()}
        try:
            expected = due(functional._capture(state, True, Memory()))
        except Misconfigured as error:
            with pytest.raises(Misconfigured) as seen:
                unbroken.save(state, run_dir)
            assert str(seen.value).endswith(str(error))
        else:
            unbroken.save(state, run_dir)
            assert stored(run_dir) == expected

    for _ in range(3):
        is_saved()
    change(world)
    for _ in range(3):
        is_saved()
        world.net.second.bias.data.add_(1)
    functional.release()


def test_what_save_is_given_again_is_remembered_and_kept_alive_by_nobody(run_dir):
    world = World()

    def save(**more):
        state = {"net": world.net, "optimizer": world.optimizer, "of net": world.net.state_dict(), **more}
        unbroken.save({**state, "of optimizer": world.optimizer.state_dict()}, run_dir)
        return functional._books[str(run_dir)].memory

    tensor = torch.ones(1)
    gone = weakref.ref(tensor)
    save(tensor=tensor)
    del tensor
    known = [save()._prefix.known() for _ in range(3)]
    assert known[0] is known[1] is known[2] and len(known[0][1]) == 4 and gone() is None
    functional.release()
    assert str(run_dir) not in functional._books


def test_a_capture_of_what_is_as_it_was_crosses_over_as_the_rest_of_it():
    world = World()
    world.attached.capture()
    known, _, tensors, _, tree, parameters = crossing(world.attached.capture())
    assert known is not None and not tensors and not parameters and "net.first" not in tree
    world.step()
    assert crossing(world.attached.capture())[0] is known
    world.named["more"] = torch.ones(1)
    assert crossing(world.attached.capture())[0] is None


def test_a_capture_of_what_is_as_it_was_takes_what_it_remembers():
    world = World()
    world.attached.capture()
    world.step()
    capture = world.attached.capture()
    assert capture.prefix is not None and len(capture.prefix.tensors) == len(capture.tensors) > 20


def test_what_is_remembered_keeps_no_tensor_alive():
    world = World()
    for _ in range(2):
        world.attached.capture()
    gone = [weakref.ref(world.named.pop("a")), weakref.ref(world.optimizer.state[world.net.first.weight]["exp_avg"])]
    world.optimizer.state.clear()
    assert [one() for one in gone] == [None, None]


def test_an_optimizer_is_remembered_only_with_those_that_name_its_parameters():
    world = World()
    world.attached = Attached(_native.core.digests)
    hidden = {"net": world.net}
    world.attached.add("hidden", hidden)
    world.attached.add("optimizer", world.optimizer)
    for _ in range(2):
        before = world.attached.capture()
    _rename(world)
    after = world.attached.capture()
    assert "hidden.net.first.other" in [entry[0] for entry in after.tensors]
    assert any("first.other" in entry[0] and ".state." in entry[0] for entry in after.tensors), before.tensors
