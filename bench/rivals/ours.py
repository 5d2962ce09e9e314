"""Unbroken, through its public face alone."""

from rivals.base import Rival


class Unbroken(Rival):
    """One run; the folders of the race are not used."""

    synced_by = "itself"

    def __init__(self, folder, state):
        super().__init__(folder, state)
        import unbroken

        self.unbroken, self.path = unbroken, folder / "run"
        self.run = unbroken.Run(self.path, every=10**9, keep_last=1)
        self.run.attach(tensors=state)
        self.run.restore()

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
        self.unbroken.load(self.path, into={"tensors": self.state})
        return self.state

    def start(self, folder):
        self._save = self.run.save(wait=False)

    def after_step(self):
        self.run.step()

    def is_busy(self):
        """Also while it reads back what it wrote."""
        return self._save is not None and not self._save.verified.done()

    def wait(self):
        self._save.verified.result()

    def close(self):
        self.run.drain()
        self.run.close()
