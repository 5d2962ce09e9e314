"""Torch: every optimizer and scheduler continues bit for bit; names, dtypes, ties and wrappers are matched strictly."""

import contextlib
import itertools
import warnings

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as lrs

import unbroken
from helpers import bits, stops_at
from unbroken import Misconfigured, StateMismatch, dtypes


class Net(nn.Module):
    """Two-dimensional weights only, so that every optimizer takes it."""

    def __init__(self, dropout=True):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.drop = nn.Dropout(0.2 if dropout else 0.0)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x):
        self.seen += len(x)
        return self.b(self.drop(torch.tanh(self.a(x))))


def train(path, steps, seed=1, optimizer=None, scheduler=None, scaler=None, model=None, every=1000):
    """One life. Each step's loss, rates and digest of everything that is left."""
    torch.manual_seed(seed)
    model = (model or Net)()
    optimizer = (optimizer or (lambda p: torch.optim.AdamW(p, lr=0.01)))(list(model.parameters()))
    parts = {"model": model, "optimizer": optimizer}
    if scheduler is not None:
        parts["scheduler"] = scheduler = scheduler(optimizer)
    if scaler is not None:
        parts["scaler"] = scaler = scaler()
    seen = []
    with unbroken.Run(path, every=every) as run:
        run.attach(**parts)
        for step in run.steps(steps):
            x = torch.randn(5, 6)

            def closure():
                optimizer.zero_grad()
                loss = model(x).pow(2).mean()
                (loss if scaler is None else scaler.scale(loss)).backward()
                return loss

            if scaler is not None:
                loss = closure()
                scaler.step(optimizer)
                scaler.update()
            else:
                loss = optimizer.step(closure)
            if isinstance(scheduler, lrs.ReduceLROnPlateau):
                scheduler.step(loss.item())
            elif scheduler is not None:
                scheduler.step()
            run.log(loss=loss)
            seen.append((step, float(loss.detach()).hex(), [float(g["lr"]).hex() for g in optimizer.param_groups]))
    final = (
        bits(model.state_dict()),
        bits(optimizer.state_dict()),
        bits(scheduler.state_dict()) if scheduler else None,
    )
    return seen, final


def continues(run_dir, stops, steps, **parts):
    want = train(run_dir / "straight", steps, **parts)
    seen = []
    for i, stop in enumerate(stops):
        with stops_at(stop):
            seen += train(run_dir / "killed", steps, seed=1 + 50 * i, **parts)[0]
    rest, final = train(run_dir / "killed", steps, seed=99, **parts)
    assert seen + rest == want[0]
    assert final == want[1]


O = torch.optim
OPTIMIZERS = {
    "sgd": lambda p: O.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: O.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd_fused": lambda p: O.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "sgd_foreach": lambda p: O.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "adam": lambda p: O.Adam(p, lr=0.01),
    "adam_tensor_lr": lambda p: O.Adam(p, lr=torch.tensor(0.01)),
    "adam_amsgrad": lambda p: O.Adam(p, lr=0.01, amsgrad=True),
    "adam_fused": lambda p: O.Adam(p, lr=0.01, fused=True),
    "adam_foreach": lambda p: O.Adam(p, lr=0.01, foreach=True),
    "adamw": lambda p: O.AdamW(p, lr=0.01),
    "adamw_fused": lambda p: O.AdamW(p, lr=0.01, fused=True),
    "adagrad": lambda p: O.Adagrad(p, lr=0.01),
    "adagrad_fused": lambda p: O.Adagrad(p, lr=0.01, fused=True),
    "adadelta": lambda p: O.Adadelta(p),
    "adafactor": lambda p: O.Adafactor(p, lr=0.01),
    "adamax": lambda p: O.Adamax(p),
    "asgd": lambda p: O.ASGD(p, lr=0.1, t0=3),
    "nadam": lambda p: O.NAdam(p),
    "radam": lambda p: O.RAdam(p),
    "rmsprop": lambda p: O.RMSprop(p, momentum=0.5, centered=True),
    "rprop": lambda p: O.Rprop(p),
    "muon": lambda p: O.Muon(p, lr=0.01),
    "lbfgs": lambda p: O.LBFGS(p, lr=0.5, max_iter=3, history_size=3),
    "groups": lambda p: O.AdamW([{"params": p[:1], "lr": 0.1}, {"params": p[1:], "weight_decay": 0.5}], lr=0.01),
}


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


class Factor:
    """A callable whose state is its __dict__, as LambdaLR keeps it."""

    def __init__(self):
        self.rate = 0.9

    def __call__(self, epoch):
        return self.rate**epoch


SCHEDULERS = {
    "lambda": lambda o: lrs.LambdaLR(o, lambda e: 0.9**e),
    "lambda_object": lambda o: lrs.LambdaLR(o, Factor()),
    "multiplicative": lambda o: lrs.MultiplicativeLR(o, lambda e: 0.95),
    "step": lambda o: lrs.StepLR(o, 3),
    "multistep": lambda o: lrs.MultiStepLR(o, [2, 5, 5]),
    "constant": lambda o: lrs.ConstantLR(o, 0.5, 4),
    "linear": lambda o: lrs.LinearLR(o, 0.1, 1.0, 6),
    "exponential": lambda o: lrs.ExponentialLR(o, 0.9),
    "polynomial": lambda o: lrs.PolynomialLR(o, 8, 2.0),
    "cosine": lambda o: lrs.CosineAnnealingLR(o, 7, 1e-4),
    "warm_restarts": lambda o: lrs.CosineAnnealingWarmRestarts(o, 3, 2),
    "cyclic": lambda o: lrs.CyclicLR(o, 0.001, 0.1, 3, mode="exp_range", gamma=0.99, cycle_momentum=False),
    "cyclic_function": lambda o: lrs.CyclicLR(o, 0.001, 0.1, 3, scale_fn=lambda x: 0.9**x, cycle_momentum=False),
    "one_cycle": lambda o: lrs.OneCycleLR(o, 0.1, 12),
    "plateau": lambda o: lrs.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1),
    "chained": lambda o: lrs.ChainedScheduler([lrs.ExponentialLR(o, 0.9), lrs.ConstantLR(o, 0.5, 4)], o),
    "sequential": lambda o: lrs.SequentialLR(o, [lrs.LinearLR(o, 0.1, 1.0, 4), lrs.CosineAnnealingLR(o, 8)], [4]),
}  # fmt: skip


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
def test_every_scheduler_gives_the_same_series(run_dir, name, optimizer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        continues(run_dir, [1, 4, 5, 9], 12, optimizer=OPTIMIZERS[optimizer], scheduler=SCHEDULERS[name])


def test_resuming_twice_without_a_step_moves_nothing(run_dir):
    parts = {"scheduler": SCHEDULERS["cosine"]}
    want = train(run_dir / "straight", 9, **parts)[1]
    for stop in (4, 4, 4):
        with stops_at(stop):
            train(run_dir / "killed", 9, **parts)
    assert train(run_dir / "killed", 9, **parts)[1] == want


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


def test_the_scaler_continues(run_dir):
    continues(run_dir, [1, 4, 5], 9, scaler=make_scaler)


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


def attach(path, **named):
    with unbroken.Run(path) as run:
        run.attach(**named)
        return run.restore()


def trained(path, model, optimizer, **more):
    with unbroken.Run(path) as run:
        run.attach(model=model, optimizer=optimizer, **more)
        for _ in run.steps(3):
            optimizer.zero_grad()
            sum(p.pow(2).sum() for p in model.parameters() if p.requires_grad).backward()
            optimizer.step()


class Twins(nn.Module):
    """Parameters of one shape."""

    def __init__(self, names=("p", "q", "r"), dtype=torch.float32):
        super().__init__()
        for name in names:
            self.register_parameter(name, nn.Parameter(torch.randn(3, 3).to(dtype)))


def moments(model, optimizer):
    return {name: bits(optimizer.state[p]) for name, p in model.named_parameters()}


@pytest.mark.parametrize("order", list(itertools.permutations("pqr")))
def test_parameters_of_one_shape_are_matched_by_name_not_by_place(run_dir, order):
    before = Twins()
    optimizer = O.Adam(before.parameters())
    trained(run_dir, before, optimizer)
    after = Twins(order)
    second = O.Adam(after.parameters())
    attach(run_dir, model=after, optimizer=second)
    assert moments(after, second) == moments(before, optimizer)


def test_groups_are_matched_by_their_parameters(run_dir):
    before = Twins()
    optimizer = O.Adam([{"params": [before.p], "lr": 0.5}, {"params": [before.q, before.r], "lr": 0.25}])
    trained(run_dir, before, optimizer)
    after = Twins()
    second = O.Adam([{"params": [after.r, after.q]}, {"params": [after.p]}], lr=0.1)
    attach(run_dir, model=after, optimizer=second)
    assert [g["lr"] for g in second.param_groups] == [0.25, 0.5]
    assert moments(after, second) == moments(before, optimizer)


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


def test_settings_of_a_group_that_differ_are_said(run_dir, capsys):
    before = Twins()
    trained(run_dir, before, O.AdamW(before.parameters(), weight_decay=0.1, lr=0.5))
    after = Twins()
    second = O.AdamW(after.parameters(), weight_decay=0.2, lr=0.25)
    attach(run_dir, model=after, optimizer=second)
    assert second.param_groups[0]["weight_decay"] == 0.1 and second.param_groups[0]["lr"] == 0.5
    err = capsys.readouterr().err
    assert "optimizer.param_groups.0.weight_decay is 0.2 in the script and 0.1 in checkpoint 3.a1" in err
    assert "param_groups.0.lr" not in err


# -- dtypes, views, ties, wrappers

ALL_DTYPES = [d for d in dtypes.TORCH_TO_NAME if hasattr(torch, d)]


def test_the_table_holds_every_dtype_that_torch_can_make_on_a_cpu():
    made = set()
    for name in dir(torch):
        kind = getattr(torch, name)
        if isinstance(kind, torch.dtype):
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.empty(8, dtype=kind)
                made.add(str(kind).removeprefix("torch."))
    assert {name for name in made if name not in ALL_DTYPES} == {
        "qint8",
        "qint32",
        "quint8",
        "quint4x2",
        "quint2x4",
    }


def raw(shape, dtype):
    size = torch.empty(1, dtype=dtype).element_size()
    count = 1
    for n in shape:
        count *= n
    data = torch.randint(0, 2 if dtype is torch.bool else 256, (count * size,), dtype=torch.uint8)
    return data.view(dtype).reshape(shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ALL_DTYPES)
def test_every_dtype_by_bytes(run_dir, name):
    dtype = getattr(torch, name)
    before = {"flat": raw((8,), dtype), "scalar": raw((1,), dtype).reshape(()), "empty": torch.empty((0, 2), dtype=dtype),
              "view": raw((4, 6), dtype)[::2, 1:5]}  # fmt: skip
    trained_state(run_dir, x=before)
    base = torch.empty((4, 6), dtype=dtype)
    after = {
        "flat": torch.empty(8, dtype=dtype),
        "scalar": torch.empty((), dtype=dtype),
        "empty": torch.empty((0, 2), dtype=dtype),
        "view": base[::2, 1:5],
    }
    attach(run_dir, x=after)
    assert bits(after) == bits(before)
    loaded = unbroken.load(run_dir)["x"]
    assert bits(loaded) == bits(before)


def trained_state(path, **named):
    with unbroken.Run(path) as run:
        run.attach(**named)
        for _ in run.steps(1):
            pass


@pytest.mark.parametrize(
    "saved, live",
    [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.int64, torch.int32)],
)
def test_another_dtype_is_refused(run_dir, saved, live):
    trained_state(run_dir, x=torch.zeros(3, dtype=saved))
    target = torch.ones(3, dtype=live)
    with pytest.raises(StateMismatch) as caught:
        attach(run_dir, x=target)
    ((name, before, here),) = caught.value.changed
    assert (name, before, here) == (
        "x",
        f"{dtypes.TORCH_TO_NAME[str(saved)[6:]]}[3]",
        f"{dtypes.TORCH_TO_NAME[str(live)[6:]]}[3]",
    )
    assert target.tolist() == [1, 1, 1]


def test_optimizer_state_of_another_dtype_than_the_parameter_is_kept_as_it_is(run_dir):
    before = Twins(dtype=torch.bfloat16)
    optimizer = O.SGD(before.parameters(), lr=0.1, momentum=0.9)
    trained(run_dir / "a", before, optimizer)
    for p in before.parameters():
        optimizer.state[p]["master"] = p.detach().float() + 1e-4
    trained(run_dir / "b", before, optimizer)
    after = Twins(dtype=torch.bfloat16)
    second = O.SGD(after.parameters(), lr=0.1, momentum=0.9)
    attach(run_dir / "b", model=after, optimizer=second)
    assert second.state[after.p]["master"].dtype == torch.float32
    assert moments(after, second) == moments(before, optimizer)


def test_views_write_their_own_bytes_only(run_dir):
    big = torch.arange(10_000.0)
    views = {"slice": big[5:15], "transposed": big[:600].reshape(20, 30).T, "expanded": torch.tensor([7.0]).expand(3, 4),
             "conj": torch.tensor([1 + 2j, 3 - 1j]).conj(), "neg": torch.tensor([1 + 2j]).conj().imag}  # fmt: skip
    trained_state(run_dir, x=views)
    base = torch.zeros(10_000)
    after = {"slice": base[5:15], "transposed": torch.zeros(30, 20), "expanded": torch.zeros(1).expand(3, 4),
             "conj": torch.zeros(2, dtype=torch.complex64).conj(), "neg": torch.zeros(1, dtype=torch.complex64).conj().imag}  # fmt: skip
    attach(run_dir, x=after)
    for key in views:
        assert torch.equal(views[key], after[key]), key
    assert base[:5].sum() == 0 and base[15:].sum() == 0
    assert sum(t.numel() * t.element_size() for t in unbroken.load(run_dir)["x"].values()) < 4000


class Tied(nn.Module):
    def __init__(self, is_tied=True):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        if is_tied:
            self.head.weight = self.embed.weight


def test_tied_weights_are_kept_once_and_stay_tied(run_dir, fake):
    before = Tied()
    trained(run_dir, before, O.Adam(before.parameters()))
    kept = fake.DISK[str(run_dir)]["checkpoints"][-1]
    assert [entry[0] for entry in kept["tensors"] if entry[0].startswith("model.")] == ["model.embed.weight"]
    assert ("model.head.weight", "model.embed.weight") in kept["alias"]
    after = Tied()
    attach(run_dir, model=after, optimizer=O.Adam(after.parameters()))
    assert after.head.weight is after.embed.weight and torch.equal(after.head.weight, before.head.weight)
    loaded = unbroken.load(run_dir)["model"]
    assert loaded["head.weight"] is loaded["embed.weight"]


@pytest.mark.parametrize("first, second", [(True, False), (False, True)])
def test_other_ties_are_a_mismatch(run_dir, first, second):
    before, after = Tied(first), Tied(second)
    trained_state(run_dir, model=before)
    with pytest.raises(StateMismatch, match="tied to"):
        attach(run_dir, model=after)


def wrap(model, kinds):
    for kind in kinds:
        if kind == "compile":
            model = torch.compile(model, backend="eager")
        elif kind == "parallel":
            model = nn.DataParallel(model)
        else:
            model = nn.parallel.DistributedDataParallel(model)
    return model


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


WRAPPERS = [
    (),
    ("compile",),
    ("ddp",),
    ("compile", "ddp"),
    ("ddp", "compile"),
    ("parallel", "compile"),
    ("compile", "ddp", "compile"),
]


def test_wrappers_leave_no_trace_in_names(run_dir, process_group):
    want = Net().state_dict().keys()
    for i, kinds in enumerate(WRAPPERS):
        before = Net()
        trained_state(run_dir / str(i), model=wrap(before, kinds))
        assert unbroken.load(run_dir / str(i))["model"].keys() == want, kinds
        for others in WRAPPERS:
            after = Net()
            attach(run_dir / str(i), model=wrap(after, others))
            assert bits(after.state_dict()) == bits(before.state_dict())


def test_a_wrapped_child_and_a_child_called_like_a_wrapper(run_dir):
    class Outer(nn.Module):
        def __init__(self, compiled):
            super().__init__()
            self.module = nn.Linear(2, 2)
            self._orig_mod = nn.Linear(2, 2)
            self.block = torch.compile(nn.Linear(2, 2), backend="eager") if compiled else nn.Linear(2, 2)

    before, after = Outer(True), Outer(False)
    trained_state(run_dir, model=before)
    assert list(unbroken.load(run_dir)["model"]) == [n for n, _ in after.named_parameters()]
    attach(run_dir, model=after)
    assert torch.equal(after.block.weight, before.block._orig_mod.weight)


class Extra(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.scale, self.history = 1.0, torch.zeros(2)

    def get_extra_state(self):
        return {"scale": self.scale, "history": self.history}

    def set_extra_state(self, state):
        self.scale, self.history = state["scale"], state["history"]


def test_extra_state_of_modules(run_dir):
    before, after = nn.Sequential(Extra()), nn.Sequential(Extra())
    before[0].scale, before[0].history = 2.5, torch.ones(4)
    trained_state(run_dir, model=before)
    attach(run_dir, model=after)
    assert after[0].scale == 2.5 and after[0].history.tolist() == [1, 1, 1, 1]


class Secretive(nn.Linear):
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "secret"] = torch.zeros(3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "bad, where",
    [
        (lambda: nn.Sequential(Secretive(2, 2)), r"x\.0\.secret"),
        (lambda: [torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8)], r"x\.0: .*quantised"),
        (lambda: {"s": torch.eye(2).to_sparse()}, r"x\.s: .*sparse"),
        (lambda: {"m": torch.zeros(2, device="meta")}, r"x\.m: .*meta"),
        (lambda: nn.Sequential(nn.LazyLinear(3)), r"x\.0\.weight: .*not initialised"),
        (lambda: [torch.zeros(2).as_subclass(type("Sub", (torch.Tensor,), {}))], r"x\.0: .*Sub"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_path(run_dir, bad, where):
    with pytest.raises(Misconfigured, match=where):
        trained_state(run_dir, x=bad())


def test_batch_norm_and_shapes_and_missing_names(run_dir):
    before = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    before(torch.randn(4, 2))
    trained_state(run_dir, model=before)
    after = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    attach(run_dir, model=after)
    assert bits(after.state_dict()) == bits(before.state_dict())
    other = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(3, affine=False), nn.Linear(3, 1, bias=False))
    with pytest.raises(StateMismatch) as caught:
        attach(run_dir, model=other)
    assert caught.value.missing == ["model.2.weight"]
    assert caught.value.unread == ["model.1.bias", "model.1.weight"]
    assert caught.value.changed == [
        ("model.0.bias", "F32[3]", "F32[4]"),
        ("model.0.weight", "F32[3,2]", "F32[4,2]"),
    ]


def test_torch_generators_go_on(run_dir):
    before, after = torch.Generator().manual_seed(3), torch.Generator()
    torch.rand(5, generator=before)
    trained_state(run_dir, g=before)
    attach(run_dir, g=after)
    assert torch.rand(5, generator=after).tolist() == torch.rand(5, generator=before).tolist()


def test_saving_has_no_effect_on_training(run_dir):
    runs = [train(run_dir / str(i), 6, every=every, optimizer=OPTIMIZERS["adam"]) for i, every in enumerate((1, 1000))]
    assert runs[0] == runs[1]


def test_load_into_is_strict_and_in_place(run_dir):
    before = Net()
    optimizer = O.Adam(before.parameters())
    trained(run_dir, before, optimizer)
    after = Net()
    second = O.Adam(after.parameters())
    weight = after.a.weight
    unbroken.load(run_dir, into={"model": after, "optimizer": second})
    assert after.a.weight is weight and bits(after.state_dict()) == bits(before.state_dict())
    assert bits(second.state[after.b.weight]) == bits(optimizer.state[before.b.weight])
    with pytest.raises(StateMismatch):
        unbroken.load(run_dir, into={"model": nn.Linear(2, 2)})
    with pytest.raises(StateMismatch, match="other"):
        unbroken.load(run_dir, into={"other": Net()})


def test_load_gives_the_shape_that_was_attached(run_dir):
    before = Net()
    trained(run_dir, before, O.Adam(before.parameters()))
    checkpoint = unbroken.load(run_dir)
    assert (checkpoint.step, checkpoint.attempt, checkpoint.name, checkpoint.fell_back) == (3, 1, "3.a1", [])
    Net().load_state_dict(checkpoint["model"])
    assert bits(checkpoint["model"]) == bits(dict(before.state_dict()))
    arrays = unbroken.load(run_dir, torch=False)["model"]
    assert bits(arrays["a.weight"]) == bits(before.a.weight.detach().numpy())
    assert list(unbroken.load(run_dir, only="model.a.*")) == ["model"]
    assert list(unbroken.load(run_dir, only="model.a.*")["model"]) == ["a.weight"]
    with pytest.raises(unbroken.NothingToResume):
        unbroken.load(run_dir, at=77)


def test_averaged_weights_and_their_schedule_continue(run_dir):
    from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn

    def life(path, seed):
        torch.manual_seed(seed)
        model = Net()
        ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = SWALR(optimizer, swa_lr=0.01, anneal_epochs=4)
        with unbroken.Run(path) as run:
            run.attach(model=model, ema=ema, optimizer=optimizer, scheduler=scheduler)
            for _ in run.steps(7):
                optimizer.zero_grad()
                model(torch.randn(3, 6)).pow(2).sum().backward()
                optimizer.step()
                ema.update_parameters(model)
                scheduler.step()
        return bits(model.state_dict()), bits(ema.state_dict()), optimizer.param_groups[0]["lr"]

    want = life(run_dir / "straight", 1)
    for i, stop in enumerate((1, 4)):
        with stops_at(stop):
            life(run_dir / "killed", 1 + i)
    got = life(run_dir / "killed", 9)
    assert got == want
    assert want[0] != want[1]


def test_quantised_state_of_an_optimizer_keeps_its_codes_and_what_they_share(run_dir):
    def make():
        model = Twins()
        optimizer = O.SGD(model.parameters(), lr=0.1)
        return model, optimizer

    before, optimizer = make()
    codes = torch.linspace(-1, 1, 256)
    for i, p in enumerate(before.parameters()):
        optimizer.state[p] = {
            "state1": torch.full((3, 3), i, dtype=torch.uint8),
            "qmap1": codes,
            "absmax": torch.ones(()),
            "step": i,
        }
    trained(run_dir, before, optimizer)
    after, second = make()
    attach(run_dir, model=after, optimizer=second)
    assert moments(after, second) == moments(before, optimizer)
    assert second.state[after.p]["qmap1"] is second.state[after.q]["qmap1"]


def test_state_of_a_parameter_in_no_group_is_refused(run_dir):
    model = Twins()
    optimizer = O.Adam([model.p])
    optimizer.state[model.q] = {"exp_avg": torch.ones(1)}
    with pytest.raises(Misconfigured, match="none of its groups"):
        trained(run_dir, model, optimizer)


def test_a_restore_that_did_nothing_would_be_noticed(run_dir, monkeypatch):
    trained_state(run_dir, model=nn.Linear(2, 2))
    from unbroken.collect import Plan

    original = Plan.finish

    def spoilt(self):
        original(self)
        with torch.no_grad():
            model.bias.zero_()

    monkeypatch.setattr(Plan, "finish", spoilt)
    model = nn.Linear(2, 2)
    with pytest.raises(StateMismatch, match=r"model\.bias: saved digest"):
        attach(run_dir, model=model)


def test_extending_a_finished_run_takes_the_next_steps_only(run_dir):
    first = train(run_dir / "a", 4)[0]
    more = train(run_dir / "a", 7, seed=5)[0]
    assert [step for step, *_ in first + more] == list(range(7))
    assert first + more == train(run_dir / "b", 7)[0]
