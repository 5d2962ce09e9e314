"""What is read straight into its place needs no second look; what foreign code could reach, or memory in common, gets one."""

import pytest
import torch
from torch import nn

import unbroken
from unbroken import StateMismatch, _native


class Meddler:
    """Its load_state_dict writes what belongs to another."""

    def __init__(self, parameter):
        self.parameter = parameter

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        self.parameter.data.zero_()


class Extra(nn.Linear):
    def get_extra_state(self):
        return 1

    def set_extra_state(self, state):
        self.weight.data.zero_()


class Scheduler(torch.optim.lr_scheduler.StepLR):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.optimizer.param_groups[0]["params"][0].data.zero_()



def _scheduled(model):
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer, "scheduler": Scheduler(optimizer, 2)}


_MEDDLED = {
    "a model": lambda model: {"model": model, "other": Meddler(model.weight)},
    "a dict": lambda model: {"other": Meddler(model.weight), "tensors": {"a": model.weight.detach(), "b": torch.ones(2)}},
    "extra state": lambda model: {"model": Extra(4, 4)},
    "a scheduler": _scheduled,
    "in a list": lambda model: {"several": [Meddler(model.weight)], "model": model},
}


@pytest.mark.parametrize("make", _MEDDLED.values(), ids=_MEDDLED.keys())
def test_what_foreign_code_wrote_over_is_found(tmp_path, make):
    state = make(nn.Linear(4, 4))
    unbroken.save(state, tmp_path)
    with pytest.raises(StateMismatch, match="the live state is not the saved one"):
        unbroken.load(tmp_path, into=state)


def test_two_tensors_that_share_a_part_of_their_memory_are_looked_at_again(tmp_path):
    unbroken.save({"pair": {"a": torch.zeros(4), "b": torch.ones(4)}}, tmp_path)
    memory = torch.empty(6)
    with pytest.raises(StateMismatch, match="the live state is not the saved one"):
        unbroken.load(tmp_path, into={"pair": {"a": memory[:4], "b": memory[2:]}})


def test_a_tensor_with_the_memory_of_one_that_was_taken_with_many_is_tied(tmp_path):
    unbroken.save({"many": {"a": torch.zeros(4), "b": torch.ones(4)}, "one": [torch.ones(4)]}, tmp_path)
    live = {"a": torch.empty(4), "b": torch.empty(4)}
    with pytest.raises(StateMismatch, match="tied to many.b"):
        unbroken.load(tmp_path, into={"many": live, "one": [live["b"]]})


def test_nothing_is_hashed_again_that_was_read_straight_into_its_place(tmp_path, monkeypatch):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, eps=0.1))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "dict": {"a": torch.ones(2), "n": 3}}
    unbroken.save(state, tmp_path)
    wanted = [p.detach().clone() for p in model.parameters()]
    for p in model.parameters():
        p.data.zero_()
    hashed, digests = [], _native.core.digests
    monkeypatch.setattr(_native.core, "digests", lambda tensors: hashed.extend(tensors) or digests(tensors))
    unbroken.load(tmp_path, into=state)
    assert hashed == []
    assert all(map(torch.equal, wanted, model.parameters()))
