"""For accelerate: attaches what an Accelerator has prepared.

    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    with unbroken.Run("runs/mine") as run:
        unbroken.accelerate.attach(run, accelerator)
        for step, (x, y) in run.steps(10_000, loader):
            ...
"""

from __future__ import annotations

from accelerate.optimizer import AcceleratedOptimizer
from accelerate.scheduler import AcceleratedScheduler

from unbroken.errors import Misconfigured


def attach(run, accelerator) -> None:
    """Attaches the models, optimizers, schedulers, gradient scaler and registered objects of `accelerator` to `run`.

    Under the names model, optimizer, scheduler, scaler, registered; a second one of a sort as model2, and so on.
    Call it after prepare(). The loader is attached by run.steps, and needs a state: unbroken.torch.DataLoader, or
    accelerate's own with use_stateful_dataloader if it does not shuffle. Errors: Misconfigured (nothing was prepared, more than one
    process), those of Run.attach.
    """
    if accelerator.num_processes > 1:
        raise Misconfigured("unbroken.accelerate: more than one process comes later")
    if not accelerator._models and not accelerator._optimizers:
        raise Misconfigured("unbroken.accelerate: nothing was prepared yet: call accelerator.prepare() first")
    sorts = {
        "model": [accelerator.unwrap_model(model) for model in accelerator._models],
        "optimizer": [unwrapped(optimizer) for optimizer in accelerator._optimizers],
        "scheduler": [unwrapped(scheduler) for scheduler in accelerator._schedulers],
        "scaler": [] if accelerator.scaler is None else [accelerator.scaler],
        "registered": accelerator._custom_objects,
    }
    for name, found in sorts.items():
        for i, value in enumerate(found):
            run.attach(**{name if i == 0 else f"{name}{i + 1}": value})


def unwrapped(value):
    """An optimizer or a scheduler without what accelerate puts around it."""
    if isinstance(value, AcceleratedOptimizer):
        return value.optimizer
    return value.scheduler if isinstance(value, AcceleratedScheduler) else value
