"""What an entrant of the race is. Each method says what the clock sees of it."""

import importlib.metadata
import threading

from race import machine


class Rival:
    """One way to save and to load. `state`: named live tensors."""

    package = "torch"
    # Who makes a save durable: "itself", "us" (what it wrote is synced before the clock stops), "nobody".
    synced_by = "us"

    def __init__(self, folder, state):
        self.folder, self.state = folder, state
        self._save, self._error = None, None

    @classmethod
    def version(cls):
        return f"{cls.package} {importlib.metadata.version(cls.package)}"

    def write(self, folder):
        """Saves the state into `folder`, which is new and empty."""
        raise NotImplementedError

    def save(self, folder):
        """Clocked: when it returns the checkpoint is durable."""
        self.write(folder)
        if self.synced_by == "us":
            machine.sync_tree(folder)

    def settle(self):
        """Not clocked: whatever goes on behind a save comes to its end."""

    def load(self, folder):
        """Clocked: what it returns is in memory to the last byte."""
        raise NotImplementedError

    # -- a save beside a training

    saves_when_due = False  # it decides itself when it saves: every `loop.every` steps
    warm_saves = 1  # how many it takes until all that is made once is made

    def train(self, loop):
        """A training begins (loop.py): the state is that of loop.model and loop.optimizer."""

    def begin(self, folder):
        """Begins a save. What it returns is called in a thread, and returns when all is written."""
        raise NotImplementedError

    def start(self, folder):
        """Clocked, between two steps."""
        finish = self.begin(folder)

        def to_the_end():
            try:
                finish()
                if self.synced_by == "us":
                    machine.sync_tree(folder)
            except BaseException as error:
                self._error = error
        self._save = threading.Thread(target=to_the_end)
        self._save.start()

    def before_update(self):
        """Clocked, before the optimizer changes the state: waits until the copy is complete."""

    def after_step(self):
        """Clocked, after each step."""

    def is_busy(self):
        """Whether a save is under way."""
        return self._save is not None and self._save.is_alive()

    def wait(self):
        """Until nothing is under way. Errors: that of the save."""
        if self._save is not None:
            self._save.join()
        if self._error is not None:
            raise self._error

    def close(self):
        """Ends what it started."""


class Nothing(Rival):
    """A training that saves nothing: what is measured of it is the noise."""

    synced_by = "itself"

    def start(self, folder):
        pass


def alone():
    """A process group of this process, for what will not do without."""
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Buffers:
    """Copies of all tensors in memory that is used again for every save."""

    def __init__(self, state, is_shared=False):
        import torch

        self.live = list(state.values())
        self.copies = [torch.zeros_like(tensor) for tensor in self.live]
        if is_shared:
            for copy in self.copies:
                copy.share_memory_()
        self.state = dict(zip(state, self.copies, strict=True))

    def copy(self):
        import torch

        torch._foreach_copy_(self.copies, self.live)
        return self.state
