"""torchdata's StatefulDataLoader: a worker that had read its share of an epoch to the end begins it again where its state is
loaded, if the data set then stands at its beginning. Here it gives nothing more in that epoch.
"""

from __future__ import annotations

import sys

from torch.utils.data import get_worker_info

from unbroken._state.generators import GlobalGenerators


def load(loader, state) -> None:
    """loader.load_state_dict(state). Where a worker had come to its end, the workers are made at once."""
    ended = _ended(loader, state)
    if not ended:
        loader.load_state_dict(state)
        return
    inner = getattr(loader, "base_dataloader", loader)  # accelerate's stands around it
    function = inner.worker_init_fn
    inner.worker_init_fn = _Start(function, ended)
    try:
        loader.load_state_dict(state)
        GlobalGenerators().guard(inner.state_dict)  # makes an iterator
        for worker in ended:  # its state says so again, whether or not it was asked for a batch when it is saved
            change = {"worker_id": worker, "fetcher_state": {"fetcher_ended": True, "dataset_iter_state": None}}
            inner._iterator._worker_snapshots[f"worker_{worker}"].apply_delta(change)
    finally:
        inner.worker_init_fn = function


def _ended(loader, state) -> set[int]:
    """The workers that had come to the end of their share."""
    torchdata = sys.modules.get("torchdata.stateful_dataloader")
    if torchdata is None or not isinstance(loader, torchdata.StatefulDataLoader):
        return set()
    snapshots = state.get("_snapshot", {}).get("_worker_snapshots", {}).values()
    return {one["worker_id"] for one in snapshots if (one.get("fetcher_state") or {}).get("fetcher_ended")}


class _Start:
    """Runs first in each worker."""

    def __init__(self, function, ended: set[int]):
        self._function, self._ended = function, ended

    def __call__(self, worker: int) -> None:
        if self._function is not None:
            self._function(worker)
        if worker in self._ended:
            _give_nothing_once(get_worker_info().dataset)


def _give_nothing_once(dataset) -> None:
    kind = type(dataset)

    def nothing(self):
        self.__class__ = kind
        return iter(())

    dataset.__class__ = type(kind)(kind.__name__, (kind,), {"__iter__": nothing, "__slots__": ()})
