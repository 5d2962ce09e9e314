"""The torch side: a data loader that can be stopped after any batch."""

from unbroken.torch.loader import DataLoader

__all__ = ["DataLoader"]
