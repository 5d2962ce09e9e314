"""Unbroken keeps a training run alive: killed at any instant, it continues bit for bit.

    with unbroken.Run("runs/gpt") as run:
        run.attach(model=model, optimizer=optimizer, scheduler=scheduler)
        for step, batch in run.steps(100_000, loader):
            run.log(loss=train_step(batch))

Neither torch nor NumPy is imported here; what they need is found where they are imported already.
"""

from unbroken._native import core
from unbroken.errors import (
    Bug,
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
from unbroken.functional import async_save, save
from unbroken.loading import Checkpoint, load
from unbroken.run import Run
from unbroken.saving import Saving

__version__ = core.version()["version"]

__all__ = [
    "Bug",
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
    "__version__",
    "async_save",
    "load",
    "save",
]
