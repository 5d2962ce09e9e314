"""Which tensors may be copied while the training goes on, until an optimizer writes them. Imported only where torch is.

"Nobody writes parameters between two steps of their optimizer" is false for some loops (weights swapped for an
evaluation, clipped after the step, offloaded), and torch does not tell of every write. So it has to be earned: an attached
optimizer of torch was *seen* to step between every two of the last boundaries; the counters of torch, and hashes of the
core, which also see what is written through `.data` or NumPy, prove that nothing was written meanwhile; and what frees
or refills memory waits for the copy first.
"""

from __future__ import annotations

import functools
import operator

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from unbroken._native import call
from unbroken._state.torch import device

_SEEN_MIN = 3  # boundaries with a step before each, until its tensors are copied later
_PROVED_WHOLE = 3  # saves after that
_BYTES_MIN = 1 << 20  # smaller tensors are copied at once
#: what writes parameters or state besides a step, or gives their memory away
_WAITING = (
    (torch.nn.Module, "_apply"),
    (torch.nn.Module, "load_state_dict"),
    (torch.optim.Optimizer, "load_state_dict"),
    (torch.UntypedStorage, "resize_"),
    (torch._C, "_swap_tensor_impl"),  # torch.utils.swap_tensors: what is written then is the memory of another tensor
)
_VERSION = operator.attrgetter("_version")
_HOLDING: set = set()  # each Later of which something is being copied


class _Watched:
    def __init__(self, optimizer):
        self.optimizer, self.seen, self.has_stepped = optimizer, 0, False


class _Held:
    """What of one capture is copied later. `arrivals`: what brings those of its tensors that are on an accelerator."""

    def __init__(self, capture, arrivals):
        self.arrivals = arrivals
        self.has_host = not set(capture.later) <= set(capture.arriving)
        self._later = list(capture.later)
        tensors = [capture.keep[i] for i in self._later]
        self._marks = tensors, list(map(_VERSION, tensors))
        self._written: list[int] | None = None

    def end(self) -> None:
        """What is written from now on is written after the copy."""
        self._written = self._seen()
        self._marks = [], []

    def _seen(self):
        tensors, before = self._marks
        versions = list(map(_VERSION, tensors))
        return [] if versions == before else [i for i, a, b in zip(self._later, versions, before, strict=True) if a != b]

    def written(self) -> list[int]:
        """The indices of what was written before. Threads: any."""
        seen = self._seen()
        return [*(seen if self._written is None else self._written), *(self.arrivals.changed if self.arrivals else ())]


class Waiting:
    """The parameters of some optimizers and their state, as far as they may be copied later."""

    def __init__(self, optimizers):
        self._optimizers = optimizers
        self.earned = frozenset(map(id, optimizers))

    @functools.cached_property
    def _ids(self) -> set[int]:
        found = set()
        for one in self._optimizers:
            found.update(id(p) for group in one.param_groups for p in group["params"] if _is_ours(p))
            for state in one.state.values():
                found.update(id(value) for value in state.values() if isinstance(value, torch.Tensor) and _is_ours(value))
        return found

    def covers(self, tensor, nbytes: int) -> bool:
        """True for a tensor of one of them."""
        return nbytes >= _BYTES_MIN and id(tensor) in self._ids


class Later:
    """The attached optimizers of one run. Threads: the trainer's; fence() any."""

    def __init__(self, session, is_proved_whole):
        self._session, self._is_proved_whole = session, is_proved_whole
        self._watched: dict[int, _Watched] = {}
        self._unproved = _PROVED_WHOLE
        self._held = None
        self._keep = None  # what is copied and its memory, until it is
        self._handle = register_optimizer_step_pre_hook(self._before_step)

    def add(self, optimizer) -> None:
        """Watches an attached optimizer. One that gathers parameters of others steps where its hook does not see it."""
        if not type(optimizer).__module__.startswith("torch.distributed"):
            self._watched.setdefault(id(optimizer), _Watched(optimizer))

    def _before_step(self, optimizer, args, kwargs) -> None:
        watched = self._watched.get(id(optimizer))
        if watched is not None:
            watched.has_stepped = True
        if self._held is not None:
            self.fence()

    def on_boundary(self) -> None:
        """A step is complete."""
        for watched in self._watched.values():
            if watched.has_stepped:
                watched.seen += 1
                watched.has_stepped = False
            elif watched.seen:  # a step that was skipped, or taken elsewhere: it has to be earned again
                watched.seen, self._unproved = 0, _PROVED_WHOLE

    def choose(self) -> Waiting:
        """What may be copied later at this boundary."""
        return Waiting([watched.optimizer for watched in self._watched.values() if watched.seen >= _SEEN_MIN])

    def hold(self, capture, arrivals):
        """The save of `capture` is being taken, after fence(). (whether all that it copies later is still to be proved,
        a function that gives the indices of what was written since now)."""
        _make_others_wait()
        self._held = _Held(capture, arrivals)
        tensors = [capture.keep[i] for i in capture.later]
        self._keep = capture.keep, list(map(torch.Tensor.untyped_storage, tensors))  # theirs also where they are given another
        _HOLDING.add(self)
        is_proved_whole = self._is_proved_whole or self._unproved > 0
        self._unproved = max(0, self._unproved - 1)
        return is_proved_whole, self._held.written

    def fence(self) -> None:
        """Returns when all is copied; what is on an accelerator is before the current stream goes on."""
        if self._held is not None:
            self._held.end()
            if self._held.has_host:
                call(self._session.fence)
            if self._held.arrivals is not None:
                device.streams().before_step()
            self._held = self._keep = None
            _HOLDING.discard(self)

    def close(self) -> None:
        """Removes the hook."""
        self._handle.remove()
        self._watched.clear()
        self.fence()


def _is_ours(tensor) -> bool:
    """Plain memory of this process, or of an accelerator: not what FSDP gathers and frees."""
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    is_plain = is_plain and (tensor.device.type == "cpu" or device.RUNTIME.has(tensor))
    return is_plain and tensor.numel() * tensor.element_size() >= _BYTES_MIN


def _waits(function):
    @functools.wraps(function)
    def waiting(*args, **kwargs):
        for later in list(_HOLDING):
            later.fence()
        return function(*args, **kwargs)

    waiting._is_waiting = True
    return waiting


def _make_others_wait() -> None:
    for kind, name in _WAITING:
        function = getattr(kind, name, None)  # not every version of torch swaps
        if function is not None and not hasattr(function, "_is_waiting"):
            setattr(kind, name, _waits(function))
