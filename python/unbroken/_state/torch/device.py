"""Tensors of an accelerator into the memory of a snapshot. Nobody waits but the device. Imported only where torch is.

Order is everything here, and events alone keep it:

1. A stream of our own waits for all that was given to the device before: by the stream that is current at the boundary,
   and by those in which an optimizer stepped since the last save. When a device is met first, for all of its work.
2. It copies, into memory that the runtime of the device has registered once.
3. Those streams wait for the copies, and so does that of the optimizer's next step. The host does not wait.
4. The allocator is told that our stream uses the tensors: what is freed meanwhile is given to nobody before.
5. The core asks what has arrived, and reads, hashes and writes only that.

Another stream that writes the state must be waited for before the boundary by one of those, and wait for one of them after it
before it writes again.
"""

from __future__ import annotations

import ctypes
import functools

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from unbroken.errors import say

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
    def register(address: int, nbytes: int):
        """Memory of the host that the device may read and write by itself, until what this returns is gone."""
        return _Registered(address, nbytes)


def logical_bytes(tensor):
    """Contiguous, where the tensor is; as bytes, so that the type is no matter."""
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        tensor = tensor.resolve_conj().resolve_neg().clone()
    return tensor.contiguous().reshape(-1).view(torch.uint8)


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

    def end(self, device) -> None:
        """What comes next in those streams, and each step, waits for what ours was given."""
        event = self._copies[device] = self.runtime.record(self._ours[device])
        for stream in {self.runtime.stream(device), *self._steps[device]}:
            stream.wait_event(event)
        self._steps[device] = {}


class Arrivals:
    """What of one capture comes from accelerators, as the core asks for it. `tensors`: by their index in the state."""

    def __init__(self, streams: Streams, tensors: dict):
        self._streams, self._runtime, self._tensors = streams, streams.runtime, tensors
        self._events: list[tuple[int, dict]] = []  # (so many places, {device: event} when they are filled)
        self._arrived = 0

    def prepare(self, address: int, nbytes: int):
        """Once for each memory: what it returns is kept as long as that."""
        try:
            return self._runtime.register(address, nbytes)
        except RuntimeError as error:
            say(f"warning: the memory of snapshots cannot be registered ({error}): the training waits for its copies")
            return None

    def begin(self, places) -> None:
        """(index, address, nbytes, is_later) each. The copies are in the order of the work of the devices."""
        ours: dict = {}
        used, waiting = set(), 0
        try:
            for count, (index, address, nbytes, _) in enumerate(places, 1):
                tensor = self._tensors[index]
                device = self._runtime.device_of(tensor)
                if device not in ours:
                    ours[device] = self._streams.begin(device)
                self._runtime.use(ours[device], tensor)
                self._runtime.copy(ours[device], tensor, address, nbytes)
                used.add(device)
                waiting += nbytes
                if waiting >= _BATCH_BYTES or count == len(places):
                    self._events.append((count, {device: self._runtime.record(ours[device]) for device in used}))
                    used, waiting = set(), 0
        except BaseException:
            for device in ours:
                self._runtime.synchronize(device)
            raise
        finally:
            self._tensors = {}
        for device in ours:
            self._streams.end(device)

    def wait(self, count: int) -> int:
        """Returns when so many places are filled, with how many are. Threads: any."""
        for end, events in self._events:
            if self._arrived < min(end, count):
                for event in events.values():
                    event.synchronize()
                self._arrived = max(self._arrived, end)
        return self._arrived


RUNTIME = Cuda()


@functools.cache
def streams() -> Streams:
    """Those of the process; the hooks of optimizers are there from the first call on."""
    return Streams(RUNTIME)
