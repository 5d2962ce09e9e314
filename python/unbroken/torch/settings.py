"""What a DataLoader may be told, and what does not go together."""

from __future__ import annotations

from unbroken.errors import Misconfigured


def is_iterable(dataset) -> bool:
    """True for a data set that is read from its beginning. Errors: Misconfigured for one that cannot be read."""
    from torch.utils.data import IterableDataset, IterDataPipe

    if isinstance(dataset, IterDataPipe):
        raise Misconfigured("DataLoader: a data pipe seeds itself: give it as an IterableDataset of your own")
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        if not hasattr(dataset, "__iter__"):
            raise Misconfigured(f"DataLoader: {type(dataset).__qualname__} can be neither indexed nor iterated over")
        return True
    return False


def length_of(dataset) -> int | None:
    """None where it has none."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def refuse_chance(generator, in_order) -> None:
    """Errors: Misconfigured for keywords of torch's loader by which the order would depend on more than (seed, epoch)."""
    if generator is not None:
        raise Misconfigured(
            "DataLoader: generator: the order depends on the seed and the epoch: give seed=; a generator that a sampler draws from goes "
            "to the sampler"
        )
    if not in_order:
        raise Misconfigured("DataLoader: in_order=False: batches would come in the order in which workers happen to end: leave it out")


def check(loader, fingerprint) -> None:
    """Errors: Misconfigured, naming the keyword."""
    _whole("num_workers", loader.num_workers, 0, "workers")
    if loader.batch_size is not None:
        _whole("batch_size", loader.batch_size, 1, "items")
    if isinstance(loader.seed, bool) or not isinstance(loader.seed, int) or not 0 <= loader.seed < 2**64:
        raise Misconfigured(f"DataLoader: seed={loader.seed!r} is not in [0, 2^64)")
    if fingerprint is not None and not isinstance(fingerprint, (str, int)):
        raise Misconfigured(f"DataLoader: fingerprint={fingerprint!r} is neither a text nor a number")
    if loader.num_workers == 0:
        given = {"prefetch_factor": loader.prefetch_factor, "timeout": loader.timeout or None,
                 "multiprocessing_context": loader.multiprocessing_context}  # fmt: skip
        for name, value in {**given, "persistent_workers": loader.persistent_workers or None}.items():
            if value is not None:
                raise Misconfigured(f"DataLoader: {name} is for workers: give num_workers=1 or more")
    elif loader.prefetch_factor is not None:
        _whole("prefetch_factor", loader.prefetch_factor, 1, "batches")
    if loader.batch_sampler is not None and (
        loader.batch_size != 1 or loader.shuffle or loader.sampler is not None or loader.drop_last
    ):
        raise Misconfigured("DataLoader: batch_sampler stands for batch_size, shuffle, sampler and drop_last")
    if loader.sampler is not None and loader.shuffle:
        raise Misconfigured("DataLoader: sampler and shuffle are two orders: give one of them")
    if loader.batch_size is None and loader.drop_last:
        raise Misconfigured("DataLoader: drop_last is for batches: give batch_size")
    _check_kind(loader)


def _check_kind(loader):
    has_sampler = loader.sampler is not None or loader.batch_sampler is not None
    if loader._is_iterable:
        if has_sampler or loader.shuffle:
            raise Misconfigured("DataLoader: an IterableDataset has an order of its own: no shuffle, no sampler")
    elif not has_sampler and length_of(loader.dataset) is None:
        raise Misconfigured("DataLoader: a data set without length needs a sampler")


def _whole(name, value, least, unit):
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Misconfigured(f"DataLoader: {name}={value!r} is not a number of {unit}, at least {least}")
