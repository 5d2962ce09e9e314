"""Tensors of an accelerator into the memory of a snapshot. Nobody waits but the device. Imported only where torch is.

Order is everything here, and events alone keep it:

1. A stream of our own waits for all that was given to the device before: by the stream that is current at the boundary,
   and by those in which an optimizer stepped since the last save. When a device is met first, for all of its work.
2. It copies, into memory that the runtime of the device has registered once.
3. Those streams wait for the copies, and so does that of the optimizer's next step. The host does not wait. For what is
   *later* (later.py), and copied after all else, only that step waits, and each `fence`.
4. The allocator is told that our stream uses the tensors: what is freed meanwhile is given to nobody before.
5. The core asks what has arrived, and reads, hashes and writes only that.
6. That nobody wrote meanwhile what is later is proved, by sums over it that are taken before anybody goes on, and are
   those of what has arrived.

Another stream that writes the state must be waited for before the boundary by one of those, and wait for one of them after it
before it writes again.
"""

from __future__ import annotations

import ctypes
import functools

import numpy
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from unbroken.errors import say

_ROW_BYTES = 8192
_BATCH_BYTES = 64 << 20  # copied until the next event: from so many bytes on the core goes on with them


class Cuda:
    """What is asked of torch.cuda. A stream has `wait_event(event)`, an event `synchronize()`."""

    @staticmethod
    def has(tensor) -> bool:
        return tensor.device.type == "cuda"

    @staticmethod
    def device_of(tensor):
        return tensor.device

    @staticmethod
    def stream(device):
        """The current one of this thread."""
        return torch.cuda.current_stream(device)

    @staticmethod
    def new_stream(device):
        return torch.cuda.Stream(device)

    @staticmethod
    def synchronize(device) -> None:
        torch.cuda.synchronize(device)

    @staticmethod
    def is_recording() -> bool:
        """The work is taken down for a graph, not done."""
        return torch.cuda.is_current_stream_capturing()

    @staticmethod
    def record(stream):
        """An event after all that the stream was given so far."""
        event = torch.cuda.Event(blocking=True)  # who waits for it sleeps
        event.record(stream)
        return event

    @staticmethod
    def use(stream, tensor) -> None:
        """The memory of the tensor is not free before the stream has done what it was given, also where it is freed."""
        tensor.record_stream(stream)

    @staticmethod
    def copy(stream, tensor, address: int, nbytes: int) -> None:
        """The logical bytes, in the order of the stream."""
        into = torch.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype=torch.uint8)
        with torch.no_grad(), torch.cuda.stream(stream):
            into.copy_(logical_bytes(tensor), non_blocking=True)

    @staticmethod
    def sums(stream, tensor):
        """A function that gives `sums_of` the bytes, for when the stream has made them."""
        with torch.no_grad(), torch.cuda.stream(stream):
            data = logical_bytes(tensor)
            data = data.clone() if data.storage_offset() % 8 else data
            made = torch.cat([part.view(torch.uint8) for part in sums_of(data, torch.int64)])
            kept = torch.empty(made.shape, dtype=made.dtype, pin_memory=True).copy_(made, non_blocking=True)
        return lambda: kept.numpy().tobytes()

    @staticmethod
    def register(address: int, nbytes: int):
        """Memory of the host that the device may read and write by itself, until what this returns is gone."""
        return _Registered(address, nbytes)


def logical_bytes(tensor):
    """Contiguous, where the tensor is; as bytes, so that the type is no matter."""
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        tensor = tensor.resolve_conj().resolve_neg().clone()
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def sums_of(data, int64):
    """Of bytes of torch or NumPy: over the columns and the rows of a table of words, and what is left over. To write
    some of them changes it, and so does to move them, but for those who mean to deceive."""
    whole = len(data) // _ROW_BYTES * _ROW_BYTES
    words = data[:whole].view(int64).reshape(-1, _ROW_BYTES // 8)
    return words.sum(0), words.sum(1), data[whole:]


def sums_at(address: int, nbytes: int) -> bytes:
    """Of memory of the host, by NumPy: it works in the thread that calls it, and lets others run."""
    data = numpy.frombuffer((ctypes.c_char * nbytes).from_address(address), numpy.uint8)
    return b"".join(part.tobytes() for part in sums_of(data, numpy.int64))


class _Registered:
    def __init__(self, address, nbytes):
        runtime = torch.cuda.cudart()
        status = int(runtime.cudaHostRegister(address, nbytes, 1))  # 1: for every device
        if status != 0:
            raise RuntimeError(f"cudaHostRegister: error {status}")
        self._address, self._undo = address, runtime.cudaHostUnregister

    def __del__(self):
        if hasattr(self, "_undo"):
            self._undo(self._address)


class Streams:
    """Our streams, and what they wait for and others for them. One for all runs of the process. Threads: any."""

    def __init__(self, runtime):
        self.runtime = runtime
        self._ours: dict = {}  # by device
        self._steps: dict = {}  # by device: {stream: event after the last step in it since the last save}
        self._copies: dict = {}  # by device: the event after what was copied last
        register_optimizer_step_pre_hook(self.before_step)
        register_optimizer_step_post_hook(self.after_step)

    def before_step(self, *_) -> None:
        """An optimizer is going to write."""
        if self._copies and not self.runtime.is_recording():
            for device, event in list(self._copies.items()):
                self.runtime.stream(device).wait_event(event)

    def after_step(self, *_) -> None:
        """An optimizer has written."""
        if self._ours and not self.runtime.is_recording():
            for device, steps in list(self._steps.items()):
                stream = self.runtime.stream(device)
                steps[stream] = self.runtime.record(stream)

    def begin(self, device):
        """Our stream, behind everything that may have written the state."""
        if device not in self._ours:
            self._ours[device], self._steps[device] = self.runtime.new_stream(device), {}
            self.runtime.synchronize(device)
        ours = self._ours[device]
        ours.wait_event(self.runtime.record(self.runtime.stream(device)))
        for event in self._steps[device].values():
            ours.wait_event(event)
        return ours

    def go_on(self, device) -> None:
        """What comes next in those streams waits for what ours was given."""
        event = self.runtime.record(self._ours[device])
        for stream in {self.runtime.stream(device), *self._steps[device]}:
            stream.wait_event(event)
        self._steps[device] = {}

    def end(self, device) -> None:
        """The next step of an optimizer waits for it."""
        self._copies[device] = self.runtime.record(self._ours[device])


class Arrivals:
    """What of one capture comes from accelerators, as the core asks for it. `tensors`: by their index in the state."""

    def __init__(self, streams: Streams, tensors: dict):
        self._streams, self._runtime, self._tensors = streams, streams.runtime, tensors
        self._places: list = []
        self._sums: dict = {}  # by place, of what is later
        self._begun: list[tuple[list, list]] = []  # (places, events when they are filled)
        self._arrived: set[int] = set()  # places
        self.changed: set[int] = set()  # of `tensors`: what was written before it was copied

    def prepare(self, address: int, nbytes: int):
        """Once for each memory: what it returns is kept as long as that."""
        try:
            return self._runtime.register(address, nbytes)
        except RuntimeError as error:
            say(f"warning: the memory of snapshots cannot be registered ({error}): the training waits for its copies")
            return None

    def begin(self, places) -> None:
        """(index, address, nbytes, is_later) each. The copies are in the order of the work of the devices."""
        self._places = places
        devices = [self._runtime.device_of(self._tensors[index]) for index, *_ in places]
        at_once = [i for i, (*_, is_later) in enumerate(places) if not is_later]
        later = [i for i, (*_, is_later) in enumerate(places) if is_later]
        ours = {}
        try:
            for device in set(devices):
                ours[device] = self._streams.begin(device)
            for i, (index, *_) in enumerate(places):
                self._runtime.use(ours[devices[i]], self._tensors[index])
            self._copy(at_once, devices, ours)
            for i in later:
                self._sums[i] = self._runtime.sums(ours[devices[i]], self._tensors[places[i][0]])
            for device in ours:
                self._streams.go_on(device)
            self._copy(later, devices, ours)
            for device in ours:
                self._streams.end(device)
        except BaseException:
            for device in ours:
                self._runtime.synchronize(device)
            raise
        finally:
            self._tensors = {}

    def _copy(self, chosen, devices, ours) -> None:
        batch, nbytes = [], 0
        for i in chosen:
            index, address, size, _ = self._places[i]
            self._runtime.copy(ours[devices[i]], self._tensors[index], address, size)
            batch.append(i)
            nbytes += size
            if nbytes >= _BATCH_BYTES or i == chosen[-1]:
                self._begun.append((batch, [self._runtime.record(ours[device]) for device in {devices[i] for i in batch}]))
                batch, nbytes = [], 0

    def wait(self, count: int) -> int:
        """Returns when so many places are filled, with a number that are. Threads: any."""
        for batch, events in self._begun:
            if min(batch) < count and not self._arrived.issuperset(batch):
                for event in events:
                    event.synchronize()
                for i in batch:
                    self._prove(i)
                self._arrived.update(batch)
        return next((i for i in range(len(self._places)) if i not in self._arrived), len(self._places))

    def _prove(self, i) -> None:
        index, address, nbytes, is_later = self._places[i]
        if is_later and self._sums[i]() != sums_at(address, nbytes):
            self.changed.add(index)


RUNTIME = Cuda()


@functools.cache
def streams() -> Streams:
    """Those of the process; the hooks of optimizers are there from the first call on."""
    return Streams(RUNTIME)
