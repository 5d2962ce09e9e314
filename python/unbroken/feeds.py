"""Batches for `Run.steps`, epoch after epoch, from a loader that can say where it is."""

from __future__ import annotations

from unbroken.errors import Misconfigured


def has_state(value) -> bool:
    """True where the value can say where it is, and be put back there."""
    return all(callable(getattr(value, method, None)) for method in ("state_dict", "load_state_dict"))


_WITHOUT_STATE = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler", "SeedableRandomSampler")


def _order_without_state(loader):
    """The sampler, of torch or accelerate, that a loader with a state would draw another order from in the next life."""
    batches = getattr(loader, "batch_sampler", None)
    for sampler in (getattr(loader, "sampler", None), getattr(batches, "sampler", None)):
        kind = type(sampler)
        if kind.__name__ in _WITHOUT_STATE and kind.__module__.partition(".")[0] in ("torch", "accelerate"):
            return kind.__name__
    return None


class Feed:
    """One loader, kept over several calls of steps(). `epoch` is that of the batch handed out last.

    `guard(function)` calls a function and puts the global generators back afterwards: making an iterator shifts none
    of them.
    """

    def __init__(self, loader, guard):
        if not has_state(loader):
            raise Misconfigured(
                f"steps: {type(loader).__module__}.{type(loader).__qualname__} has no state_dict and "
                "load_state_dict: the position in the data would be lost; use unbroken.torch.DataLoader or another "
                "loader with a state"
            )
        sampler = None if hasattr(loader, "_unbroken_next") else _order_without_state(loader)
        if sampler is not None:
            raise Misconfigured(
                f"steps: the order of {type(loader).__module__}.{type(loader).__qualname__} comes from a {sampler}, which has no state: "
                "a resume would draw another one; use unbroken.torch.DataLoader, or a loader that keeps its order"
            )
        self.loader = loader
        self.epoch = 0
        self._guard = guard
        self._iterator = None

    def next(self):
        """The next batch. Errors: Misconfigured where a whole epoch holds none; what the data set raises."""
        step = getattr(self.loader, "_unbroken_next", None)
        if step is not None:  # our own loader counts its epochs itself
            batch = step()
            self.epoch = self.loader.epoch
            return batch
        for _ in range(2):  # the first one may have ended exactly where the run was resumed
            if self._iterator is None:
                self._iterator = self._guard(self._begin)
            for batch in self._iterator:
                return batch
            self._iterator = None
            self.epoch += 1
        raise Misconfigured("steps: the loader gives no batch in a whole epoch")

    def _begin(self):
        """An iterator of the loader, which may draw its order from the global generators.

        They are put back afterwards, so a loop that draws from none of them would see the same order in every epoch:
        what is drawn here depends on the epoch too.
        """
        from unbroken.torch.seeds import derive, freeze, seed_all

        if self.epoch > 0:
            seed_all(derive(freeze(), self.epoch))
        return iter(self.loader)
