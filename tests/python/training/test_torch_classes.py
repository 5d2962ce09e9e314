"""The classes of optimizers, schedulers and scalers: another one is a mismatch, the same one elsewhere is said."""

import pytest
import torch
from torch.optim import lr_scheduler as lrs

import unbroken
from helpers import bits, stops_at
from torch_life import OPTIMIZERS, SCHEDULERS, O, Twins, attach, moments, train, trained
from unbroken import StateMismatch
from unbroken._state.compare.classes import classes_of


class Momentum(O.Optimizer):
    """The sign of it, or itself: the same state and settings, and another update."""

    def __init__(self, parameters, lr=0.1):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = closure and closure()
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["average"] = torch.zeros_like(p)
                state["average"].mul_(0.9).add_(p.grad, alpha=0.1)
                p.sub_(group["lr"] * self.update(state["average"]))
        return loss

    def update(self, average):
        return average


class Lion(Momentum):
    update = staticmethod(torch.sign)


class Around(O.Optimizer):
    """An optimizer that has another one do the work."""

    def __init__(self, base):
        self.base = base
        self.param_groups, self.state, self.defaults = base.param_groups, base.state, base.defaults

    def step(self, closure=None):
        return self.base.step(closure)


def moved(kind, module):
    """The same class of another module."""
    return type(kind.__name__, (kind,), {"__module__": module})


def said(capsys):
    return [line for line in capsys.readouterr().err.splitlines() if ".class is " in line]


def refused(path, name, saved, live, **parts):
    with pytest.raises(StateMismatch) as caught:
        train(path, 4, **parts)
    assert (name, repr(saved), repr(live)) in caught.value.changed
    return caught.value


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_same_optimizer_is_taken_without_a_word(run_dir, capsys, name):
    for stop in (1, 2):
        with stops_at(stop):
            train(run_dir, 2, optimizer=OPTIMIZERS[name])
    assert not said(capsys)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_same_scheduler_is_taken_without_a_word(run_dir, capsys, name):
    for stop in (1, 2):
        with stops_at(stop):
            train(run_dir, 2, scheduler=SCHEDULERS[name])
    assert not said(capsys)


def test_another_optimizer_of_the_same_state_is_a_mismatch(run_dir):
    with stops_at(2):
        train(run_dir, 4, optimizer=Lion)
    here = "test_torch_classes."
    error = refused(run_dir, "optimizer.class", f"{here}Lion", f"{here}Momentum", optimizer=Momentum)
    assert len(error.changed) == 1 and not error.missing and not error.unread and error.exit_code == 65


def test_a_parent_and_another_package_are_other_classes(run_dir):
    with stops_at(2):
        train(run_dir, 4)
    refused(run_dir, "optimizer.class", "torch.optim.adamw.AdamW", "torch.optim.adam.Adam", optimizer=lambda p: O.Adam(p, lr=0.01))
    other = moved(O.AdamW, "apart")
    refused(run_dir, "optimizer.class", "torch.optim.adamw.AdamW", "apart.AdamW", optimizer=lambda p: other(p, lr=0.01))


@pytest.mark.parametrize("within", [lambda make: make, lambda make: lambda o: lrs.SequentialLR(o, [lrs.StepLR(o, 3), make(o)], [1])])
def test_another_scheduler_of_the_same_state_is_a_mismatch(run_dir, within):
    with stops_at(2):
        train(run_dir, 4, scheduler=within(lambda o: lrs.LambdaLR(o, lambda e: 0.9**e)))
    name = "scheduler.class" if within(1) == 1 else "scheduler._schedulers.1.class"
    saved, live = (f"torch.optim.lr_scheduler.{kind}" for kind in ("LambdaLR", "MultiplicativeLR"))
    refused(run_dir, name, saved, live, scheduler=within(lambda o: lrs.MultiplicativeLR(o, lambda e: 0.5)))


def test_another_scaler_is_a_mismatch(run_dir):
    class Other(torch.amp.GradScaler):
        pass

    with stops_at(2):
        train(run_dir, 4, scaler=lambda: torch.amp.GradScaler("cpu", init_scale=1024.0))
    refused(run_dir, "scaler.class", "torch.amp.grad_scaler.GradScaler", f"{__name__}.{Other.__qualname__}", scaler=lambda: Other("cpu"))
    other = Other("cpu")
    unbroken.load(run_dir, into={"scaler": other}, unread=["scaler.class"])
    assert other.get_scale() == 1024.0


@pytest.mark.parametrize("before, after", [("__main__", "a.b"), ("a.b", "__main__"), ("a.b", "a.c.d"), ("__main__", "__mp_main__")])
def test_a_class_that_only_moved_takes_one_line(run_dir, capsys, before, after):
    with stops_at(2):
        train(run_dir, 4, optimizer=moved(Lion, before))
    train(run_dir, 4, optimizer=moved(Lion, after))
    (line,) = said(capsys)
    there = f"{before}.Lion' in checkpoint 2.a1: taken for the same"
    assert line == f"unbroken: optimizer.class is '{after}.Lion' in the script and '{there}"


def test_another_class_is_permitted_by_its_name_and_takes_the_state(run_dir, capsys):
    before = Twins()
    first = Lion(before.parameters())
    trained(run_dir, before, first)
    after = Twins()
    second = Momentum(after.parameters())
    with unbroken.Run(run_dir, unread=["optimizer.class"]) as run:
        run.attach(model=after, optimizer=second)
        for _ in run.steps(3):
            pass
        assert moments(after, second) == moments(before, first)
        for _ in run.steps(4):
            sum(p.pow(2).sum() for p in after.parameters()).backward()
            second.step()
    assert "unread='optimizer.class': not read from checkpoint 3.a1: optimizer.class" in capsys.readouterr().err
    again = Twins()
    attach(run_dir, model=again, optimizer=Momentum(again.parameters()))
    assert bits(again.state_dict()) == bits(after.state_dict())


def test_the_whole_optimizer_stays_unread_where_that_is_permitted(run_dir):
    before = Twins()
    trained(run_dir, before, Lion(before.parameters()))
    after = Twins()
    second = Momentum(after.parameters())
    with unbroken.Run(run_dir, unread="optimizer") as run:
        run.attach(model=after, optimizer=second)
        assert run.restore() == 3
    assert not second.state and bits(after.state_dict()) == bits(before.state_dict())


def test_a_renamed_optimizer_is_compared(run_dir):
    before = Twins()
    trained(run_dir, before, Lion(before.parameters()))
    for kind, is_same in ((Momentum, False), (Lion, True)):
        after = Twins()
        run = unbroken.Run(run_dir, rename={"optimizer": "rule"})
        run.attach(model=after, rule=kind(after.parameters()))
        if is_same:
            assert run.restore() == 3
        else:
            with pytest.raises(StateMismatch, match=r"rule\.class"):
                run.restore()
        run.close()


def test_one_that_is_attached_after_the_restore_is_compared_and_one_in_a_list(run_dir):
    before = Twins()
    with unbroken.Run(run_dir) as run:
        run.attach(model=before, rules=[Lion([before.p]), Lion([before.q, before.r])])
        for _ in run.steps(1):
            pass
    after = Twins()
    with unbroken.Run(run_dir) as run:
        run.attach(model=after)
        run.restore()
        with pytest.raises(StateMismatch, match=r"rules\.1\.class"):
            run.attach(rules=[Lion([after.p]), Momentum([after.q, after.r])])
    with pytest.raises(StateMismatch, match=r"rules\.0\.class"):
        unbroken.load(run_dir, into={"model": after, "rules": [Momentum([after.p]), Lion([after.q, after.r])]})


def test_an_optimizer_around_another_one_has_two_classes():
    p = torch.zeros(1, requires_grad=True)
    assert classes_of({"a.b": Around(Lion([p]))}) == {
        "a\\.b": "test_torch_classes.Around",
        "a\\.b.base": "test_torch_classes.Lion",
    }


def test_what_accelerate_puts_around_is_no_class_of_its_own():
    optimizers = pytest.importorskip("accelerate.optimizer")
    schedulers = pytest.importorskip("accelerate.scheduler")
    optimizer = Lion([torch.zeros(1, requires_grad=True)])
    scheduler = lrs.StepLR(optimizer, 3)
    kinds = {"AcceleratedOptimizer": optimizers.AcceleratedOptimizer, "AcceleratedScheduler": schedulers.AcceleratedScheduler}
    around = object.__new__(kinds["AcceleratedOptimizer"])
    around.__dict__["optimizer"] = optimizer
    steered = object.__new__(kinds["AcceleratedScheduler"])
    steered.__dict__["scheduler"] = scheduler
    assert classes_of({"o": around, "s": steered}) == {"o": "test_torch_classes.Lion", "s": "torch.optim.lr_scheduler.StepLR"}


def test_a_checkpoint_that_records_none_says_nothing(run_dir, capsys, monkeypatch):
    before = Twins()
    with monkeypatch.context() as earlier:
        earlier.setattr("unbroken._state.attached.classes_of", lambda objects: {})
        trained(run_dir, before, Lion(before.parameters()))
    assert "classes" not in unbroken.load(run_dir)["run"]
    after = Twins()
    attach(run_dir, model=after, optimizer=Momentum(after.parameters()))
    assert not said(capsys)


def test_the_record_is_what_the_format_says(run_dir):
    with stops_at(1):
        train(run_dir, 4, scheduler=lambda o: lrs.StepLR(o, 3))
    assert unbroken.load(run_dir)["run"]["classes"] == {
        "optimizer": "torch.optim.adamw.AdamW",
        "scheduler": "torch.optim.lr_scheduler.StepLR",
    }
