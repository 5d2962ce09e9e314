"""Checkpoints of a state that lies on a simulated accelerator, by the core as it is: every one is that of its step."""

import pytest
import torch

import unbroken
from helpers import bits, records
from simulated import Device
from unbroken._state.torch import device as product
from unbroken._state.torch import tensors

_STEPS = 5
_LARGE = 700_000  # elements: several chunks


@pytest.fixture
def sim(monkeypatch, request):
    sim = Device(request.param, elements=_LARGE if request.param % 2 else 60)
    real = tensors.view

    def view(tensor, name, reads=True):
        found = real(tensor, name, reads)
        return found._replace(pointer=0) if reads == "host" and sim.has(tensor) else found

    monkeypatch.setattr(tensors, "view", view)
    monkeypatch.setattr(product, "RUNTIME", sim)
    product.streams.cache_clear()
    hooks = []
    for name in ("register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"):
        register = getattr(product, name)
        monkeypatch.setattr(product, name, lambda hook, register=register: hooks.append(register(hook)))
    yield sim
    product.streams.cache_clear()
    for hook in hooks:
        hook.remove()


class State:
    def __init__(self, sim):
        self.sim = sim
        self.device = [sim.make("sim:0") for _ in range(4)]
        self.host = torch.zeros(1000)

    def parts(self):
        return {"device": self.device, "host": self.host}

    def write(self, step):
        for i, tensor in enumerate(self.device):
            self.sim.write("sim:0", tensor, 10 * step + i)
        self.host.fill_(step)
        self.sim.run(self.sim.random.randrange(12))

    def check(self, path, at):
        saved = unbroken.load(path, at=at)
        for i, (tensor, live) in enumerate(zip(saved["device"], self.device, strict=True)):
            assert bits(tensor) == bits(torch.full_like(live, 10 * at + i)), f"step {at}: tensor {i}"
        assert bits(saved["host"]) == bits(torch.full((1000,), float(at)))


@pytest.mark.parametrize("sim", range(12), indirect=True)
def test_a_run_saves_each_step_as_it_was(sim, run_dir):
    state = State(sim)
    with unbroken.Run(run_dir, every=1, keep_last=100, busy="wait", max_wait="60s") as run:
        run.attach(**state.parts())
        for step in run.steps(_STEPS):
            state.write(step + 1)
            if sim.random.random() < 0.3:
                run.save(wait=False)
    for at in range(1, _STEPS + 1):
        state.check(run_dir, at)
    assert sim.registrations <= 2, "each slot of the arena once"


@pytest.mark.parametrize("sim", range(4), indirect=True)
def test_so_does_a_save_without_a_run(sim, run_dir):
    state = State(sim)
    savings = []
    for step in range(3):
        state.write(step)
        savings.append(unbroken.async_save(state.parts(), run_dir, step=step))
    for saving in savings:
        saving.wait("durable")
    for step in range(3):
        state.check(run_dir, step)


@pytest.mark.parametrize("sim", [1], indirect=True)
def test_a_lost_accelerator_fails_the_save_and_not_the_training(sim, run_dir, monkeypatch, capfd):
    state, real, lost = State(sim), product.Arrivals.wait, []

    def wait(self, count):
        if lost:
            raise RuntimeError("the link is down")
        return real(self, count)

    monkeypatch.setattr(product.Arrivals, "wait", wait)
    with unbroken.Run(run_dir, every=1, keep_last=100) as run:
        run.attach(**state.parts())
        for step in run.steps(3):
            run.drain()
            lost[:] = [1] if step == 1 else []
            state.write(step + 1)
    assert "copying from the accelerator: the link is down" in capfd.readouterr().err
    assert run.newest == "3.a1"
    for at in (1, 3):
        state.check(run_dir, at)


@pytest.mark.parametrize("sim", [0], indirect=True)
def test_what_is_not_finite_is_no_best_one(sim, run_dir):
    state = State(sim)
    state.write(1)
    bad = torch.nn.Parameter(sim.make("sim:0").view(torch.float32))
    sim.write("sim:0", bad.detach(), float("nan"))
    with unbroken.Run(run_dir, every=100, keep_best=("loss", "min")) as run:
        run.attach(bad=[bad], **state.parts())
        for _ in run.steps(3):
            run.log(loss=1.0)
    steps = [record["body"]["save"]["step"] for record in records(run_dir) if record["type"] == "COMMIT"]
    assert steps == [1, 2, 3], "the first one stands as the best"


class Queued(torch.optim.Optimizer):
    """Writes step by step what `value` says, in the order of the device."""

    def __init__(self, parameters, sim):
        super().__init__(parameters, {})
        self.sim, self.value = sim, 0

    def step(self, closure=None):
        for i, parameter in enumerate(self.param_groups[0]["params"]):
            torch.autograd.graph.increment_version(parameter)
            self.sim.write("sim:0", parameter.detach(), self.value + i)


class Trained:
    def __init__(self, sim):
        self.sim, self.lazy = sim, []
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(sim.make("sim:0"), requires_grad=False) for _ in range(3))
        self.optimizer = Queued(self.weights, sim)

    def live(self, run_dir, between=lambda self, step: None):
        with unbroken.Run(run_dir, every=1, keep_last=100) as run:
            run.attach(weights=self.weights, optimizer=self.optimizer)
            for step in run.steps(12):
                between(self, step)
                self.sim.run(self.sim.random.randrange(8))
                self.optimizer.value = 10 * (step + 1)
                self.optimizer.step()
                run.drain()  # of the boundary before: its tensors are written while they are copied
                self.lazy.append(run.stats()["last"] and run.stats()["last"]["lazy_bytes"])
        for record in records(run_dir):
            if record["type"] == "COMMIT":
                self._check(run_dir, record["body"]["save"]["step"])
        return run.stats()

    def _check(self, path, at):
        for i, found in enumerate(unbroken.load(path, at=at)["weights"].values()):
            assert bits(found) == bits(torch.full((_LARGE,), 10 * at + i, dtype=torch.int32)), f"step {at}: {i}"


@pytest.mark.parametrize("sim", [1, 3, 5], indirect=True)
def test_what_an_optimizer_owns_is_copied_until_it_steps(sim, run_dir):
    trained = Trained(sim)
    stats = trained.live(run_dir)
    assert stats["saves"] == 12 and stats["demoted"] == []
    assert trained.lazy[-1] == 3 * 4 * _LARGE


@pytest.mark.parametrize("sim", [1, 3, 5], indirect=True)
def test_a_write_that_nobody_tells_of_fails_the_save_by_name(sim, run_dir):
    def between(trained, step):
        if step == 6:
            sim.write("sim:0", trained.weights[1].detach(), -1)
            sim.run(40)

    stats = Trained(sim).live(run_dir, between)
    assert stats["demoted"] in (["weights.1"], [])


@pytest.mark.parametrize("sim", [1], indirect=True)
def test_a_write_that_torch_counts_fails_the_save_by_name(sim, run_dir):
    def between(trained, step):
        if step == 6:
            torch.autograd.graph.increment_version(trained.weights[1])

    stats = Trained(sim).live(run_dir, between)
    assert stats["demoted"] == ["weights.1"] and stats["saves_failed"] == 1
