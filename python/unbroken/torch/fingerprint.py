"""What a data set is known by: a digest of a few of its items.

The items are read twice with the same seeds; where the two readings differ (a generator of its own), or an item is
not made of plain values, tensors and arrays, there is none. With workers a worker reads them, as the trainer must not
open what its workers open for themselves.
"""

from __future__ import annotations

import hashlib

from unbroken._state import tensors
from unbroken._state.names import canonical
from unbroken._state.tree import NOT_A_LEAF, encode
from unbroken.torch.seeds import Kept, freeze, seed_all

_SEED = 0x756E62726F6B656E  # whichever; both readings have it


class Probe:
    """A data set of one item: what `digest` finds."""

    def __init__(self, dataset, length: int):
        self.dataset, self._length = dataset, length

    def __getitem__(self, request):
        del request
        return digest(self.dataset, self._length)


def digest(dataset, length: int) -> tuple[str | None, bool]:
    """32 hex digits over the first, the middle and the last item, None where they cannot be told again; and whether
    they may draw from the global generators."""
    indices = sorted({0, length // 2, length - 1}) if length else []
    try:
        with Kept():
            (first, draws), (second, _) = (_read(dataset, indices) for _ in range(2))
    except Exception:  # whatever the user's code raises: then there is nothing to compare
        return None, True
    return first if first == second else None, draws


def _read(dataset, indices) -> tuple[str, bool]:
    whole, draws = hashlib.blake2b(digest_size=16), False
    for index in indices:
        seed_all(_SEED)
        before, item = freeze(), dataset[index]
        draws = draws or freeze() != before
        whole.update(canonical(encode(item, "item", _leaf)).encode())
    return whole.hexdigest(), draws


def _leaf(value, name):
    if not tensors.is_tensor(value):
        return NOT_A_LEAF
    view = tensors.view(value, name)
    data = hashlib.blake2b(tensors.to_bytes(value), digest_size=16).hexdigest()
    return {"tensor": f"{view.text} {data}"}
