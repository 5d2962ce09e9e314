"""A small network and one life of its training, for the tests of the torch side."""

import torch
from torch import nn
from torch.optim import lr_scheduler as lrs

import unbroken
from helpers import bits, stops_at


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
