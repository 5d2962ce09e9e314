"""Every optimizer, scheduler and scaler of torch continues bit for bit, matched by name."""

import itertools
import warnings

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as lrs

import unbroken
from helpers import bits, stops_at
from torch_life import OPTIMIZERS, SCHEDULERS, Net, O, Twins, attach, continues, moments, train, trained
from unbroken import Misconfigured, StateMismatch


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_continues_bit_for_bit(run_dir, name):
    continues(run_dir, [1, 4], 8, optimizer=OPTIMIZERS[name])


def test_sparse_adam_continues(run_dir):
    def life(path, seed):
        torch.manual_seed(seed)
        model = nn.Embedding(9, 4, sparse=True)
        optimizer = O.SparseAdam(model.parameters(), lr=0.1)
        with unbroken.Run(path) as run:
            run.attach(model=model, optimizer=optimizer)
            for _ in run.steps(6):
                optimizer.zero_grad()
                model(torch.randint(9, (3,))).pow(2).sum().backward()
                optimizer.step()
        return bits(model.state_dict())

    want = life(run_dir / "a", 1)
    with stops_at(3):
        life(run_dir / "b", 1)
    assert life(run_dir / "b", 2) == want


def test_the_table_holds_every_scheduler_of_torch():
    have = {type(make(O.SGD([torch.zeros(1, requires_grad=True)], lr=0.1))) for make in SCHEDULERS.values()}
    all_of_torch = {
        c
        for c in vars(lrs).values()
        if isinstance(c, type) and issubclass(c, lrs.LRScheduler) and c is not lrs.LRScheduler
    } - {getattr(lrs, "_LRScheduler", None)}
    assert have >= all_of_torch


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("optimizer", ["adamw", "adam_tensor_lr"])
@pytest.mark.failure("lightly-ai/lightly-train#301", "vllm-project/speculators#900", "open-mmlab/mmocr#292")
def test_every_scheduler_gives_the_same_series(run_dir, name, optimizer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        continues(run_dir, [1, 4, 5, 9], 12, optimizer=OPTIMIZERS[optimizer], scheduler=SCHEDULERS[name])


@pytest.mark.failure("THUDM/slime#1547")
def test_resuming_twice_without_a_step_moves_nothing(run_dir):
    parts = {"scheduler": SCHEDULERS["cosine"]}
    want = train(run_dir / "straight", 9, **parts)[1]
    for stop in (4, 4, 4):
        with stops_at(stop):
            train(run_dir / "killed", 9, **parts)
    assert train(run_dir / "killed", 9, **parts)[1] == want


@pytest.mark.failure("ultralytics/yolov5#292")
def test_a_scheduler_made_after_restore_does_not_overwrite_the_rate(run_dir):
    def life(steps, late):
        torch.manual_seed(1)
        model = Net(dropout=False)
        optimizer = O.SGD(model.parameters(), lr=0.1)
        rates = []
        with stops_at(steps), unbroken.Run(run_dir) as run:
            run.attach(model=model, optimizer=optimizer)
            if late:
                run.restore()
            scheduler = lrs.LambdaLR(optimizer, lambda e: 0.5 ** (e // 2))
            run.attach(scheduler=scheduler)
            for _ in run.steps(8):
                model(torch.ones(1, 6)).sum().backward()
                optimizer.step()
                rates.append(float(optimizer.param_groups[0]["lr"]))
                scheduler.step()
        return rates

    assert life(3, False) + life(8, True) == [0.1 * 0.5 ** (k // 2) for k in range(8)]


@pytest.mark.failure("deepinsight/insightface#2143")
def test_another_scheduler_is_a_mismatch_and_another_horizon_is_said(run_dir, capsys):
    with stops_at(3):
        train(run_dir, 9, scheduler=lambda o: lrs.CosineAnnealingLR(o, 20))
    with pytest.raises(StateMismatch, match=r"scheduler\.step_size"):
        train(run_dir, 9, scheduler=lambda o: lrs.StepLR(o, 3))
    capsys.readouterr()
    train(run_dir, 9, scheduler=lambda o: lrs.CosineAnnealingLR(o, 40))
    assert "scheduler.T_max is 40 in the script and 20 in checkpoint 3.a1: 20 is used" in capsys.readouterr().err


# -- the gradient scaler


def make_scaler(**more):
    return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3, **more)


@pytest.mark.failure("huggingface/transformers#11663")
def test_the_scaler_continues(run_dir):
    continues(run_dir, [1, 4, 5], 9, scaler=make_scaler)


@pytest.mark.failure("huggingface/transformers#11663")
def test_a_step_the_scaler_skipped_is_a_completed_step_and_its_scale_is_kept(run_dir):
    def life(stop):
        torch.manual_seed(1)
        model, scaler = Net(dropout=False), make_scaler()
        optimizer = O.SGD(model.parameters(), lr=0.1)
        scales = []
        with stops_at(stop), unbroken.Run(run_dir) as run:
            run.attach(model=model, optimizer=optimizer, scaler=scaler)
            for step in run.steps(6):
                optimizer.zero_grad()
                loss = model(torch.ones(1, 6)).sum() * (float("inf") if step == 2 else 1.0)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                scales.append(scaler.get_scale())
        return scales

    assert life(3) + life(6) == [1024.0, 1024.0, 512.0, 512.0, 512.0, 1024.0]


@pytest.mark.failure("facebookresearch/fairseq2#1346")
def test_unscale_works_first_after_a_resume(run_dir):
    with stops_at(2):
        train(run_dir, 3, scaler=make_scaler)
    model, scaler = Net(), make_scaler()
    optimizer = O.AdamW(model.parameters(), lr=0.01)
    with unbroken.Run(run_dir) as run:
        run.attach(model=model, optimizer=optimizer, scaler=scaler)
        run.restore()
        scaler.unscale_(optimizer)
        assert scaler.get_scale() == 1024.0


def test_a_scaler_that_was_disabled_is_a_mismatch(run_dir):
    with stops_at(2):
        train(run_dir, 3, scaler=make_scaler)
    with pytest.raises(StateMismatch, match=r"scaler\.scale"):
        train(run_dir, 3, scaler=lambda: make_scaler(enabled=False))


# -- matching by name


@pytest.mark.parametrize("order", list(itertools.permutations("pqr")))
@pytest.mark.failure("pytorch/pytorch#6031", "pytorch/pytorch#113673")
def test_parameters_of_one_shape_are_matched_by_name_not_by_place(run_dir, order):
    before = Twins()
    optimizer = O.Adam(before.parameters())
    trained(run_dir, before, optimizer)
    after = Twins(order)
    second = O.Adam(after.parameters())
    attach(run_dir, model=after, optimizer=second)
    assert moments(after, second) == moments(before, optimizer)


@pytest.mark.failure("pytorch/pytorch#6031")
def test_groups_are_matched_by_their_parameters(run_dir):
    before = Twins()
    optimizer = O.Adam([{"params": [before.p], "lr": 0.5}, {"params": [before.q, before.r], "lr": 0.25}])
    trained(run_dir, before, optimizer)
    after = Twins()
    second = O.Adam([{"params": [after.r, after.q]}, {"params": [after.p]}], lr=0.1)
    attach(run_dir, model=after, optimizer=second)
    assert [g["lr"] for g in second.param_groups] == [0.25, 0.5]
    assert moments(after, second) == moments(before, optimizer)


@pytest.mark.failure("mli0603/stereo-transformer#58")
def test_other_groups_and_a_frozen_layer_are_named(run_dir):
    before = Twins()
    trained(run_dir, before, O.Adam([{"params": [before.p]}, {"params": [before.q, before.r]}]))
    after = Twins()
    with pytest.raises(StateMismatch) as caught:
        attach(run_dir, model=after, optimizer=O.Adam([{"params": [after.p, after.q]}, {"params": [after.r]}]))
    assert ("optimizer.state.q", "in group 1", "in group 0") in caught.value.changed
    with pytest.raises(StateMismatch) as caught:
        attach(run_dir, model=after, optimizer=O.Adam([after.p, after.q]))
    assert caught.value.unread == ["optimizer.state.r"] and not caught.value.missing


def test_a_layer_frozen_from_the_start_has_no_state_and_gets_none(run_dir):
    def make():
        model = Twins()
        model.q.requires_grad_(False)
        return model, O.Adam(model.parameters())

    before, optimizer = make()
    trained(run_dir, before, optimizer)
    after, second = make()
    for p in after.parameters():  # state of another life must go
        second.state[p] = {
            "step": torch.tensor(9.0),
            "exp_avg": torch.ones(3, 3),
            "exp_avg_sq": torch.ones(3, 3),
        }
    attach(run_dir, model=after, optimizer=second)
    assert after.q not in second.state
    assert bits(second.state[after.p]) == bits(optimizer.state[before.p])


def test_one_optimizer_over_several_modules(run_dir):
    def make():
        a, b = nn.Linear(2, 2), nn.Linear(2, 2)
        return a, b, O.Adam([*a.parameters(), *b.parameters()])

    a, b, optimizer = make()
    trained(run_dir, a, optimizer, head=b)
    saved = unbroken.load(run_dir)["optimizer"]
    assert list(saved["state"]) == ["model.weight", "model.bias"]  # head had no gradient
    assert saved["param_groups"][0]["params"] == ["model.weight", "model.bias", "head.weight", "head.bias"]
    a2, b2, second = make()
    attach(run_dir, model=a2, optimizer=second, head=b2)
    assert bits(second.state[a2.weight]) == bits(optimizer.state[a.weight])


def test_a_parameter_nobody_owns_is_named_by_group_and_index(run_dir):
    model, other = nn.Linear(2, 2), torch.zeros(4, requires_grad=True)
    optimizer = O.SGD([{"params": model.parameters()}, {"params": [other]}], lr=0.1)
    run = unbroken.Run(run_dir)
    run.attach(optimizer=optimizer, model=model)
    with pytest.raises(Misconfigured, match=r"optimizer: parameter 0 of group 1 \(shape \[4\]\)"):
        run.restore()
    run.attach(other=other)
    assert run.restore() == 0


def test_optimizers_of_a_list(run_dir):
    def make():
        model = Twins()
        return model, [O.SGD([model.p, model.q], lr=0.1, momentum=0.9), O.Adam([model.r])]

    before, optimizers = make()
    with unbroken.Run(run_dir) as run:
        run.attach(model=before, optimizers=optimizers)
        for _ in run.steps(2):
            sum(p.pow(2).sum() for p in before.parameters()).backward()
            for optimizer in optimizers:
                optimizer.step()
    after, second = make()
    attach(run_dir, model=after, optimizers=second)
    assert bits(second[0].state[after.q]) == bits(optimizers[0].state[before.q])
    assert bits(second[1].state[after.r]) == bits(optimizers[1].state[before.r])
