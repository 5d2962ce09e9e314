"""What training depends on beside tensors is recorded, and a difference is named once; so are values that are not finite."""

import pytest
import torch
from torch import nn

import unbroken
from helpers import records
from unbroken import _native


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Dropout())
        self.register_buffer("table", torch.arange(3.0), persistent=False)
        self.register_buffer("kept", torch.zeros(2))


def freeze(net):
    net.body.weight.requires_grad_(False)


def evaluate(net):
    net.head.eval()


def retable(net):
    net.table[0] = 5


def reshape(net):
    net.table = torch.zeros(4)


def all_evaluate(net):
    net.eval()


DIFFERENCES = {
    freeze: "model.body.weight: does not require a gradient",
    evaluate: "model.head, model.head.0, model.head.1: evaluates (eval())",
    retable: "model.table: registered with persistent=False, and not what it was in the checkpoint",
    reshape: "model.table: registered with persistent=False, and not what it was in the checkpoint",
    all_evaluate: "model, model.body, model.head and 2 more: evaluates (eval())",
}


@pytest.fixture(autouse=True)
def no_threads_of_their_own(monkeypatch):
    """Digests are made by the threads that the run has: in the stall of a save none are started."""

    def refuse(tensors):
        raise AssertionError("digests outside the run's session")

    monkeypatch.setattr(_native.core, "digests", refuse)


def life(path, steps, change=None, each=None, late=False):
    net = Net()
    if change is not None:
        change(net)
    with unbroken.Run(path, every=1) as run:
        if not late:
            run.attach(model=net)
        for _ in run.steps(steps):
            if late:
                run.attach(model=net)
                late = False
            if each is not None:
                each(net)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("change", DIFFERENCES)
@pytest.mark.parametrize("first", [False, True])
def test_a_difference_at_a_restore_is_named(run_dir, capsys, change, first, late):
    life(run_dir, 1, change if first else None)
    capsys.readouterr()
    life(run_dir, 2, None if first else change, late=late)
    said = capsys.readouterr().err
    assert said.count(DIFFERENCES[change]) == 1
    life(run_dir, 3, None if first else change)
    assert DIFFERENCES[change] not in capsys.readouterr().err  # the new one is what was saved


@pytest.mark.parametrize("change", [None, *DIFFERENCES])
def test_nothing_is_said_where_nothing_differs(run_dir, capsys, change):
    for steps in (1, 2):
        life(run_dir, steps, change)
        said = capsys.readouterr().err
        assert not any(text in said for text in ("gradient", "evaluates", "persistent"))
    assert list(unbroken.load(run_dir)["run"]["exactness"]) == ["model"]


def test_a_buffer_that_changes_between_saves_is_named_once(run_dir, capsys):
    life(run_dir, 4, each=lambda net: net.table.add_(1))
    assert capsys.readouterr().err.count("model.table: registered with persistent=False, and changed between two saves") == 1
    life(run_dir, 6, each=lambda net: net.kept.add_(1))
    assert "changed between" not in capsys.readouterr().err


def healths(run_dir):
    """What the journal says of each checkpoint, in order."""
    return [record["body"]["health"] for record in records(run_dir) if record["type"] == "COMMIT"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_a_parameter_that_is_not_finite_is_noted_with_the_save(run_dir, capsys, dtype, value):
    value = float("nan") if dtype == "float8_e4m3fn" else float(value)  # it has no infinity
    net = nn.ParameterList([nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 5).to(getattr(torch, dtype)))])
    with unbroken.Run(run_dir, every=1, keep_last=9) as run:
        run.attach(model=net, grads={"a": torch.tensor(float("nan"))})
        for step in run.steps(4):
            with torch.no_grad():
                net[1].view(-1)[-1] = value if step == 1 else 1
            run.drain()
    assert healths(run_dir) == ["ok", "non-finite", "ok", "ok"]
    said = capsys.readouterr().err
    assert said.count("not finite") == said.count("the parameters are finite again") == 1


def test_empty_integer_and_no_parameters_are_finite(run_dir):
    parts = [nn.Parameter(torch.zeros(0)), nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)]
    with unbroken.Run(run_dir) as run:
        run.attach(a=nn.ReLU(), b=nn.ParameterList(parts))
        for _ in run.steps(1):
            pass
    assert healths(run_dir) == ["ok"]


@pytest.mark.parametrize("dtype, greatest", [("float16", 6e4), ("bfloat16", 3e38), ("float32", 3e38), ("float64", 1e308)])
def test_great_values_whose_sum_is_not_finite_are_finite(run_dir, capsys, dtype, greatest):
    net = nn.ParameterList([nn.Parameter(torch.full((1000,), greatest, dtype=getattr(torch, dtype)))])
    with unbroken.Run(run_dir) as run:
        run.attach(model=net)
        for _ in run.steps(1):
            pass
    assert healths(run_dir) == ["ok"]
    assert "not finite" not in capsys.readouterr().err
