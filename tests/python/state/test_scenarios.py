"""Whole trainings of several sorts, stopped anywhere: the end has the same bits as that of a straight run."""

from collections import deque

import numpy
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import unbroken
from helpers import bits, stops_at


def linear(seed):
    torch.manual_seed(seed)
    return nn.Linear(3, 3)


def gan(run, seed):
    g, d = linear(seed), linear(seed + 1)
    og, od = torch.optim.Adam(g.parameters(), 0.01), torch.optim.RMSprop(d.parameters(), 0.01)
    run.attach(g=g, d=d, og=og, od=od)

    def step(_):
        z = torch.randn(4, 3)
        for optimizer, sign in ((od, 1), (og, -1)):
            optimizer.zero_grad()
            (sign * (d(g(z)).mean() - d(z).mean())).backward()
            optimizer.step()

    return step, lambda: (g.state_dict(), d.state_dict())


class Replay:
    """A buffer with a state of its own, of any size."""

    def __init__(self):
        self.items = []

    def state_dict(self):
        return {"items": list(self.items)}

    def load_state_dict(self, state):
        self.items = list(state["items"])


def reinforcement(run, seed):
    """Online and target network, replay as an object and as a deque in run.state, observation statistics, a best score."""
    online, target = linear(seed), linear(seed)
    optimizer = torch.optim.Adam(online.parameters(), 0.01)
    replay, stats = Replay(), {"mean": numpy.zeros(3), "count": 0}
    run.state.update(queue=deque(maxlen=5), best=float("-inf"), patience=0)
    run.attach(online=online, target=target, optimizer=optimizer, replay=replay, stats=stats)

    def step(k):
        seen = numpy.random.randn(3)
        stats["count"] += 1
        stats["mean"] += (seen - stats["mean"]) / stats["count"]
        replay.items.append((torch.from_numpy(seen - stats["mean"]).float(), k))
        run.state["queue"].append(seen)
        x, _ = replay.items[int(torch.randint(len(replay.items), ()))]
        optimizer.zero_grad()
        loss = (online(x) - target(x).detach() - float(run.state["queue"][0][0])).pow(2).sum()
        loss.backward()
        optimizer.step()
        is_better = -loss.item() > run.state["best"]
        run.state.update(best=max(run.state["best"], -loss.item()), patience=0 if is_better else run.state["patience"] + 1)
        if k % 3 == 2:
            target.load_state_dict(online.state_dict())

    return step, lambda: (online.state_dict(), target.state_dict(), stats, replay.items, list(run.state["queue"]),
                          run.state["best"], run.state["patience"])  # fmt: skip


def averaged(run, seed):
    """Weights are swapped for their average in the body, where a save is asked for: it is taken after the swap back."""
    model = linear(seed)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run.attach(model=model, ema=ema, optimizer=optimizer)

    def step(_):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).pow(2).sum().backward()
        optimizer.step()
        ema.update_parameters(model)
        mine = [p.data for p in model.parameters()]
        for p, q in zip(model.parameters(), ema.module.parameters(), strict=True):
            p.data = q.data
        run.save(wait=False)
        for p, data in zip(model.parameters(), mine, strict=True):
            p.data = data

    return step, lambda: (model.state_dict(), ema.state_dict())


def scaled(run, seed):
    """A scaler that is made in the first body, and skips a series of steps."""
    model = linear(seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    run.attach(model=model, optimizer=optimizer)
    made = []

    def step(k):
        if not made:
            made.append(torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2))
            run.attach(scaler=made[0])
        optimizer.zero_grad()
        made[0].scale(model(torch.randn(4, 3)).pow(2).sum()).backward()
        if k in (2, 3, 4):
            model.weight.grad[0, 0] = float("inf")
        made[0].step(optimizer)
        made[0].update()

    return step, lambda: (model.state_dict(), made[0].state_dict(), bits(optimizer.state_dict()))


def accumulated(run, seed):
    model = linear(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    run.attach(model=model, optimizer=optimizer)

    def step(_):
        optimizer.zero_grad()
        for _ in range(3):
            model(torch.randn(2, 3)).pow(2).sum().backward()
        optimizer.step()

    return step, lambda: model.state_dict()


SCENARIOS = [gan, reinforcement, averaged, scaled, accumulated]


def life(path, make, steps, seed):
    torch.manual_seed(seed)
    numpy.random.seed(seed)
    with unbroken.Run(path, every=2) as run:
        step, final = make(run, seed)
        if make is not scaled:
            torch.manual_seed(seed + 10)
        for k in run.steps(steps):
            step(k)
        return bits(final())


@pytest.mark.parametrize("stops", [[1], [3], [4], [2, 5], [1, 2, 3, 4, 5, 6]])
@pytest.mark.parametrize("make", SCENARIOS)
@pytest.mark.failure(
    "mosaicml/composer#1376", "harubaru/waifu-diffusion#31", "keras-team/keras#11420",
    "DLR-RM/stable-baselines3#1256",
)  # fmt: skip
def test_it_continues_bit_for_bit(run_dir, make, stops):
    want = life(run_dir / "straight", make, 8, 1)
    for i, stop in enumerate(stops):
        with stops_at(stop):
            life(run_dir / "killed", make, 8, 1 if i == 0 else 50 + i)
    assert life(run_dir / "killed", make, 8, 99) == want


@pytest.mark.parametrize("micro", [1, 2, 3, 4, 5])
@pytest.mark.failure("vllm-project/speculators#859")
def test_an_accumulation_window_that_was_begun_is_taken_again(run_dir, micro):
    def part(path, micros, seed):
        model = linear(1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(seed)
        run = unbroken.Run(path, every=1)
        try:
            run.attach(model=model, optimizer=optimizer)
            done = 0
            run.restore()
            while run._step < 3 and (micros is None or done < micros):
                model(torch.randn(2, 3)).pow(2).sum().backward()
                done += 1
                if done % 3 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                run.step(accumulate=3)
        finally:
            run.close()
        return bits(model.state_dict())

    want = part(run_dir / "straight", None, 5)
    part(run_dir / "killed", micro, 5)
    assert part(run_dir / "killed", None, 5 if micro < 3 else 77) == want
