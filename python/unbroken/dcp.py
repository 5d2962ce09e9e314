"""For torch.distributed.checkpoint, in one process: a StorageWriter and a StorageReader of run directories."""

from unbroken._adapters.dcp import Reader, Writer

__all__ = ["Reader", "Writer"]
