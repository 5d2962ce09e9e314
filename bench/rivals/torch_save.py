"""torch.save and torch.load."""

from race import state as states
from rivals.base import Rival


class TorchSave(Rival):
    def __init__(self, folder, state, mmap=False):
        super().__init__(folder, state)
        import torch

        torch.serialization.set_crc32_options(False)  # nobody compares it when it loads
        self.torch, self.mmap = torch, mmap

    def write(self, folder):
        self.torch.save(self.state, folder / "state.pt")

    def load(self, folder):
        return states.touch(self.torch.load(folder / "state.pt", weights_only=True, mmap=self.mmap))
