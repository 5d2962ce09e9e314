"""Unbroken, through its public face alone."""

from rivals.base import Rival


class Unbroken(Rival):
    """One run; the folders of the race are not used."""

    synced_by = "itself"

    saves_when_due, warm_saves = True, 7  # it proves first that nobody writes what it copies later

    def __init__(self, folder, state):
        super().__init__(folder, state)
        import unbroken

        self.unbroken, self.path, self.objects = unbroken, folder / "run", {"tensors": state}
        self._open(10**9)

    def _open(self, every):
        self.run = self.unbroken.Run(self.path, every=every, keep_last=1)
        self.run.attach(**self.objects)
        self.run.restore()

    def train(self, loop):
        self.run.close()
        self.path, self.objects = self.path.with_name("trained"), {"model": loop.model, "optimizer": loop.optimizer}
        self._open(loop.every)

    @classmethod
    def version(cls):
        import unbroken

        return f"unbroken {unbroken.__version__}"

    def save(self, folder):
        self.run.step()
        self.run.save(wait=True)

    def settle(self):
        self.run.drain()

    def load(self, folder):
        self.unbroken.load(self.path, into=self.objects)
        return self.state

    def start(self, folder):
        """It began when the step was complete."""

    def before_update(self):
        """What the hook of the optimizer would wait for."""
        if hasattr(self.run, "fence"):
            self.run.fence()

    def after_step(self):
        self.run.step()

    def is_busy(self):
        """Also while it reads back what it wrote, and removes what it replaced."""
        return not self.run.drain(1e-6)

    def wait(self):
        self.run.drain()

    def close(self):
        self.run.drain()
        self.run.close()
