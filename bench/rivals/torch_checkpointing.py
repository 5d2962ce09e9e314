"""torch_checkpointing, with the saver that waits."""

from race import state as states
from rivals.base import Rival


class TorchCheckpointing(Rival):
    package = "torch_checkpointing"

    def __init__(self, folder, state):
        super().__init__(folder, state)
        from torch_checkpointing import CheckpointManager
        from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

        config = CheckpointManager.Config.with_sync_save()
        config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)  # its default is EINVAL on ext4
        self.manager = config.build()

    def write(self, folder):
        self.manager.save(str(folder / "checkpoint"), {"state": self.state})

    def load(self, folder):
        return states.touch(dict(self.manager.load(str(folder / "checkpoint"), into={"state": None})))

    def close(self):
        self.manager.close()
