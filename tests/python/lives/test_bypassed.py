"""An optimizer that is attached and does not train, because another one does, is an error; one that trains later is none."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

import unbroken
from unbroken import Misconfigured


def train(path, steps, attach, step):
    with unbroken.Run(path) as run:
        run.attach(**attach)
        for i in run.steps(steps):
            step(i)
    return run


def stepper(model, *optimizers):
    def step(i):
        model(torch.ones(1, 2)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad()

    return step


@pytest.mark.failure("CodefyUI/CodefyUI#118")
@pytest.mark.parametrize("has_trained", [False, True], ids=["empty", "trained before"])
def test_the_state_of_an_optimizer_that_another_one_stands_in_for_is_not_saved_for_ever(run_dir, has_trained):
    model = nn.Linear(2, 2)
    attached = torch.optim.Adam(model.parameters())
    done = 3 if has_trained else 0
    if has_trained:
        train(run_dir, done, {"model": model, "adam": attached}, stepper(model, attached))
    attached, trains = torch.optim.Adam(model.parameters()), torch.optim.AdamW(model.parameters())
    with pytest.raises(Misconfigured, match="^adam has not stepped .* a torch.optim.adamw.AdamW that is not attached") as error:
        train(run_dir, 20, {"model": model, "adam": attached}, stepper(model, trains))
    assert error.value.next_command == "run.attach(NAME=...)"
    assert unbroken.load(run_dir).step < done + 5
    with pytest.raises(Misconfigured, match="has not stepped"):  # also where it is in a dict
        train(f"{run_dir}-dict", 20, {"model": model, "all": {"a": [attached]}}, stepper(model, trains))


class Around(torch.optim.Optimizer):
    """A wrapper that does not begin as an optimizer does."""

    def __init__(self, inner):
        self.inner, self.param_groups, self.state, self.defaults = inner, inner.param_groups, inner.state, inner.defaults
        self._optimizer_step_post_hooks = OrderedDict()

    def step(self):
        self.inner.step()


def late(model):
    first, second = torch.optim.Adam(model.parameters()), torch.optim.Adam(model.parameters())
    return {"first": first, "second": second}, lambda i: stepper(model, first if i < 9 else second)(i)


def gan(model):
    other = nn.Linear(2, 2)
    first, second = torch.optim.Adam(model.parameters()), torch.optim.Adam(other.parameters())
    return {"first": first, "second": second, "other": other}, lambda i: stepper(model, *[first, second][: 1 + (i > 8)])(i)


def frozen(model):
    return {"adam": torch.optim.Adam(model.parameters())}, lambda i: None


def without_momentum(model):
    return {"sgd": torch.optim.SGD(model.parameters(), 0.1)}, stepper(model, torch.optim.SGD(model.parameters(), 0.1))


def warmed_up(model):
    adam, before = torch.optim.Adam(model.parameters()), torch.optim.Adam(model.parameters())
    return {"adam": adam}, lambda i: stepper(model, before if i < 4 else adam)(i)


def wrapped(model):
    optimizer = Around(Around(torch.optim.Adam(model.parameters())))
    return {"adam": optimizer}, stepper(model, optimizer)


def elsewhere(model):
    other = nn.Linear(2, 2)
    return {"adam": torch.optim.Adam(model.parameters())}, stepper(other, torch.optim.Adam(other.parameters()))


@pytest.mark.parametrize("kind", [late, gan, frozen, without_momentum, warmed_up, wrapped, elsewhere])
def test_no_other_optimizer_is_taken_for_one_that_stands_in(run_dir, kind):
    model = nn.Linear(2, 2)
    attached, step = kind(model)
    run = train(run_dir, 15, {"model": model, **attached}, step)
    assert run.newest == "15.a1" and not run._bypass._hook
