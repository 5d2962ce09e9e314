"""For transformers.Trainer: a Callback that saves and resumes a training."""

from unbroken._adapters.hf import Callback

__all__ = ["Callback"]
