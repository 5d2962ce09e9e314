"""For accelerate: attaches what an Accelerator has prepared."""

from unbroken._adapters.accelerate import attach

__all__ = ["attach"]
