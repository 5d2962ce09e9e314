"""safetensors: save_file and load_file."""

from race import state as states
from rivals.base import Rival


class SafeTensors(Rival):
    package = "safetensors"

    def write(self, folder):
        from safetensors.torch import save_file

        save_file(self.state, folder / "state.safetensors")

    def load(self, folder):
        from safetensors.torch import load_file

        return states.touch(load_file(folder / "state.safetensors"))
