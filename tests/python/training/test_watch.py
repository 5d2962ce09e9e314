"""A boundary between two steps: what is left of gradients there."""

import math

import pytest
import torch

import unbroken
from unbroken import Misconfigured


@pytest.mark.failure("vllm-project/speculators#859")
def test_gradients_at_a_boundary_that_no_step_took_are_an_error(run_dir):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with unbroken.Run(run_dir) as run:
        run.attach(model=model, optimizer=optimizer)
        loop = run.steps(5)
        next(loop)
        optimizer.step()
        next(loop)
        model(torch.ones(1, 2)).backward()
        with pytest.raises(Misconfigured, match="no attached optimizer has stepped"):
            next(loop)
        with pytest.raises(Misconfigured, match="did not complete"):
            run.save()


@pytest.mark.parametrize("gradients", ["cleared", "zeros", "nan", "inf", "sparse nan"])
def test_a_step_that_is_skipped_is_a_step(run_dir, gradients):
    model = torch.nn.Embedding(4, 2, sparse=gradients == "sparse nan")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with unbroken.Run(run_dir) as run:
        run.attach(model=model, optimizer=optimizer)
        for step in run.steps(3):
            optimizer.zero_grad(set_to_none=gradients != "zeros")
            factor = math.nan if "nan" in gradients else math.inf
            loss = model(torch.tensor([1, 2])).sum() * (factor if step == 1 else 1.0)
            loss.backward()
            if step != 1:
                optimizer.step()
            elif gradients in ("cleared", "zeros"):
                optimizer.zero_grad(set_to_none=gradients == "cleared")
        run.save()
        assert run.newest == "3.a1"
