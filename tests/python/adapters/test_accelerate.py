"""Loops with accelerate: stopped anywhere and resumed, each ends with the bits of the straight one."""

import pytest

pytest.importorskip("accelerate", reason="accelerate is not installed: ./dev setup --adapters")

import torch  # noqa: E402
import unbroken  # noqa: E402
import unbroken.accelerate  # noqa: E402
from accelerate import Accelerator, DataLoaderConfiguration  # noqa: E402
from helpers import bits, stops_at  # noqa: E402
from torch import nn  # noqa: E402
from unbroken.torch import DataLoader  # noqa: E402


class Counter:
    def __init__(self):
        self.count = 0

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def train(path, seed=1, steps=20, accumulate=1, is_stateful=False):
    """One life: losses and what is left."""
    torch.manual_seed(seed)
    x = torch.arange(40.0).reshape(10, 4) / 40
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.0 if is_stateful else 0.3), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    counter = Counter()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate,
                              dataloader_config=DataLoaderConfiguration(use_stateful_dataloader=is_stateful))  # fmt: skip
    if is_stateful:
        loader = accelerator.prepare(torch.utils.data.DataLoader(data, batch_size=2))
    else:
        loader = accelerator.prepare(DataLoader(data, batch_size=2, shuffle=True, seed=3))
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    accelerator.register_for_checkpointing(counter)
    seen = []
    with unbroken.Run(path, every=1000) as run:
        unbroken.accelerate.attach(run, accelerator)
        for step, (inputs, targets) in run.steps(steps, loader):
            for _ in range(accumulate):
                with accelerator.accumulate(model):
                    loss = nn.functional.mse_loss(model(inputs), targets)
                    accelerator.backward(loss)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
            counter.count += 1
            seen.append((step, float(loss).hex()))
    return seen, bits(model.state_dict()), bits(optimizer.optimizer.state_dict()), counter.count


@pytest.mark.parametrize("more", [{}, {"accumulate": 2}, {"is_stateful": True}])
def test_continues_to_the_same_bits(run_dir, more):
    straight = train(run_dir / "straight", **more)
    seen = []
    for i, stop in enumerate((3, 5, 11)):
        with stops_at(stop):
            seen += train(run_dir / "killed", seed=1 + 50 * i, **more)[0]
    rest, *end = train(run_dir / "killed", seed=99, **more)
    assert seen + rest == straight[0] and end == [*straight[1:]]


def test_a_second_of_a_sort_has_a_name_of_its_own(run_dir):
    accelerator = Accelerator(cpu=True)
    models = [nn.Linear(2, 2) for _ in range(2)]
    prepared = accelerator.prepare(*models, *(torch.optim.SGD(model.parameters(), lr=0.1) for model in models))
    with unbroken.Run(run_dir) as run:
        unbroken.accelerate.attach(run, accelerator)
        for _ in run.steps(1):
            for model, optimizer in zip(prepared[:2], prepared[2:], strict=True):
                accelerator.backward(model(torch.ones(2)).sum())
                optimizer.step()
    assert {"model", "model2", "optimizer", "optimizer2"} <= unbroken.load(run_dir).keys()


def test_nothing_prepared_is_said(run_dir):
    with unbroken.Run(run_dir) as run, pytest.raises(unbroken.Misconfigured, match="prepare"):
        unbroken.accelerate.attach(run, Accelerator(cpu=True))


@pytest.mark.parametrize("is_seedable", [False, True])
def test_a_shuffled_order_that_has_no_state_is_refused(run_dir, is_seedable):
    how = DataLoaderConfiguration(use_stateful_dataloader=True, use_seedable_sampler=is_seedable)
    accelerator = Accelerator(cpu=True, dataloader_config=how)
    loader = accelerator.prepare(torch.utils.data.DataLoader(torch.arange(12.0), batch_size=3, shuffle=True))
    with unbroken.Run(run_dir) as run, pytest.raises(unbroken.Misconfigured, match="RandomSampler, which has no state"):
        next(iter(run.steps(5, loader)))


def test_so_is_that_of_a_stateful_loader(run_dir):
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = torch.arange(12.0)
    sampler = torch.utils.data.WeightedRandomSampler(torch.ones(12), 12)
    with unbroken.Run(run_dir) as run, pytest.raises(unbroken.Misconfigured, match="WeightedRandomSampler, which has no state"):
        next(iter(run.steps(5, StatefulDataLoader(data, batch_size=3, sampler=sampler))))
