"""Settings of optimizers, schedulers and scalers: a checkpoint's are used, and what the script has instead is said."""

import pytest
import torch
from torch.optim import lr_scheduler as lrs

import unbroken
from helpers import bits, stops_at
from torch_life import OPTIMIZERS, SCHEDULERS, Net, O, Twins, attach, moments, train, trained


def lines(capsys):
    """What was said of settings since the last call."""
    said = capsys.readouterr().err.splitlines()
    return [line.removeprefix("unbroken: ") for line in said if " in the script and " in line]


def adam(**more):
    return lambda p: O.AdamW(p, **{"lr": 0.01, **more})


def sgd(**more):
    return lambda p: O.SGD(p, **{"lr": 0.1, "momentum": 0.9, **more})


ANOTHER = {
    "lr": (adam(), adam(lr=5.0), "lr is 5.0 in the script and 0.01"),
    "lr_of_an_integer": (lambda p: O.Adafactor(p, lr=0.01), lambda p: O.Adafactor(p, lr=1), "lr is 1 in the script and 0.01"),
    "lr_of_a_tensor": (adam(lr=torch.tensor(0.5)), adam(lr=torch.tensor(0.25)), "lr is 0.25 in the script and 0.5"),
    "betas": (adam(), adam(betas=(0.5, 0.6)), "betas is (0.5, 0.6) in the script and (0.9, 0.999)"),
    "second_beta": (adam(), adam(betas=(0.9, 0.6)), "betas is (0.9, 0.6) in the script and (0.9, 0.999)"),
    "betas_of_tensors": (
        lambda p: O.Adam(p, lr=torch.tensor(0.5), betas=(torch.tensor(0.5), torch.tensor(0.75))),
        lambda p: O.Adam(p, lr=torch.tensor(0.5), betas=(torch.tensor(0.5), torch.tensor(0.25))),
        "betas is (0.5, 0.25) in the script and (0.5, 0.75)",
    ),
    "eps": (adam(), adam(eps=0.5), "eps is 0.5 in the script and 1e-08"),
    "weight_decay": (adam(), adam(weight_decay=0.7), "weight_decay is 0.7 in the script and 0.01"),
    "momentum": (sgd(), sgd(momentum=0.5), "momentum is 0.5 in the script and 0.9"),
}


@pytest.mark.parametrize("name", ANOTHER)
def test_another_setting_of_an_optimizer_is_said_with_both_values(run_dir, capsys, name):
    before, after, said = ANOTHER[name]
    with stops_at(2):
        train(run_dir, 4, optimizer=before)
    assert not lines(capsys)
    train(run_dir, 4, optimizer=after)
    (line,) = lines(capsys)
    assert line.startswith(f"optimizer.param_groups.0.{said} in checkpoint 2.a1: ")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_same_optimizer_is_resumed_without_a_line(run_dir, capsys, optimizer):
    for stop in (1, 3):
        with stops_at(stop):
            train(run_dir, 4, optimizer=OPTIMIZERS[optimizer])
    assert not lines(capsys)


FOR_SCHEDULERS = {
    "adamw": adam(),
    "adam_tensor_lr": OPTIMIZERS["adam_tensor_lr"],
    "sgd": sgd(),
    "groups": OPTIMIZERS["groups"],
}
ALL_SCHEDULERS = {
    **SCHEDULERS,
    "cyclic_momentum": lambda o: lrs.CyclicLR(o, 0.001, 0.1, 3),
    "one_cycle_without_momentum": lambda o: lrs.OneCycleLR(o, 0.1, 12, cycle_momentum=False),
    "averaged": lambda o: torch.optim.swa_utils.SWALR(o, 0.05, 3),
}


def life(path, steps, make, scheduler, place):
    """One life, with its scheduler attached at once, attached after restore, or not attached."""
    torch.manual_seed(1)
    model = Net(dropout=False)
    optimizer = make(list(model.parameters()))
    if place != "late":
        scheduler = scheduler(optimizer)
    with stops_at(steps), unbroken.Run(path) as run:
        run.attach(model=model, optimizer=optimizer, **({"scheduler": scheduler} if place == "attached" else {}))
        if place == "late":
            run.restore()
            scheduler = scheduler(optimizer)
            run.attach(scheduler=scheduler)
        for step in run.steps(9):
            optimizer.zero_grad()
            model(torch.ones(1, 6)).pow(2).sum().backward()
            optimizer.step()
            scheduler.step(*((1.0,) if isinstance(scheduler, lrs.ReduceLROnPlateau) else ()))


@pytest.mark.parametrize("place", ["attached", "late", "aside"])
@pytest.mark.parametrize("optimizer", FOR_SCHEDULERS)
@pytest.mark.parametrize("name", ALL_SCHEDULERS)
@pytest.mark.filterwarnings("ignore")
def test_what_a_scheduler_moved_is_no_other_setting(run_dir, capsys, name, optimizer, place):
    for steps in (4, 6):
        life(run_dir, steps, FOR_SCHEDULERS[optimizer], ALL_SCHEDULERS[name], place)
    is_told = not (name == "plateau" and place == "aside")  # it leaves no trace in the groups, and is not attached
    assert is_told == (not lines(capsys))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name, after, said",
    [
        ("cosine", sgd(lr=0.5), "initial_lr is 0.5 in the script and 0.1"),
        ("cosine", sgd(momentum=0.5), "momentum is 0.5 in the script and 0.9"),
        ("plateau", sgd(momentum=0.5), "momentum is 0.5 in the script and 0.9"),
        ("cyclic_momentum", sgd(weight_decay=0.5), "weight_decay is 0.5 in the script and 0"),
    ],
)
def test_another_setting_beside_a_scheduler_is_said(run_dir, capsys, name, after, said):
    life(run_dir, 4, sgd(), ALL_SCHEDULERS[name], "attached")
    life(run_dir, 6, after, ALL_SCHEDULERS[name], "attached")
    assert lines(capsys)[0].startswith(f"optimizer.param_groups.0.{said} in checkpoint 4.a1: ")


@pytest.mark.filterwarnings("ignore")
def test_the_second_beta_is_compared_where_the_first_one_cycles(run_dir, capsys):
    life(run_dir, 4, adam(), ALL_SCHEDULERS["one_cycle"], "attached")
    life(run_dir, 6, adam(betas=(0.5, 0.75)), ALL_SCHEDULERS["one_cycle"], "attached")
    (line,) = lines(capsys)
    assert "betas is (0.75,) in the script and (0.999,) in checkpoint 4.a1" in line


def test_another_end_of_a_cycle_is_said(run_dir, capsys):
    life(run_dir, 4, sgd(), lambda o: lrs.OneCycleLR(o, 0.1, 12), "attached")
    life(run_dir, 6, sgd(), lambda o: lrs.OneCycleLR(o, 0.2, 12, div_factor=50.0), "attached")
    assert "optimizer.param_groups.0.max_lr is 0.2 in the script and 0.1 in checkpoint 4.a1: 0.1 is used" in lines(capsys)


def by_hand(path, steps, **ways):
    """One life that warms its rate up itself, in two groups."""
    torch.manual_seed(1)
    model = Twins()
    optimizer = O.Adam([{"params": [model.p]}, {"params": [model.q, model.r]}], lr=1.0)
    with stops_at(steps), unbroken.Run(path, **ways) as run:
        run.attach(model=model, optimizer=optimizer)
        run.restore()
        begun = moments(model, optimizer)
        for step in run.steps(9):
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * (step + 1)
            sum(p.pow(2).sum() for p in model.parameters()).backward()
            optimizer.step()
    return begun, moments(model, optimizer)


@pytest.mark.parametrize("unread", [None, "*", "optimizer", "optimizer.*", "*.lr"])
def test_a_rate_that_a_script_moves_takes_one_line_and_costs_no_state(run_dir, capsys, unread):
    by_hand(run_dir, 1)
    saved = by_hand(run_dir, 3)[1]
    (line,) = lines(capsys)
    assert line.endswith("0.01 is used; likewise optimizer.param_groups.1.lr")
    assert by_hand(run_dir, 5, unread=unread)[0] == saved
    assert len(lines(capsys)) == (0 if unread == "*.lr" else 1)


@pytest.mark.parametrize("rate", [lambda x: x, torch.tensor], ids=["number", "tensor"])
def test_a_rate_stays_that_of_the_script_where_it_is_unread(run_dir, capsys, rate):
    before = Twins()
    first = O.Adam(before.parameters(), lr=rate(0.5))
    trained(run_dir, before, first)
    for unread, wanted in ((None, 0.5), ("optimizer", 0.5), ("*.lr", 0.25), ("*.param_groups.*", 0.5)):
        after = Twins()
        second = O.Adam(after.parameters(), lr=rate(0.25))
        with unbroken.Run(run_dir, unread=unread) as run:
            run.attach(model=after, optimizer=second)
            run.restore()
        assert float(second.param_groups[0]["lr"]) == wanted
        assert moments(after, second) == moments(before, first)
        assert bool(lines(capsys)) == (wanted == 0.5)


def test_several_settings_are_said_one_by_one(run_dir, capsys):
    before = Twins()
    trained(run_dir, before, O.AdamW(before.parameters(), weight_decay=0.1, lr=0.5))
    after = Twins()
    second = O.AdamW(after.parameters(), weight_decay=0.2, lr=0.25)
    attach(run_dir, model=after, optimizer=second)
    assert second.param_groups[0]["weight_decay"] == 0.1 and second.param_groups[0]["lr"] == 0.5
    assert [line.split()[0].rpartition(".")[2] for line in lines(capsys)] == ["lr", "weight_decay"]


def test_another_setting_of_a_scaler_is_said(run_dir, capsys):
    def scaler(interval):
        return lambda: torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=interval)

    with stops_at(4):
        train(run_dir, 6, scaler=scaler(3))
    with stops_at(5):
        train(run_dir, 6, scaler=scaler(3))
    assert not lines(capsys)
    train(run_dir, 6, scaler=scaler(7))
    assert lines(capsys) == ["scaler.growth_interval is 7 in the script and 3 in checkpoint 5.a2: 3 is used"]
