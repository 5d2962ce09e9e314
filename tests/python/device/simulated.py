"""An accelerator of queues: what `unbroken._state.torch.device` asks of one, done by a scheduler that a seed drives.

Whatever is given to a stream is done later, in pieces, in the order of that stream and in any order beside others. Its
memory is kept by an allocator like that of torch: a block that is freed is given out again at once to the stream it was
made in, whatever other streams still do with it, but for those it was told of (`use`).
"""

import ctypes
import random
import threading
from collections import deque
from contextlib import contextmanager
from functools import partial

import torch

from unbroken._state.torch import device

_PIECES = 3  # a copy or a write is done in so many


class Event:
    def __init__(self, device):
        self._device, self.has_happened = device, False

    def synchronize(self):
        self._device.run_until(lambda: self.has_happened)


class Stream:
    """A queue of functions that return True when they are done."""

    def __init__(self, device):
        self._device, self.queue = device, deque()

    def wait_event(self, event):
        self.queue.append(lambda: event.has_happened)

    def give(self, pieces):
        """A list of functions, one done at a time."""
        left = deque(pieces)

        def once():
            left.popleft()()
            return not left

        self.queue.append(once)


class Block:
    def __init__(self, memory, stream):
        self.memory, self.stream, self.uses = memory, stream, set()


class Device:
    """Also the runtime. `device`s are names; each has a stream that is current, one beside it, and one of a loader."""

    def __init__(self, seed, devices=("sim:0",), elements=64):
        self.random = random.Random(seed)
        self._elements, self._lock = elements, threading.Lock()
        self.streams = []
        self._current = {name: self._make() for name in devices}
        self.side = {name: self._make() for name in devices}
        self.loader = {name: self._make() for name in devices}
        self._blocks, self._homes, self._free = {}, {}, []
        self.registered, self.registrations = {}, 0

    # -- what the product asks

    def has(self, tensor):
        return tensor.data_ptr() in self._blocks

    def device_of(self, tensor):
        return self._homes[tensor.data_ptr()]

    def stream(self, device):
        return self._current[device]

    def new_stream(self, device):
        return self._make()

    def synchronize(self, device):
        self.run_until(lambda: not any(stream.queue for stream in self.streams))

    def is_recording(self):
        return False

    def record(self, stream):
        event = Event(self)

        def happens():
            event.has_happened = True
            return True

        stream.queue.append(happens)
        return event

    def use(self, stream, tensor):
        self._blocks[tensor.data_ptr()].uses.add(stream)

    def copy(self, stream, tensor, address, nbytes):
        assert any(begin <= address and address + nbytes <= end for begin, end in self.registered.items()), "not registered"
        source, size = tensor.data_ptr(), -(-nbytes // _PIECES)
        parts = [(at, min(size, nbytes - at)) for at in range(0, nbytes, size)]
        stream.give([partial(ctypes.memmove, address + at, source + at, n) for at, n in parts])

    def sums(self, stream, tensor):
        seen = []
        stream.give([partial(self._look, part, seen) for part in tensor.chunk(_PIECES)])

        def result():
            data = torch.cat(seen)
            return device.sums_at(data.data_ptr(), len(data))

        return result

    @staticmethod
    def _look(part, seen):
        seen.append(part.view(torch.uint8).clone())

    def register(self, address, nbytes):
        self.registrations += 1
        self.registered[address] = address + nbytes
        return _Registered(self.registered, address)

    # -- what a training does

    @contextmanager
    def on(self, streams):
        """What follows goes to these streams, of each device."""
        current, self._current = self._current, streams
        yield
        self._current = current

    def make(self, device):
        """A tensor in memory of the current stream, which may hold anything."""
        stream = self._current[device]
        fitting = [block for block in self._free if block.stream is stream and all(e.has_happened for e in block.uses)]
        if fitting:
            block = self.random.choice(fitting)
            self._free.remove(block)
            block.uses = set()
        else:
            block = Block(torch.zeros(self._elements, dtype=torch.int32), stream)
        self._blocks[block.memory.data_ptr()], self._homes[block.memory.data_ptr()] = block, device
        return block.memory.view(-1)

    def free(self, tensor):
        block = self._blocks.pop(tensor.data_ptr())
        block.uses = {self.record(stream) for stream in block.uses}
        self._free.append(block)

    def write(self, device, tensor, value):
        """In the current stream, later; uncounted by torch, which counts when it is given."""
        self._current[device].give([partial(part.fill_, value) for part in tensor.data.chunk(_PIECES)])

    # -- time

    def _make(self):
        self.streams.append(Stream(self))
        return self.streams[-1]

    def run(self, steps):
        """Does so many pieces of work, of whichever streams."""
        for _ in range(steps):
            with self._lock:
                ready = [stream for stream in self.streams if stream.queue]
                if not ready:
                    return False
                stream = self.random.choice(ready)
                if stream.queue[0]():
                    stream.queue.popleft()
        return True

    def run_until(self, is_done):
        for _ in range(100_000):
            if is_done():
                return
            assert self.run(1) or is_done(), "waits for what nobody will do"
        raise AssertionError("streams wait for each other")


class _Registered:
    def __init__(self, all_, address):
        self._all, self._address = all_, address

    def __del__(self):
        del self._all[self._address]
