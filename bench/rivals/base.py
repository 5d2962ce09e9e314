"""What an entrant of the race is. Each method says what the clock sees of it."""

import importlib.metadata

from race import machine


class Rival:
    """One way to save and to load. `state`: named live tensors. `loop`: the training that they are of, or None."""

    package = "torch"
    # Who makes a save durable: "itself", "us" (what it wrote is synced before the clock stops), "nobody".
    synced_by = "us"

    def __init__(self, folder, state, loop):
        self.folder, self.state, self.loop = folder, state, loop

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

    def start(self, folder):
        """Clocked, between two steps: begins a save."""
        raise NotImplementedError

    def after_step(self):
        """Clocked, after each step."""

    def before_update(self):
        """Clocked, before the optimizer changes the state: waits until the copy is complete."""

    def is_busy(self):
        """Whether a save is under way."""
        return False

    def wait(self):
        """Clocked, at the end of a window: waits until the save is durable."""

    def reload(self, folder):
        """What was saved last, for the check after a training."""
        return self.load(folder)

    def close(self):
        """Ends what it started."""
