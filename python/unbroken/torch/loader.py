"""`DataLoader`: torch's own loader, in an order that can be taken up again after any batch."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

from unbroken.errors import Misconfigured, StateMismatch, say
from unbroken.torch import settings
from unbroken.torch.order import KeyedOrder, SamplerOrder
from unbroken.torch.seeds import Kept, Streams, derive

_OVER = object()  # no batch: the epoch has ended
#: what must be alike in the saved and the live loader, and its value in states that did not have it yet
_FIXED = {
    "kind": "map", "batch_size": None, "drop_last": None, "shuffle": None, "seed": None, "length": None,
    "seed_samples": False,
}  # fmt: skip
_MOVING = {"epoch": None, "position": None, "fingerprint": None, "num_workers": 0, "sampler": None, "turn": 0,
           "workers": ()}  # fmt: skip


class DataLoader:
    """Batches in an order that depends on (seed, epoch) alone, with any number of workers.

    Fetching, workers, prefetching and pinning are those of torch.utils.data.DataLoader, and so are the keywords. It
    draws from no global generator and holds no table of indices. Its state is the epoch and the batches handed out of
    it, not those prefetched. batch_size, drop_last, shuffle, seed, seed_samples, and the length and the fingerprint of
    the data set belong to the state; another value is a StateMismatch. num_workers may change for a data set with
    index.

    `seed_samples=True` seeds the generators of Python, NumPy and torch (CPU) around each item from (seed, epoch,
    index): augmentation is then alike for any number of workers and after any stop. `fingerprint`: a text that stands
    for the content of the data set; without it a digest of three items, where they are plain.

    A `sampler` or `batch_sampler` of the user draws from streams of its own and must repeat itself; a hash of the
    consumed indices checks that. An IterableDataset goes on by its own state_dict (or that of its iterator), else by
    passing over what was read before, which is said.

    `len(loader)` is the number of batches of an epoch. `iter(loader)` goes on where a loaded state stands, else
    begins the next epoch. Errors: Misconfigured (settings that do not go together).
    """

    def __init__(
        self, dataset, batch_size=1, shuffle=False, *, seed=0, drop_last=False, collate_fn=None, num_workers=0,
        sampler=None, batch_sampler=None, pin_memory=False, persistent_workers=False, prefetch_factor=None,
        worker_init_fn=None, seed_samples=False, fingerprint=None, timeout=0, multiprocessing_context=None,
        pin_memory_device="", generator=None, in_order=True,
    ):  # fmt: skip
        self.dataset, self.batch_size, self.shuffle, self.seed = dataset, batch_size, bool(shuffle), seed
        self.drop_last, self.collate_fn, self.num_workers = bool(drop_last), collate_fn, num_workers
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.pin_memory, self.persistent_workers = bool(pin_memory), bool(persistent_workers)
        self.prefetch_factor, self.timeout = prefetch_factor, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.seed_samples = bool(seed_samples)
        self.pin_memory_device = pin_memory_device
        settings.refuse_chance(generator, in_order)
        self._is_iterable = settings.is_iterable(dataset)
        settings.check(self, fingerprint)
        if batch_sampler is not None:
            self.batch_size = None
        self._length = settings.length_of(dataset)
        self._order = self._make_order()
        self._fingerprint = None if fingerprint is None else str(fingerprint)
        self._is_probed = fingerprint is not None
        self._may_draw = True  # items, from the global generators
        self._was_drawn_by = 0  # workers, where a state was loaded and nothing was read since
        self.epoch = 0
        self.position = 0  # batches handed out of this epoch
        self._stands: list = []  # of an IterableDataset: where each worker stands
        self._turn = 0  # whose batch is the next one
        self._goes_on = True  # the next iterator continues here; else it begins the next epoch
        self._is_behind = True  # the data set is not where the state is
        self._pass = None  # the iteration at hand, of `iter(loader)`
        self._requests = _Requests()
        self._source = self._fetcher = self._iterator = None
        self._around = contextlib.nullcontext()  # while a batch is fetched
        self._has_said = False
        self._fetcher = self._make_fetcher()  # settings that torch refuses are refused now

    def _make_order(self):
        if self._is_iterable:
            return None
        if self.batch_sampler is not None:
            return SamplerOrder(self.batch_sampler, 0, False, self.seed)
        if self.sampler is not None:
            return SamplerOrder(self.sampler, self.batch_size, self.drop_last, self.seed)
        return KeyedOrder(self._length, self.batch_size, self.shuffle, self.drop_last, self.seed)

    def __len__(self) -> int:
        if isinstance(self._order, KeyedOrder):
            return self._order.batch_count
        items = self._length if self._order is None else len(self._order.sampler)
        if items is None:
            raise TypeError("this data set has no length")
        whole, rest = divmod(items, self.batch_size or 1)
        return whole + (rest > 0 and not self.drop_last)

    # -- handing out

    def __iter__(self):
        is_new = not self._goes_on or self._is_over()
        if is_new:
            self._begin(self.epoch + 1)
        this = self._pass = object()
        batch = self._pull()
        if batch is _OVER and not is_new and self.position:  # the loaded state stood at an end that nobody knew
            self._begin(self.epoch + 1)
            batch = self._pull()
        while batch is not _OVER:
            yield batch
            batch = self._pull() if self._pass is this else _OVER

    def _unbroken_next(self):
        """The next batch, over the end of an epoch."""
        if self._is_over():
            self._begin(self.epoch + 1)
        batch = self._pull()
        if batch is _OVER and self.position:
            self._begin(self.epoch + 1)
            batch = self._pull()
        if batch is _OVER:
            raise Misconfigured("steps: the loader gives no batch in a whole epoch")
        return batch

    def _unbroken_begin_next(self) -> None:
        """What is left of the loaded state's epoch is not wanted: the next batch is the first one of the next."""
        if self.position:
            self._begin(self.epoch + 1)

    def _is_over(self) -> bool:
        return isinstance(self._order, KeyedOrder) and self.position >= self._order.batch_count > 0

    def _begin(self, epoch: int) -> None:
        is_ended = self._iterator is None
        self._iterator = None
        self.epoch, self.position, self._turn = epoch, 0, 0
        if not (is_ended and (self.persistent_workers or self.num_workers == 0)):
            self._stands = []  # the next pass is made by copies of the data set as it is here
        if self._order is not None:
            self._order.begin()

    def _pull(self):
        """The next batch of this epoch, or _OVER. Errors: what the data set raises; then this batch comes again."""
        self._goes_on = False
        try:
            if self._iterator is None:
                self._start()
            with self._around:
                batch = next(self._iterator, _OVER)
                while self._is_iterable and isinstance(batch, str):  # of a worker whose turn has passed
                    batch = next(self._iterator, _OVER)
        except BaseException:
            self._stop()
            raise
        if batch is _OVER:
            self._iterator = None
            return _OVER
        if self._is_iterable:
            batch, worker, stand = batch
            self._stands += [None] * (worker + 1 - len(self._stands))
            self._stands[worker] = stand
            self._turn = (worker + 1) % max(1, self.num_workers)
        else:
            self._order.consumed()
        self.position += 1
        return batch

    def _start(self) -> None:
        """Makes torch's iterator, and with it the workers, for the rest of this epoch."""
        self._probe()
        if self._is_iterable:
            self._say_skip()
            self._around = Streams(derive(self.seed, self.epoch)) if self.num_workers == 0 else self._around
        elif self.num_workers == 0 and self.seed_samples:
            self._around = Kept()
        else:
            self._say_draws()
        if self._fetcher is None:
            self._fetcher = self._make_fetcher()
        if self._is_iterable:
            self._source.begin(self.epoch, self._turn, list(self._stands) if self._is_behind else [])
        else:
            self._requests.begin(self._order, self.epoch, self.position)
        self._is_behind = False
        self._fetcher.worker_init_fn = self._worker_start() if self.num_workers else None
        self._fetcher.generator.manual_seed(derive(self.seed, self.epoch, self.position, "workers"))
        with self._around, _blocked() if self.num_workers else contextlib.nullcontext():
            self._iterator = iter(self._fetcher)

    def _stop(self) -> None:
        """Ends the workers; what was prefetched is fetched again."""
        self._iterator = self._pass = None
        self._is_behind = True
        if self.persistent_workers:
            self._fetcher = None

    def _make_fetcher(self):
        from torch import Generator
        from torch.utils.data import DataLoader as TorchLoader

        from unbroken.torch import sources

        is_batched = self.batch_size is not None or self.batch_sampler is not None
        collate = self.collate_fn or sources.default_collate(is_batched)
        if self._is_iterable:
            self._source = sources.IterableSource(
                self.dataset, collate, self.batch_size, self.drop_last, self.seed, self.seed_samples
            )
        else:
            seed = self.seed if self.seed_samples else None
            self._source = sources.MapSource(self.dataset, collate, is_batched, seed)
        return TorchLoader(
            self._source, batch_size=None, sampler=None if self._is_iterable else self._requests,
            collate_fn=sources.same, num_workers=self.num_workers, pin_memory=self.pin_memory,
            persistent_workers=self.persistent_workers, prefetch_factor=self.prefetch_factor, timeout=self.timeout,
            multiprocessing_context=self.multiprocessing_context, generator=Generator(),
            **({"pin_memory_device": self.pin_memory_device} if self.pin_memory_device else {}),  # torch warns of it
        )  # fmt: skip

    def _worker_start(self):
        from unbroken.torch.sources import WorkerStart

        is_main = threading.current_thread() is threading.main_thread()
        return WorkerStart(os.getpid(), is_main and self._is_forked(), self.worker_init_fn)

    def _is_forked(self) -> bool:
        """Workers are children of the trainer itself, not of a server."""
        import multiprocessing

        context = self.multiprocessing_context or multiprocessing.get_start_method()
        return (context if isinstance(context, str) else context.get_start_method()) != "forkserver"

    # -- what the data is known by

    def _probe(self):
        """The fingerprint, found out at the first call."""
        if self._is_probed:
            return self._fingerprint
        self._is_probed = True
        if not self._is_iterable and self._length is not None:
            from unbroken.torch.fingerprint import Probe, digest

            if self.num_workers == 0:
                self._fingerprint, self._may_draw = digest(self.dataset, self._length)
            else:
                self._fingerprint, self._may_draw = self._probe_in_worker(Probe(self.dataset, self._length))
        if self._fingerprint is None:
            say(
                "loader: nothing tells this data set from another one of its length, so the order of the data is not "
                "checked; give DataLoader a fingerprint="
            )
        return self._fingerprint

    def _probe_in_worker(self, probe):
        from torch import Generator
        from torch.utils.data import DataLoader as TorchLoader

        from unbroken.torch import sources

        loader = TorchLoader(
            probe, batch_size=None, sampler=[0], collate_fn=sources.same, num_workers=1, timeout=self.timeout,
            multiprocessing_context=self.multiprocessing_context, generator=Generator(),
            worker_init_fn=self._worker_start(),
        )  # fmt: skip
        with _blocked():
            iterator = iter(loader)
        try:
            return next(iterator)
        except RuntimeError:  # the worker has died; the real ones will say why
            return None, True

    def _unbroken_provenance(self) -> str:
        """What a checkpoint says of the data that it was made with."""
        length = "no length" if self._length is None else f"{self._length} items"
        return f"{length}, fingerprint {self._probe() or 'none'}"

    def _unbroken_generators(self):
        """The generators that belong to the state of this loader."""
        return list(self._order.generators().values()) if isinstance(self._order, SamplerOrder) else []

    def _say_skip(self) -> None:
        stands = [stand for stand in self._stands if stand is not None and stand["epoch"] == self.epoch]
        if self._has_said or not stands or any("dataset" in stand or "iterator" in stand for stand in stands):
            return
        self._has_said = True
        say(
            f"loader: {type(self.dataset).__qualname__} has no state_dict: {self.position} batches of epoch "
            f"{self.epoch} are read again and passed over"
        )

    def _say_draws(self) -> None:
        """Once after a state was loaded, where workers of other generators draw what those before would have drawn."""
        workers, self._was_drawn_by = self._was_drawn_by, 0
        goes_on = self.position > 0 or (self.persistent_workers and self.epoch > 0)
        if workers and goes_on and self._may_draw and not self.seed_samples:
            say(
                "loader: the order of the items goes on exactly; what is drawn for them in workers (augmentation) is not what it "
                "would have been without the stop: give DataLoader seed_samples=True"
            )

    # -- the state

    def state_dict(self) -> dict:
        """What fixes the order, and the position: batches handed out of `epoch`."""
        state = {
            "kind": "iterable" if self._is_iterable else "map",
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "seed_samples": self.seed_samples,
            "length": self._length,
            "fingerprint": self._probe(),
            "num_workers": self.num_workers,
            "epoch": self.epoch,
            "position": self.position,
            "sampler": None if self._order is None else self._order.state(),
        }
        return {**state, "turn": self._turn, "workers": list(self._stands)} if self._is_iterable else state

    def load_state_dict(self, state: dict) -> None:
        """The next `iter` goes on there. Errors: StateMismatch, with nothing changed."""
        changed = self._unbroken_differences(state, "loader")
        if changed:
            raise StateMismatch("the loader does not fit the saved one", changed=changed)
        state = {**_FIXED, **_MOVING, **state}
        self._stop()
        self.epoch, self.position, self._turn = state["epoch"], state["position"], state["turn"]
        self._stands = list(state["workers"])
        if isinstance(self._order, SamplerOrder):
            self._order.load(state["sampler"])
        self._goes_on = True
        self._was_drawn_by = max(self.num_workers, state["num_workers"])

    def _unbroken_differences(self, state, name):
        """(name, saved, live) of what makes the saved position meaningless here."""
        if not isinstance(state, dict) or not {"epoch", "position", "seed"} <= state.keys():
            return [(name, "the state of another loader", "unbroken.torch.DataLoader")]
        unknown = state.keys() - _FIXED.keys() - _MOVING.keys()
        if unknown:
            return [(f"{name}.{key}", repr(state[key]), "not known") for key in sorted(unknown)]
        state, here = {**_FIXED, **_MOVING, **state}, self.state_dict()
        keys = [*_FIXED, "num_workers"] if self._is_iterable else list(_FIXED)
        changed = [(f"{name}.{key}", repr(state[key]), repr(here[key])) for key in keys if state[key] != here[key]]
        sides = state["fingerprint"], here["fingerprint"]
        if state["length"] == here["length"] and None not in sides and sides[0] != sides[1]:
            changed.append((f"{name}.fingerprint", *sides))  # other lengths say it themselves: other items are looked at
        if (state["sampler"] is None) != (here["sampler"] is None):
            sides = ("the keyed order" if side["sampler"] is None else "a sampler" for side in (state, here))
            changed.append((f"{name}.sampler", *sides))
        elif state["sampler"] is not None and not changed:
            differs = self._order.differs(state["sampler"], state["epoch"], state["position"])
            changed += [(f"{name}.sampler", *differs)] if differs else []
        is_beyond = isinstance(self._order, KeyedOrder) and state["position"] > self._order.batch_count
        if not changed and (state["position"] < 0 or state["epoch"] < 0 or is_beyond):
            changed.append((f"{name}.position", repr(state["position"]), f"{len(self)} batches an epoch"))
        return changed


class _Requests:
    """Torch's sampler: requests for the batches from a position to the end of an epoch."""

    def begin(self, order, epoch: int, position: int) -> None:
        self._order, self._epoch, self._position = order, epoch, position

    def __iter__(self):
        batches = self._order.batches(self._epoch, self._position)
        for number, indices in enumerate(batches, self._position):
            yield self._epoch, number, indices


@contextlib.contextmanager
def _blocked():
    """SIGTERM waits while workers begin: one that came before they are guarded would end them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
