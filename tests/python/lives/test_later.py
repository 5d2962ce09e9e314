"""What is copied while the training goes on, in loops that write parameters and state in every known way between two
steps: each checkpoint holds the state of its step, bit for bit, or its save is refused by name. Never other bytes."""

import copy

import pytest
import torch
from torch import nn

import unbroken
from helpers import bits, records

_SIDE = 1024  # 4 MiB a parameter: it takes a while to copy
_STEPS = 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(_SIDE, _SIDE), nn.Linear(_SIDE, _SIDE, bias=False)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Loop:
    """A plain loop, and what the rows below change in it."""

    def __init__(self):
        torch.manual_seed(0)
        self.net = Net()
        self.inputs = torch.randn(2, _SIDE)
        self.optimizer = torch.optim.AdamW(self.net.parameters())

    def parts(self):
        return dict(net=self.net, optimizer=self.optimizer)

    def backward(self):
        self.net(self.inputs).square().mean().backward()

    def take(self, step):
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()

    def between(self, step):
        """Called right after the boundary, when something is being copied."""

    def live(self, path):
        """(state by step, stats, messages)."""
        states = {}
        with unbroken.Run(path, every=1, keep_last=100) as run:
            run.attach(**self.parts())
            run.restore()
            self.fence = run.fence
            for step in range(1, _STEPS + 1):
                self.take(step)
                states[step] = self.state()
                run.step()
                self.between(step)
                run.drain()
            return states, run.stats()

    def state(self):
        names = {id(p): name for name, p in self.net.named_parameters()}
        slots = {names[id(p)]: state for p, state in self.optimizer.state.items()}
        return bits(copy.deepcopy({"net": dict(self.net.state_dict()), "state": slots}))


def check(path, states):
    """Every checkpoint is the state of its step. Their steps."""
    steps = [record["body"]["save"]["step"] for record in records(path) if record["type"] == "COMMIT"]
    for step in steps:
        saved = unbroken.load(path, at=step)
        assert bits(dict(saved["net"])) == states[step]["net"], f"step {step}: other parameters"
        assert bits(dict(saved["optimizer"]["state"])) == states[step]["state"], f"step {step}: other optimizer state"
    return steps


class Swapped(Loop):
    """Averaged weights are swapped in for an evaluation by `.data`, and back."""

    def between(self, step):
        for p in self.net.parameters():
            kept = p.data
            p.data = torch.zeros_like(p)
            p.data = kept


class Exchanged(Loop):
    """A parameter is exchanged for another one as a whole, and its memory written under that name, and back."""

    def between(self, step):
        other = nn.Parameter(torch.zeros(_SIDE, _SIDE))
        torch.utils.swap_tensors(self.net.first.weight, other)
        kept = other.detach().clone()
        with torch.no_grad():
            other.zero_()
            other.copy_(kept)
        torch.utils.swap_tensors(self.net.first.weight, other)


class Overwritten(Loop):
    """The same by copies into the memory."""

    def between(self, step):
        kept = [p.detach().clone() for p in self.net.parameters()]
        for p in self.net.parameters():
            p.data.zero_()
        for p, value in zip(self.net.parameters(), kept, strict=True):
            p.data.copy_(value)


class Sharpened(Loop):
    """Sharpness-aware minimization: parameters are moved before the second backward pass, and back."""

    def take(self, step):
        self.optimizer.zero_grad()
        self.backward()
        with torch.no_grad():
            kept = [p.clone() for p in self.net.parameters()]
            for p in self.net.parameters():
                p.add_(p.grad)
        self.backward()
        with torch.no_grad():
            for p, value in zip(self.net.parameters(), kept, strict=True):
                p.copy_(value)
        self.optimizer.step()


class Two(Loop):
    """Two optimizers that step in turn, as of a GAN."""

    def __init__(self):
        super().__init__()
        self.optimizer = torch.optim.AdamW(self.net.first.parameters())
        self.other = torch.optim.SGD(self.net.second.parameters(), lr=0.1, momentum=0.9)

    def parts(self):
        return super().parts() | {"other": self.other}

    def take(self, step):
        super().take(step)
        self.other.step()
        self.other.zero_grad()

    def between(self, step):
        self.backward()
        if step % 2:
            self.other.step()  # what is attached and was seen writes only after its hook


class Unattached(Loop):
    """An optimizer of torch that nobody attached writes the same parameters."""

    def __init__(self):
        super().__init__()
        self.other = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def between(self, step):
        self.backward()
        self.other.step()


class TensorRate(Loop):
    """The learning rate is a tensor that is written in place."""

    def __init__(self):
        super().__init__()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=torch.tensor(1e-3), capturable=False, foreach=False)

    def between(self, step):
        self.optimizer.param_groups[0]["lr"].mul_(0.5)


class Skipped(Loop):
    """A step whose gradient is infinite is skipped by the scaler."""

    def __init__(self):
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0)

    def parts(self):
        return super().parts() | {"scaler": self.scaler}

    def take(self, step):
        self.optimizer.zero_grad()
        loss = self.net(self.inputs).square().mean()
        self.scaler.scale(loss * (float("inf") if step == 6 else 1)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


class Compiled(Loop):
    """The optimizer's step is compiled."""

    def __init__(self):
        super().__init__()
        step = torch.compile(self.optimizer.step, backend="eager")
        self.compiled = step

    def take(self, step):
        self.optimizer.zero_grad()
        self.backward()
        self.compiled()

    def between(self, step):
        pass


class Accumulated(Loop):
    """Several backward passes to a step."""

    def take(self, step):
        self.optimizer.zero_grad()
        for _ in range(3):
            self.backward()
        self.optimizer.step()


class Clipped(Loop):
    """Weights are clipped after the step: by a loop that does it after the boundary."""

    def between(self, step):
        with torch.no_grad():
            for p in self.net.parameters():
                p.clamp_(-0.001, 0.001)


class ClippedUnseen(Loop):
    """The same through a view of NumPy, which no counter of torch sees."""

    def between(self, step):
        for p in self.net.parameters():
            view = p.detach().numpy()
            view.clip(-0.001, 0.001, out=view)


class Freed(Loop):
    """The memory of a parameter is given back, and comes anew, as FSDP does."""

    def between(self, step):
        kept = self.net.first.weight.detach().clone()
        storage = self.net.first.weight.untyped_storage()
        size = storage.nbytes()
        storage.resize_(0)
        torch.full((_SIDE, _SIDE), float("nan"))  # takes that memory
        storage.resize_(size)
        with torch.no_grad():
            self.net.first.weight.copy_(kept)


class Moved(Loop):
    """The module is converted and back within the window."""

    def between(self, step):
        self.net.double().float()
        self.net.cpu()


class Loaded(Loop):
    """Parameters and state are replaced by those of a state_dict, as for an evaluation."""

    def between(self, step):
        kept = copy.deepcopy(self.net.state_dict())
        self.net.load_state_dict({name: torch.zeros_like(value) for name, value in kept.items()})
        self.net.load_state_dict(kept)
        state = copy.deepcopy(self.optimizer.state_dict())
        self.optimizer.load_state_dict(state)


class Fenced(Loop):
    """A loop that says before it writes."""

    def between(self, step):
        self.fence()
        with torch.no_grad():
            for p in self.net.parameters():
                p.clamp_(-0.001, 0.001)


class Renewed(Loop):
    """A state that the optimizer replaces, not writes."""

    def between(self, step):
        for state in self.optimizer.state.values():
            state["exp_avg"] = torch.zeros_like(state["exp_avg"])


#: whether every step was saved, and which tensors were found to be written between two steps; None: as it happens
WEIGHTS = ["net.first.weight", "net.second.weight"]
ROWS = {
    Loop: (True, []),
    Swapped: (True, []),
    Exchanged: (True, []),
    Overwritten: (None, None),
    Sharpened: (None, None),
    Two: (True, []),
    Unattached: (True, []),
    TensorRate: (True, []),
    Skipped: (True, []),
    Compiled: (True, []),
    Accumulated: (True, []),
    Clipped: (None, WEIGHTS),
    ClippedUnseen: (None, WEIGHTS),
    Freed: (True, []),
    Moved: (True, []),
    Loaded: (True, []),
    Fenced: (True, []),
    Renewed: (True, []),
}


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
def test_a_checkpoint_holds_its_step_or_is_refused(run_dir, capsys, kind):
    states, stats = kind().live(run_dir)
    steps = check(run_dir, states)
    is_whole, written = ROWS[kind]
    said = capsys.readouterr().err
    assert stats["saves"] + stats["saves_failed"] == _STEPS and len(steps) == stats["saves"]
    if is_whole:
        assert steps == list(range(1, _STEPS + 1)), said
    assert bool(stats["demoted"]) == ("changed between" in said) and stats["saves_failed"] <= len(stats["demoted"])
    if written is not None:
        assert stats["demoted"] == written
