"""What people write themselves: a copy into buffers that are used again, then torch.save in a thread."""

from rivals.base import Buffers
from rivals.torch_save import TorchSave


class ByHand(TorchSave):
    def __init__(self, folder, state):
        super().__init__(folder, state)
        self.buffers = Buffers(state)

    def begin(self, folder):
        copies = self.buffers.copy()
        return lambda: self.torch.save(copies, folder / "state.pt")
