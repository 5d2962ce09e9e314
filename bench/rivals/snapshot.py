"""torchsnapshot: few large tensors with batching off and two writes at a time, many small ones at its defaults."""

import os

from rivals.base import Rival, alone

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

    def begin(self, folder):
        alone()  # it cannot make a store for itself where the host's name has an IPv4 address
        return self.torchsnapshot.Snapshot.async_take(str(folder / "snapshot"), self.app).wait

    def load(self, folder):
        self.torchsnapshot.Snapshot(str(folder / "snapshot")).restore(self.app)
        return dict(self.app["state"])
