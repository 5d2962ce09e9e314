"""torch_checkpointing, with the saver that waits; or with shared memory, a thread that stages, a process that writes, and its
lock around the update."""

import contextlib

from race import state as states
from rivals.base import Rival


class TorchCheckpointing(Rival):
    package = "torch_checkpointing"

    def __init__(self, folder, state, background=False):
        super().__init__(folder, state)
        from torch_checkpointing import CheckpointManager
        from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

        kind = CheckpointManager.Config
        config = kind.with_async_save() if background else kind.with_sync_save()
        config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)  # its default is EINVAL on ext4
        self.manager, self.update = config.build(), contextlib.ExitStack()

    def begin(self, folder):
        return self.manager.save(str(folder / "checkpoint"), {"state": self.state}).result

    def write(self, folder):
        self.manager.save(str(folder / "checkpoint"), {"state": self.state})

    def before_update(self):
        self.update.enter_context(self.manager.lock())

    def after_step(self):
        self.update.close()

    def load(self, folder):
        return states.touch(dict(self.manager.load(str(folder / "checkpoint"), into={"state": None})))

    def close(self):
        self.manager.close()
