"""What an entrant of the race is. Each method says what the clock sees of it."""

import importlib.metadata

from race import machine


class Rival:
    """One way to save and to load. `state`: named live tensors."""

    package = "torch"
    # Who makes a save durable: "itself", "us" (what it wrote is synced before the clock stops), "nobody".
    synced_by = "us"

    def __init__(self, folder, state):
        self.folder, self.state = folder, state

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

    def close(self):
        """Ends what it started."""
