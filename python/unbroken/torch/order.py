"""In which order the items of an epoch come: the keyed permutation, or a user's sampler.

Both give `batches(epoch, position)`: the indices of every batch from `position` to the end of the epoch; for a
batch size of None one index at a time. `consumed()` is told of each batch that was handed out, in order.
"""

from __future__ import annotations

import collections
import hashlib
import json
import operator

from unbroken import _native
from unbroken._state.generators import handlers_of
from unbroken.errors import StateMismatch
from unbroken.feeds import has_state
from unbroken.torch.seeds import Streams, derive

_OVER = object()
_DEPTH_MAX = 4  # a batch sampler of a sampler of a sampler


class KeyedOrder:
    """Depends on (seed, epoch) alone; any place of it costs the same, and no table is kept."""

    def __init__(self, length: int, batch_size: int | None, shuffle: bool, drop_last: bool, seed: int):
        self._length, self._batch_size, self._shuffle, self._seed = length, batch_size, shuffle, seed
        whole, rest = divmod(length, batch_size or 1)
        self.batch_count = whole + (rest > 0 and not drop_last)

    def batches(self, epoch: int, position: int):
        permutation = _native.core.Permutation(self._length, self._seed, epoch) if self._shuffle else None
        size = self._batch_size or 1
        for batch in range(position, self.batch_count):
            start = batch * size
            count = min(size, self._length - start)
            indices = list(range(start, start + count)) if permutation is None else permutation.fill(start, count)
            yield indices[0] if self._batch_size is None else indices

    def consumed(self) -> None:
        pass

    def begin(self) -> None:
        pass

    def state(self):
        return None


class SamplerOrder:
    """A user's sampler, of items or (`batch_size=0`) of whole batches.

    While it runs, the global generators are streams of its own, seeded from (seed, epoch); generators and state that
    it holds itself are noted where an epoch begins. So an epoch can be told again up to any batch; a hash of what was
    consumed says whether it was the same one. Errors: StateMismatch where the sampler does not repeat itself.
    """

    batch_count = None

    def __init__(self, sampler, batch_size: int | None, drop_last: bool, seed: int):
        self.sampler, self._batch_size, self._drop_last, self._seed = sampler, batch_size, drop_last, seed
        self._began = None  # what the sampler held when the epoch began
        self._digest = ""  # over the batches consumed of this epoch
        self._ahead: collections.deque[str] = collections.deque()  # the digests of those that were sampled since

    def begin(self) -> None:
        """A new epoch, not begun before."""
        self._began, self._digest = None, ""
        self._ahead.clear()

    def consumed(self) -> None:
        self._digest = self._ahead.popleft()

    def state(self):
        return {"held": self._held() if self._began is None else self._began, "digest": self._digest}

    def load(self, state) -> None:
        self._began, self._digest = state["held"], state["digest"]
        self._ahead.clear()

    def differs(self, state, epoch: int, position: int):
        """(saved, live) where the sampler does not tell the consumed batches again, else None; it is left as it is."""
        before, began, digest = self._held(), self._began, self._digest
        self.load(state)
        try:
            found = self._again(epoch, position)[2]
        finally:
            self._hold(before)
            self._began, self._digest = began, digest
        sides = (f"{position} batches with the hash {side or 'of nothing'}" for side in (state["digest"], found))
        return None if found == state["digest"] else tuple(sides)

    def batches(self, epoch: int, position: int):
        rest, streams, digest = self._again(epoch, position)
        if digest != self._digest:
            raise StateMismatch(
                f"the sampler {type(self.sampler).__qualname__} does not repeat its epoch {epoch}: it must draw from "
                "the global generators, from one that is an attribute of it, or have a state_dict",
                changed=[("loader.sampler", self._digest, digest)],
            )
        while True:
            with streams:
                batch = self._next(rest)
            if batch is _OVER:
                return
            digest = _digest(digest, batch)
            self._ahead.append(digest)
            yield batch

    def _again(self, epoch: int, position: int):
        """(the rest of the epoch, the streams it draws from, the digest of what was passed over)."""
        if self._began is None:
            self._began = self._held()
        else:
            self._hold(self._began)
        for part in _parts(self.sampler):
            if callable(getattr(part, "set_epoch", None)):
                part.set_epoch(epoch)
        self._ahead.clear()
        streams, digest = Streams(derive(self._seed, epoch, "sampler")), ""
        with streams:
            rest = iter(self.sampler)
        for _ in range(position):
            with streams:
                batch = self._next(rest)
            if batch is _OVER:
                return rest, streams, f"{digest} and an end"
            digest = _digest(digest, batch)
        return rest, streams, digest

    def _next(self, rest):
        if not self._batch_size:  # one index, or a whole batch
            return next(rest, _OVER)
        batch = [index for _, index in zip(range(self._batch_size), rest, strict=False)]
        return batch if len(batch) == self._batch_size or (batch and not self._drop_last) else _OVER

    def generators(self):
        """The generators that the sampler holds itself, by the names of their attributes."""
        found = {}
        for i, part in enumerate(_parts(self.sampler)):
            for name, value in sorted(getattr(part, "__dict__", {}).items()):
                if handlers_of(value) is not None:
                    found[f"{i}.{name}"] = value
        return found

    def _held(self):
        generators = {
            name: json.dumps(handlers_of(value)[1](value, name)) for name, value in self.generators().items()
        }
        states = {str(i): part.state_dict() for i, part in enumerate(_parts(self.sampler)) if has_state(part)}
        return {"generators": generators, "states": states}

    def _hold(self, held) -> None:
        for name, value in self.generators().items():
            if name in held["generators"]:
                handlers_of(value)[2](value, json.loads(held["generators"][name]))
        for i, part in enumerate(_parts(self.sampler)):
            if str(i) in held["states"] and has_state(part):
                part.load_state_dict(held["states"][str(i)])


def _parts(sampler):
    """The sampler, and the one that it takes its indices from, and so on."""
    parts = [sampler]
    while len(parts) < _DEPTH_MAX:
        inner = getattr(parts[-1], "batch_sampler", None) or getattr(parts[-1], "sampler", None)
        if inner is None or any(inner is part for part in parts):
            break
        parts.append(inner)
    return parts


def _plain(index):
    if isinstance(index, (list, tuple)):
        return [_plain(item) for item in index]
    try:
        return operator.index(index)
    except TypeError:
        return repr(index)


def _digest(before: str, indices) -> str:
    return hashlib.blake2b((before + json.dumps(_plain(indices))).encode(), digest_size=8).hexdigest()
