"""For Lightning: a Callback that saves and resumes a fit, and a CheckpointIO for paths of Lightning's choice."""

from unbroken._adapters.lightning import Callback, CheckpointIO

__all__ = ["Callback", "CheckpointIO"]
