"""Orbax's AsyncCheckpointer on NumPy arrays that share the memory of the live tensors."""

from rivals.base import Rival


class Orbax(Rival):
    package = "orbax-checkpoint"

    def __init__(self, folder, state, defaults=False):
        super().__init__(folder, state)
        from orbax import checkpoint

        self.checkpoint = checkpoint
        self.arrays = {name: tensor.detach().numpy() for name, tensor in state.items()}
        settings = {} if defaults else {"use_ocdbt": len(state) > 1000, "use_compression": False}
        self.checkpointer = checkpoint.AsyncCheckpointer(checkpoint.PyTreeCheckpointHandler(**settings))

    def begin(self, folder):
        self.checkpointer.save(folder / "tree", args=self.checkpoint.args.PyTreeSave(self.arrays))
        return self.checkpointer.wait_until_finished

    def write(self, folder):
        self.begin(folder)()

    def load(self, folder):
        kinds = {name: self.checkpoint.RestoreArgs(restore_type=type(array)) for name, array in self.arrays.items()}
        return self.checkpointer.restore(folder / "tree", args=self.checkpoint.args.PyTreeRestore(restore_args=kinds))

    def close(self):
        self.checkpointer.close()
