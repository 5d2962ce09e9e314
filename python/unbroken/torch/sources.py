"""What torch's own loader fetches from, in the trainer or in a worker: whole batches of the user's data set.

torch.utils.data.DataLoader makes the workers, prefetches and pins. It is given one of these as its data set and
numbered requests for batches as its sampler, so that batching, collating and seeding are the same in every process.
"""

from __future__ import annotations

import copy
import operator
import sys
import threading

import torch.utils.data
from torch.utils.data import get_worker_info

from unbroken import _native
from unbroken._native import call
from unbroken.feeds import has_state
from unbroken.torch import seeds
from unbroken.torch.seeds import derive

#: in place of a batch, from workers whose turn has passed when an epoch goes on in its middle
PASS = "pass"


def same(value):
    """The value: torch's collate function where the batch is made already."""
    return value


def default_collate(is_batched: bool):
    """What torch does with the items of a batch, or with one item."""
    return torch.utils.data.default_collate if is_batched else torch.utils.data.default_convert


class WorkerStart:
    """Runs first in each worker: what may end it, and the user's own worker_init_fn."""

    def __init__(self, owner: int, dies_with_owner: bool, function):
        self._owner, self._dies_with_owner, self._function = owner, dies_with_owner, function

    def __call__(self, worker: int) -> None:
        call(_native.core.guard_worker, self._owner, self._dies_with_owner)
        _hush_lost_trainer()
        info = get_worker_info()
        object.__setattr__(info, "dataset", info.dataset.dataset)  # the user's, as without us
        if self._function is not None:
            self._function(worker)


def _hush_lost_trainer() -> None:
    """The thread of multiprocessing that hands tensors over reports to sys.excepthook. A trainer that ends while it takes
    one is no news: the trainer says itself why it ended."""
    said = sys.excepthook

    def hook(kind, error, trace):
        if threading.current_thread() is threading.main_thread() or not issubclass(kind, (ConnectionError, EOFError)):
            said(kind, error, trace)

    sys.excepthook = hook


class MapSource:
    """Items by index. A request is (epoch, batch, indices).

    With `seed`, the global generators are seeded around each item from (seed, epoch, index), and around collating
    from (seed, epoch, batch).
    """

    def __init__(self, dataset, collate, is_batched: bool, seed: int | None):
        self.dataset, self._collate, self._is_batched, self._seed = dataset, collate, is_batched, seed

    def __getitem__(self, request):
        epoch, batch, indices = request
        try:
            if self._seed is None:
                return self._collate(self._items(indices))
            seed_item, dataset = self._seeded(epoch), self.dataset
            items = []
            for index in indices if self._is_batched else [indices]:
                seed_item(index)
                items.append(dataset[index])
            seeds.seed_all(derive(self._seed, epoch, "batch", batch))
            return self._collate(items if self._is_batched else items[0])
        except StopIteration as error:  # it would end the epoch, without a word
            raise RuntimeError(f"the data set raised StopIteration for {indices!r}") from error

    def _items(self, indices):
        if not self._is_batched:
            return self.dataset[indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(indices)
        return [self.dataset[index] for index in indices]

    def _seeded(self, epoch):
        def seed_item(index):
            try:
                index = operator.index(index)
            except TypeError:
                index = repr(index)
            seeds.seed_all(derive(self._seed, epoch, "item", index))

        return seed_item


class IterableSource(torch.utils.data.IterableDataset):
    """Batches of a data set that is read from its beginning: [batch, worker, where the worker stands after it].

    Each pass of each worker draws from generators that are seeded from (seed, epoch, worker). A pass goes on where
    the worker stood: by the state of the data set or of its iterator, else by reading and passing over as many items.
    """

    def __init__(self, dataset, collate, batch_size: int | None, drop_last: bool, seed: int, seeds_items: bool):
        self.dataset, self._collate, self._batch_size, self._drop_last = dataset, collate, batch_size, drop_last
        self._seed, self._seeds_items = seed, seeds_items
        self.begin(0, 0, [])

    def begin(self, epoch: int, turn: int, stands) -> None:
        """The next pass is `epoch`; its first batch is that of worker `turn`; `stands` has one entry a worker."""
        self._epoch, self._turn, self._stands = epoch, turn, stands

    def __iter__(self):
        info = get_worker_info()
        worker = 0 if info is None else info.id
        epoch, is_passed = self._epoch, worker < self._turn
        stand = self._stands[worker] if worker < len(self._stands) else None
        self.begin(epoch + 1, 0, [])  # of a worker that stays
        return self._pass(worker, epoch, is_passed, stand)

    def _pass(self, worker, epoch, is_passed, stand):
        if is_passed:
            yield PASS
        if stand is not None and stand["epoch"] < epoch:
            self._end_pass(stand)
            stand = None
        iterator, batches = self._begin_pass(worker, epoch, stand)
        if iterator is None:
            return
        before, size = seeds.freeze(), self._batch_size or 1
        while True:
            items = list(self._items(iterator, epoch, worker, batches * size, size))
            if not items or (len(items) < size and self._drop_last):
                return
            batches += 1
            if self._seeds_items:
                seeds.seed_all(derive(self._seed, epoch, "batch", worker, batches))
            batch = self._collate(items[0] if self._batch_size is None else items)
            stand = {"epoch": epoch, "batches": batches, "ended": len(items) < size, "generators": None}
            stand |= _states(self.dataset, iterator)
            if not self._seeds_items and (now := seeds.freeze()) != before:
                stand["generators"] = now
            yield [batch, worker, stand]
            if len(items) < size:
                return

    def _end_pass(self, stand):
        """Brings the data set of a worker that stays to where the pass of `stand` left it."""
        if _load(self.dataset, stand.get("dataset")) and not stand["ended"]:
            for _ in iter(self.dataset):  # what was too little for a batch
                pass

    def _begin_pass(self, worker, epoch, stand):
        """(iterator, batches given); no iterator where the pass had ended."""
        dataset = self.dataset
        if callable(getattr(dataset, "set_epoch", None)):
            dataset.set_epoch(epoch)
        is_loaded = stand is not None and _load(dataset, stand.get("dataset"))
        if stand is not None and stand["ended"]:
            return None, 0
        seeds.seed_all(derive(self._seed, epoch, "worker", worker))
        iterator = iter(dataset)
        if stand is None:
            return iterator, 0
        is_loaded = _load(iterator, stand.get("dataset" if iterator is dataset else "iterator")) or is_loaded
        if not is_loaded:
            for _ in self._items(iterator, epoch, worker, 0, stand["batches"] * (self._batch_size or 1)):
                pass
        elif stand["generators"] is not None:
            seeds.thaw(stand["generators"])
        return iterator, stand["batches"]

    def _items(self, iterator, epoch, worker, first, count):
        for ordinal in range(first, first + count):
            if self._seeds_items:
                seeds.seed_all(derive(self._seed, epoch, "item", worker, ordinal))
            try:
                item = next(iterator)
            except StopIteration:
                return
            yield item


def _load(value, state) -> bool:
    if state is None or not has_state(value):
        return False
    value.load_state_dict(state)
    return True


def _states(dataset, iterator):
    """Copies, as a worker goes on before they are sent."""
    states = {"dataset": copy.deepcopy(dataset.state_dict())} if has_state(dataset) else {}
    if iterator is not dataset and has_state(iterator):
        states["iterator"] = copy.deepcopy(iterator.state_dict())
    return states
