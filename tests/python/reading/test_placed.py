"""What was verified where it lies is not hashed again after a load; whatever may have changed since is."""

import pytest
import torch
import unbroken
from unbroken import _native
from unbroken._state.compare.placed import Placed


@pytest.fixture
def hashed(monkeypatch):
    """The names of the tensors that are hashed."""
    names, digests = [], _native.core.digests
    monkeypatch.setattr(_native.core, "digests", lambda entries: (names.extend(e[0] for e in entries), digests(entries))[1])
    return names


def pair():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer, "table": {"x": torch.rand(5)}}


class Meddler:
    """Changes a tensor of another when it is loaded, past every counter of torch."""

    def __init__(self, tensor, by):
        self.tensor, self.by = tensor, by

    def state_dict(self):
        return {"here": 1}

    def load_state_dict(self, state):
        self.tensor.data.view(-1)[-1] += self.by


def test_what_lies_where_it_was_read_is_not_hashed_again(tmp_path, hashed):
    saved = pair()
    unbroken.save(saved, tmp_path / "run")
    hashed.clear()
    into = pair()
    unbroken.load(tmp_path / "run", into=into)
    assert hashed == []
    assert torch.equal(into["table"]["x"], saved["table"]["x"]) and torch.equal(into["model"].weight, saved["model"].weight)


@pytest.mark.parametrize("by", [0, 1])
def test_all_is_hashed_after_code_of_a_users_ran(tmp_path, hashed, by):
    state = {"x": torch.rand(5)}
    unbroken.save({"state_of": state, "odd": Meddler(torch.zeros(1), 0)}, tmp_path / "run")
    hashed.clear()
    live = {"x": torch.zeros(5)}
    into = {"state_of": live, "odd": Meddler(live["x"], by)}
    if by:
        with pytest.raises(unbroken.StateMismatch, match="is not the saved one"):
            unbroken.load(tmp_path / "run", into=into)
    else:
        unbroken.load(tmp_path / "run", into=into)
        assert torch.equal(live["x"], state["x"])
    assert "state_of.x" in hashed


def test_tensors_that_overlap_are_hashed(tmp_path):
    unbroken.save({"table": {"a": torch.rand(6), "b": torch.rand(6)}}, tmp_path / "run")
    memory = torch.zeros(10)
    with pytest.raises(unbroken.StateMismatch):
        unbroken.load(tmp_path / "run", into={"table": {"a": memory[:6], "b": memory[4:]}})


class Saved:
    specs = {"a": ("F32", (2, 3), 24, "")}

    @staticmethod
    def canon(name):
        return {"tied": "a"}.get(name, name)


@pytest.mark.parametrize("captured, is_held", [
    (("a", "F32", (2, 3), (3, 1), 1000, 24), True),
    (("tied", "F32", (2, 3), (3, 1), 1000, 24), True),
    (("b", "F32", (2, 3), (3, 1), 1000, 24), False),
    (("a", "F32", (2, 3), (3, 1), 1024, 24), False),
    (("a", "I32", (2, 3), (3, 1), 1000, 24), False),
    (("a", "F32", (3, 2), (2, 1), 1000, 24), False),
    (("a", "F32", (2, 3), (1, 2), 1000, 24), False),
])  # fmt: skip
def test_only_what_was_read_for_it_is_held(captured, is_held):
    placed = Placed(Saved)
    placed.names[1000] = "a"
    assert not placed.holds(captured), "whatever runs after the bytes came is not known yet"
    placed.finish(False)
    assert placed.holds(captured) == is_held


def test_nothing_is_held_once_something_else_may_have_written():
    placed = Placed(Saved)
    placed.names[1000] = "a"
    placed.finish(True)
    assert not placed.holds(("a", "F32", (2, 3), (3, 1), 1000, 24))
