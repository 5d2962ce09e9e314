"""What has a state and is within reach is named, with its kind; what is attached, or belongs to it, is not."""

import dataclasses
import functools
import random

import numpy
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import unbroken
import unbroken.torch
from unbroken.audit import Unattached


class Metric:
    def state_dict(self):
        return {"best": 1}

    def load_state_dict(self, state):
        pass


class Stream(Metric):
    def __iter__(self):
        return iter(())


class Trainer:
    def __init__(self, **parts):
        self.parts = parts


MODEL = nn.Linear(2, 2)
DATA = torch.utils.data.TensorDataset(torch.zeros(4, 2))


def schedule(kind=torch.optim.lr_scheduler.StepLR):
    return kind(torch.optim.SGD(MODEL.parameters(), 0.1), 1)


KINDS = {
    "optimizer": [lambda: torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1)],
    "scheduler": [schedule, lambda: torch.optim.lr_scheduler.ReduceLROnPlateau(schedule().optimizer)],
    "scaler": [lambda: torch.amp.GradScaler("cpu")],
    "module": [lambda: nn.Linear(1, 1), lambda: nn.BatchNorm1d(2, affine=False), lambda: nn.Sequential(MODEL, nn.Linear(2, 2)),
               lambda: torch.compile(nn.Linear(1, 1), backend="eager")],
    "generator": [lambda: random.Random(1), lambda: numpy.random.default_rng(1), lambda: numpy.random.RandomState(1),
                  lambda: numpy.random.PCG64(1), torch.Generator],
    "loader": [Stream, lambda: torch.utils.data.DataLoader(DATA, shuffle=True), lambda: unbroken.torch.DataLoader(DATA)],
    "ema": [lambda: AveragedModel(nn.Linear(1, 1)), lambda: type("EMA", (Metric,), {})()],
    "other": [Metric],
}  # fmt: skip
HAS_NONE = [
    None, 5, "text", [1], {"a": 1.5}, nn.ReLU(), nn.CrossEntropyLoss(), torch.zeros(2), numpy.zeros(2), random._inst,
    torch.default_generator, numpy.random.mtrand._rand, torch.amp.GradScaler("cpu", enabled=False),
    torch.utils.data.DataLoader(DATA), DATA, Metric, random, len, lambda: 0,
]  # fmt: skip


@pytest.fixture
def run(run_dir):
    with unbroken.Run(run_dir) as run:
        yield run


@pytest.mark.parametrize("kind, make", [(kind, make) for kind, several in KINDS.items() for make in several])
@pytest.mark.failure(
    "KempnerInstitute/KempnerForge#51", "lightly-ai/lightly-train#301", "DLR-RM/stable-baselines3#1256",
    "CodefyUI/CodefyUI#118",
)  # fmt: skip
def test_each_kind_is_found_wherever_it_is_and_not_where_it_is_attached(run, kind, make):
    value = make()
    run.attach(model=MODEL)
    if kind == "scheduler":
        run.attach(optimizer=value.optimizer)
    assert run.audit(value) in ([Unattached(type(value).__name__, kind)], [Unattached("generator", kind)])
    places = {"['k']": {"k": value}, "[1]": [0, value], "parts['x']": Trainer(x=value), "[1]['a'][0]": (1, {"a": (value,)})}
    for path, around in places.items():
        assert run.audit(around) == [Unattached(path, kind)]
    assert run.audit(None, [value]) == [Unattached("roots[1][0]", kind)]
    if not hasattr(value, "state_dict") and kind == "loader":
        return  # it cannot be attached
    run.attach(it=[value] if kind in ("module", "generator") else value)
    assert run.audit(value, [value], Trainer(x=value)) == []


@pytest.mark.parametrize("value", HAS_NONE, ids=lambda v: type(v).__name__)
def test_what_has_no_state_is_not_named(run, value):
    assert run.audit(value, [value], Trainer(x=value)) == []


def test_what_belongs_to_something_attached_is_attached(run):
    generator = torch.Generator()
    loader = unbroken.torch.DataLoader(DATA, sampler=torch.utils.data.RandomSampler(DATA, generator=generator))
    bits, model = numpy.random.PCG64(1), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    parts = [torch.optim.lr_scheduler.ConstantLR(optimizer), torch.optim.lr_scheduler.StepLR(optimizer, 2)]
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [2])
    run.attach(loader=loader, n=numpy.random.Generator(bits), model=model, optimizer=optimizer, scheduler=scheduler)
    around = nn.DataParallel(model), nn.ModuleList([model[1]]), torch.compile(model, backend="eager")
    assert run.audit(generator, bits, *model, *parts, *around, run, run.state) == []
    run.state["g"] = {"a": [1]}
    assert run.audit(run.state) == []


def test_an_attribute_of_an_attached_module_is_found(run):
    model = nn.Linear(1, 1)
    model.noise = torch.Generator()
    run.attach(model=model)
    assert run.audit(Trainer(m=model)) == [Unattached("parts['m'].noise", "generator")]


def test_without_roots_it_looks_at_the_callers_variables(run):
    mine = nn.Linear(1, 1)
    noise = {"a": random.Random(1)}
    found = run.audit()
    assert Unattached("mine", "module") in found and Unattached("noise['a']", "generator") in found
    assert Unattached("MODEL", "module") in found
    run.attach(mine=mine, noise=noise, model=MODEL)
    assert [item for item in run.audit() if item.path in ("mine", "noise['a']", "MODEL")] == []
    del noise


@pytest.mark.failure("KempnerInstitute/KempnerForge#51")
def test_the_first_step_says_a_line_for_each(run_dir, capsys):
    def life(number):
        model, forgotten = nn.Linear(1, 1), torch.Generator()
        with unbroken.Run(run_dir) as run:
            run.attach(model=model, m2=MODEL)
            run.restore()
            assert "not attached" not in capsys.readouterr().err
            made_since = random.Random(1)
            for _ in run.steps(number):
                of_the_body = torch.Generator()
            run.restore()
        del forgotten, made_since, of_the_body

    for number in (1, 2):
        life(number)
        err = capsys.readouterr().err
        assert err.count("not attached: forgotten (generator) has a state") == 1
        assert err.count("not attached: made_since (generator) has a state") == 1
        assert "of_the_body" not in err


def test_what_is_attached_in_the_first_step_is_not_named(run_dir, capsys):
    for end in (1, 2):
        model, loader = nn.Linear(2, 2), unbroken.torch.DataLoader(DATA)
        with unbroken.Run(run_dir) as run:
            run.restore()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step, _ in run.steps(end, loader):
                if step == end - 1:
                    run.attach(model=model, optimizer=optimizer)
            run.attach(m2=MODEL)
        err = capsys.readouterr().err
        assert [line for line in err.splitlines() if "not attached" in line and "MODEL" not in line] == []


def test_cycles_and_odd_objects_do_no_harm(run):
    class Odd:
        __slots__ = ("a", "never", "__weakref__")

        @property
        def dangerous(self):
            raise AssertionError

        def __getattr__(self, name):
            raise AssertionError(name)

        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    odd, ring = Odd(), []
    odd.a = [ring, random.Random(1)]
    ring += [ring, odd, {1: odd, (2, 3): nn.Linear(1, 1), "m": nn.Linear(1, 1)}]
    assert sorted(item.kind for item in run.audit(ring)) == ["generator", "module"]


class Stats:
    def __init__(self):
        self.mean, self.count, self.name = torch.zeros(3), 0, "stats"


@dataclasses.dataclass
class Average:
    shadow: list
    decay: float = 0.5


class Stopper:
    def __init__(self):
        self.best, self.bad, self.patience = 1.0, 0, 3


def changes():
    """What is changed by each step of a script, and how it is named: `attached` of it is part of the state."""
    model = nn.Linear(2, 2)
    model.seen = torch.zeros(1)
    average = Average([p.detach().clone() for p in model.parameters()])
    return model, Stats(), average, Stopper(), numpy.zeros(3), [torch.zeros(4)], {"a": torch.zeros(300, 300)}


@pytest.mark.failure("DLR-RM/stable-baselines3#1256", "DLR-RM/stable-baselines3#29")
@pytest.mark.parametrize("is_attached", [False, True])
def test_what_has_no_state_dict_and_changes_is_named(run_dir, capsys, is_attached):
    model, stats, average, stopper, array, listed, mapped = changes()
    weights, data, last = list(model.parameters()), torch.rand(4, 2), Stats()
    view = [p.detach() for p in weights]
    with unbroken.Run(run_dir) as run:
        run.attach(model=model, m2=MODEL)
        if is_attached:
            run.attach(mean=stats.mean, shadow=average.shadow, array=array, listed=listed, mapped=mapped, seen=model.seen)
        for step in run.steps(2):
            last.mean = model(data).detach()  # another tensor in each step: what a body makes anew
            with torch.no_grad():
                for weight, mean in zip(weights, average.shadow, strict=True):
                    weight.add_(1)
                    mean.data.mul_(0.5).add_(weight.data)
            for tensor in (stats.mean, model.seen, listed[0], mapped["a"]):
                tensor += 1
            del tensor
            array += 1
            stats.count += 1
            stopper.bad += 1
            found = {item.path for item in run.audit()} & set(changed_names())
            assert found == ({"stats", "stopper"} if is_attached else set(changed_names())), step
        assert [item.path for item in run.audit([stopper], average)] == ["roots[0][0]"] + ["roots[1].shadow"] * (not is_attached)
    said = {line.split()[3] for line in capsys.readouterr().err.splitlines() if "changes as steps run" in line}
    assert said == (set() if is_attached else set(changed_names()) - {"stats", "stopper"})
    del view


def changed_names():
    return ["stats", "stats.mean", "model.seen", "average.shadow", "stopper", "array", "listed", "mapped"]


def test_data_is_not_named_though_it_changes(run_dir, capsys):
    class Data(torch.utils.data.Dataset):
        def __init__(self):
            self.cache, self.reads = torch.zeros(4), 0

        def __len__(self):
            return 4

        def __getitem__(self, index):
            self.cache += 1
            self.reads += 1
            return self.cache[index]

    data = Data()
    loader = unbroken.torch.DataLoader(data)
    with unbroken.Run(run_dir) as run:
        run.attach(loader=loader, m2=MODEL)
        for _ in run.steps(2, loader):
            assert not [item for item in run.audit() if item.path.split(".")[0] in ("data", "loader")]
    assert "changes as steps run" not in capsys.readouterr().err


def held(value):
    """A function of each kind that holds it, and how it is reached from there."""

    def closure():
        return value

    def outer():
        return lambda: value

    def default(some=1, noise=value, *, last=None):
        return noise

    def keyword(*, noise=value):
        return noise

    def with_attribute():
        return None

    def nested():
        return closure()

    with_attribute.noise = value

    class Stepper:
        def __init__(self):
            self.noise = value

        def step(self):
            return self.noise

        __call__ = step

    return [
        (closure, "{value}"), (outer(), "{value}"), (default, "{noise}"), (keyword, "{noise}"), (with_attribute, "noise"),
        (nested, "{closure}.{value}"), (Stepper().step, "__self__.noise"), (Stepper(), "noise"),
        (functools.partial(print, value), "args[0]"), (functools.partial(print, sep=[value]), "keywords['sep'][0]"),
        (functools.partial(closure), "func.{value}"), (functools.wraps(closure)(lambda: 0), "__wrapped__.{value}"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind, make", [(kind, several[0]) for kind, several in KINDS.items()])
def test_what_a_function_holds_is_found(run, kind, make):
    value = make()
    run.attach(model=MODEL)
    if kind == "scheduler":
        run.attach(optimizer=value.optimizer)
    places = held(value)
    if kind == "generator":
        places.append((value.random, "__self__"))
    for function, path in places:
        assert run.audit(function) == [Unattached(path, kind)], path
        assert run.audit([function]) == [Unattached(f"[0].{path}", kind)], path
    if hasattr(value, "state_dict") or kind == "generator":
        run.attach(it=value)
        assert run.audit(*(function for function, _ in places)) == []


def test_an_average_is_known_by_the_name_of_the_variable_that_a_function_closes_over(run):
    ema, unbound = Metric(), 0
    run.attach(model=MODEL)
    assert run.audit(lambda: ema) == [Unattached("{ema}", "ema")]

    def early():
        return unbound

    del unbound
    assert run.audit(early) == []


def test_globals_are_looked_at_where_a_function_of_the_script_names_them(run, tmp_path, monkeypatch):
    (tmp_path / "steps_of_mine.py").write_text(
        "import random\nNOISE, OTHER = random.Random(1), random.Random(2)\n"
        "def draw():\n    return [NOISE.random() for _ in range(2)]\ndef step():\n    return draw()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import steps_of_mine

    assert run.audit(steps_of_mine.step) == [Unattached("{draw}.{NOISE}", "generator")]
    monkeypatch.setattr("unbroken._state.compare.changed._LIBRARIES", (str(tmp_path),))
    assert run.audit(steps_of_mine.step) == []


def test_a_step_that_is_handed_over_as_a_function_says_a_line_for_each(run_dir, capsys):
    def trained():
        model, noise, mean, data, buffer = nn.Linear(2, 2), torch.Generator(), torch.zeros(2), torch.rand(4, 2), torch.zeros(4, 2)
        collate, scale = (lambda items: torch.stack(items)), functools.partial(torch.mul, torch.ones(2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        optimizer.register_step_post_hook(lambda *_: model.zero_grad())

        def step():
            batch = scale(collate(list(data))) + torch.rand(4, 2, generator=noise)
            mean.mul_(0.5).add_(batch.mean(0))
            loss = model(batch + buffer).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()

        return {"model": model, "optimizer": optimizer, "schedule": schedule}, {"noise": noise, "mean": mean}, step

    def fit(path, parts, function):
        with unbroken.Run(path) as run:
            run.attach(**parts)
            for _ in run.steps(2):
                function()
            return [item for item in run.audit() if item.path.startswith("function")]

    parts, forgotten, step = trained()
    assert fit(run_dir, parts, step) == [Unattached("function.{noise}", "generator"), Unattached("function.{mean}", "other")]
    said = [line for line in capsys.readouterr().err.splitlines() if "function" in line]
    assert [line.split()[3] for line in said] == ["function.{noise}", "function.{mean}"]
    assert fit(f"{run_dir}.all", parts | forgotten, step) == []
    assert "function" not in capsys.readouterr().err
