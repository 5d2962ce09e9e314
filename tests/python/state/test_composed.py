"""Tensors that are made of other tensors come back in place; what cannot is refused by its path at the save."""

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import unbroken
from helpers import bits
from unbroken import Misconfigured, StateMismatch


class Scaled(TwoTensor):
    """With a context of its own."""

    scale = 1.0

    def __tensor_flatten__(self):
        return ["a", "b"], {"scale": self.scale}

    def __repr__(self, **_):
        return "Scaled"


class Opaque(TwoTensor):
    def __tensor_flatten__(self):
        return ["a", "b"], object()

    def __repr__(self, **_):
        return "Opaque"


def two(value, kind=TwoTensor):
    return kind(torch.full((2, 3), float(value)), torch.full((2, 3), value + 0.5))


def nested(value):
    return TwoTensor(two(value), two(value + 10))


def life(path, steps, **parts):
    with unbroken.Run(path) as run:
        run.attach(**parts)
        for _ in run.steps(steps):
            for one in parts.values():
                if isinstance(one, torch.optim.Optimizer):
                    one.step()


def flat(tensor):
    if type(tensor) in (torch.Tensor, nn.Parameter):
        return bits(tensor.detach())
    return type(tensor).__name__, [flat(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0]]


@pytest.mark.parametrize("make", [two, nested, lambda v: two(v, Scaled)])
@pytest.mark.parametrize("where", ["dict", "module"])
def test_their_parts_come_back_in_place(run_dir, make, where):
    def parts(value):
        tensor = make(value)
        if where == "dict":
            return tensor, {"x": {"k": [tensor]}}
        module = nn.Module()
        module.p = nn.Parameter(tensor, requires_grad=False)
        return module.p, {"x": module}

    before, after = parts(1), parts(7)
    inner = after[0].a
    life(run_dir, 1, **before[1])
    unbroken.load(run_dir, into=after[1])
    assert flat(after[0]) == flat(before[0]) and after[0].a is inner


@pytest.mark.parametrize("fresh", [True, False])
def test_an_optimizer_of_such_parameters_continues(run_dir, fresh):
    def parts(value):
        module = nn.Module()
        module.p = nn.Parameter(two(value))
        module.p.grad = two(0.25)
        return {"m": module, "o": torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)}

    before, after = parts(1), parts(7)
    life(run_dir, 2, **before)
    if not fresh:
        after["o"].step()
    unbroken.load(run_dir, into=after)
    p, q = before["m"].p, after["m"].p
    assert flat(p) == flat(q)
    assert flat(before["o"].state[p]["momentum_buffer"]) == flat(after["o"].state[q]["momentum_buffer"])


def test_another_type_context_or_part_is_a_mismatch(run_dir):
    life(run_dir / "a", 1, x={"k": two(1, Scaled)})
    other = two(2, Scaled)
    other.scale = 2.0
    cases = [(two(2), "x.k"), (torch.zeros(2, 3), "x.k"), (other, "x.k.context")]
    cases.append((Scaled(torch.zeros(4), torch.zeros(4)), "x.k.a"))
    for live, name in cases:
        before = flat(live)
        with pytest.raises(StateMismatch) as caught:
            unbroken.load(run_dir / "a", into={"x": {"k": live}})
        assert name in [one for one, _, _ in caught.value.changed], caught.value
        assert flat(live) == before
    life(run_dir / "b", 1, x={"k": torch.zeros(2, 3)})
    with pytest.raises(StateMismatch):
        unbroken.load(run_dir / "b", into={"x": {"k": two(1)}})


def test_what_could_not_come_back_is_refused_by_its_path(run_dir):
    with pytest.raises(Misconfigured, match=r"^x\.k: .*Opaque"):
        life(run_dir / "a", 1, x={"k": two(1, Opaque)})
    plain = nn.Parameter(torch.zeros(2, 3))
    optimizer = torch.optim.SGD([plain], 0.1)
    optimizer.state[plain] = {"codes": two(1)}
    with pytest.raises(Misconfigured, match=r"^o\.state\.p\.codes: .*in place only"):
        life(run_dir / "b", 1, p=plain, o=optimizer)
    with unbroken.Run(run_dir / "c") as run, pytest.raises(Misconfigured, match=r"^state\.k: .*in place only"):
        run.state["k"] = two(1)
        for _ in run.steps(1):
            pass
