"""Unbroken, through its public face alone."""

from rivals.base import Rival


class Unbroken(Rival):
    """One run; the folders of the race are not used."""

    synced_by = "itself"

    def __init__(self, folder, state, loop):
        super().__init__(folder, state, loop)
        import unbroken

        self.unbroken, self.path, self.saving = unbroken, folder / "run", None
        self.run = unbroken.Run(self.path, every=10**9, keep_last=1)
        if loop is None:
            self.run.attach(tensors=state)
        else:
            self.run.attach(model=loop.model, optimizer=loop.optimizer)
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

    def after_step(self):
        self.run.step()

    def start(self, folder):
        self.saving = self.run.save(wait=False)

    def is_busy(self):
        return self.saving is not None and not self.saving.durable.done()

    def wait(self):
        if self.saving is not None:
            self.saving.wait("durable")

    def reload(self, folder):
        return self.unbroken.load(self.path)

    def close(self):
        self.run.drain()
        self.run.close()
