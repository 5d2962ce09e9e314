"""torchsnapshot: few large tensors with batching off and two writes at a time, many small ones at its defaults."""

import os

from rivals.base import Rival

LARGE_BYTES = 1 << 20


class TorchSnapshot(Rival):
    package = "torchsnapshot-nightly"

    def __init__(self, folder, state):
        super().__init__(folder, state)
        if max(tensor.nbytes for tensor in state.values()) >= LARGE_BYTES:
            os.environ["TORCHSNAPSHOT_DISABLE_BATCHING"] = "1"
            os.environ["TORCHSNAPSHOT_MAX_PER_RANK_IO_CONCURRENCY_OVERRIDE"] = "2"
        import torchsnapshot

        self.torchsnapshot = torchsnapshot
        self.app = {"state": torchsnapshot.StateDict(**state)}

    def write(self, folder):
        self.torchsnapshot.Snapshot.take(str(folder / "snapshot"), self.app)

    def load(self, folder):
        self.torchsnapshot.Snapshot(str(folder / "snapshot")).restore(self.app)
        return dict(self.app["state"])
