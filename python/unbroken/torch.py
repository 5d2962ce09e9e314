"""The torch side: a data loader that can be stopped after any batch."""

from __future__ import annotations

from unbroken import _native
from unbroken.errors import Misconfigured, StateMismatch, comes_later

_LATER = {
    "sampler": None, "batch_sampler": None, "pin_memory": False, "persistent_workers": False, "prefetch_factor": None,
    "worker_init_fn": None, "seed_samples": False, "fingerprint": None,
}  # fmt: skip
_FIXED = ("batch_size", "drop_last", "shuffle", "seed", "length")


class DataLoader:
    """Batches of a map-style data set, in an order that depends on (seed, epoch) alone.

    It draws from no global generator, holds no table of indices, and continues exactly from any batch: its state
    is the epoch and the batches handed out of it. batch_size, drop_last, shuffle, seed and the length of the data
    set belong to the state; another value is a StateMismatch.

    `len(loader)` is the number of batches of an epoch. `iter(loader)` goes on where a loaded state stands, else
    begins the next epoch. Errors: Misconfigured (what a later version brings, a data set without length).
    """

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=False,
        *,
        seed=0,
        drop_last=False,
        collate_fn=None,
        num_workers=0,
        **later,
    ):
        for name, value in later.items():
            if name not in _LATER:
                raise TypeError(f"DataLoader() got an unexpected keyword argument {name!r}")
            if value != _LATER[name]:
                raise comes_later(name)
        if num_workers != 0:
            raise comes_later("num_workers")
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise Misconfigured("DataLoader: a data set without length or index (an IterableDataset) comes later")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise Misconfigured(f"DataLoader: batch_size={batch_size!r} is not a number of items")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise Misconfigured(f"DataLoader: seed={seed!r} is not in [0, 2^64)")
        self.dataset, self.batch_size, self.shuffle, self.seed = dataset, batch_size, bool(shuffle), seed
        self.drop_last, self.collate_fn = bool(drop_last), collate_fn
        self.epoch = 0
        self.position = 0  # batches handed out of this epoch
        self._length = len(dataset)
        self._goes_on = True  # the next iterator continues here; else it begins the next epoch
        self._order = None  # (epoch, permutation)

    def __len__(self) -> int:
        whole, rest = divmod(self._length, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self):
        if not self._goes_on or self.position >= len(self) > 0:
            self._begin(self.epoch + 1)
        self._goes_on = False
        epoch = self.epoch
        while self.epoch == epoch and self.position < len(self):
            yield self._hand_out()

    def _unbroken_next(self):
        """The next batch, over the end of an epoch."""
        if len(self) == 0:
            raise Misconfigured("steps: the loader gives no batch in a whole epoch")
        if self.position >= len(self):
            self._begin(self.epoch + 1)
        return self._hand_out()

    def _begin(self, epoch: int) -> None:
        self.epoch, self.position = epoch, 0

    def _hand_out(self):
        batch = self._collate(self._fetch(self.indices(self.epoch, self.position)))
        self.position += 1
        return batch

    def indices(self, epoch: int, position: int) -> list[int]:
        """The indices of batch `position` of an epoch."""
        start = position * self.batch_size
        count = min(self.batch_size, self._length - start)
        if not self.shuffle:
            return list(range(start, start + count))
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, _native.core.Permutation(self._length, self.seed, epoch)
        return [int(index) for index in self._order[1].fill(start, count)]

    def _fetch(self, indices):
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(indices)
        return [self.dataset[index] for index in indices]

    def _collate(self, items):
        if self.collate_fn is not None:
            return self.collate_fn(items)
        from torch.utils.data import default_collate

        return default_collate(items)

    def state_dict(self) -> dict:
        """Settings that fix the order, and the position: batches handed out of `epoch`."""
        fixed = {
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "shuffle": self.shuffle,
            "seed": self.seed,
        }
        return {**fixed, "length": self._length, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict) -> None:
        """Errors: StateMismatch, with nothing changed."""
        changed = self._unbroken_differences(state, "loader")
        if changed:
            raise StateMismatch("the loader does not fit the saved one", changed=changed)
        self._begin(state["epoch"])
        self.position = state["position"]
        self._goes_on = True

    def _unbroken_differences(self, state, name):
        """(name, saved, live) of what makes the saved position meaningless here."""
        here = self.state_dict()
        if not isinstance(state, dict) or state.keys() != here.keys():
            return [(name, "the state of another loader", "unbroken.torch.DataLoader")]
        changed = [(f"{name}.{key}", repr(state[key]), repr(here[key])) for key in _FIXED if state[key] != here[key]]
        if not changed and not (0 <= state["position"] <= len(self) and state["epoch"] >= 0):
            changed.append((f"{name}.position", repr(state["position"]), f"{len(self)} batches an epoch"))
        return changed
