"""Unbroken keeps a training run alive: killed at any instant, it continues bit for bit.

    with unbroken.Run("runs/gpt") as run:
        run.attach(model=model, optimizer=optimizer, scheduler=scheduler)
        for step, batch in run.steps(100_000, loader):
            run.log(loss=train_step(batch))

Neither torch nor NumPy is imported here; what they need is found where they are imported already.
"""

from unbroken.errors import (
    CorruptCheckpoint,
    Error,
    Interrupted,
    Misconfigured,
    NothingToResume,
    StateMismatch,
    StorageFull,
    StorageUnavailable,
    Superseded,
)
from unbroken.errors import (
    comes_later as _comes_later,
)
from unbroken.loading import Checkpoint, load
from unbroken.run import Run
from unbroken.saving import Saving


def save(state, path, *, step=None):
    """Of a later version."""
    raise _comes_later("save")


def async_save(state, path, *, step=None):
    """Of a later version."""
    raise _comes_later("async_save")


__all__ = [
    "Checkpoint",
    "CorruptCheckpoint",
    "Error",
    "Interrupted",
    "Misconfigured",
    "NothingToResume",
    "Run",
    "Saving",
    "StateMismatch",
    "StorageFull",
    "StorageUnavailable",
    "Superseded",
    "async_save",
    "load",
    "save",
]
