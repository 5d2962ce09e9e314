"""What is copied from an accelerator is the state of its boundary, whatever the accelerator does first: shown on a
simulated one. Without any one of the waits, it is not."""

import contextlib
import ctypes
import struct

import numpy as np
import pytest
import torch

from simulated import Device, Stream
from unbroken._state.torch import device as product

_SEEDS = 300
_STEPS = 6
_TENSORS = 4
_BYTES = 256  # of a tensor


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(product, "_BATCH_BYTES", 2 * _BYTES)


class Training:
    """Steps of a training whose optimizer writes in place, or makes its state anew; the forward pass writes memory of its
    own, which is freed at once. Some are all in the current stream, some step in the one beside it and go on in the
    current one, and some take whole steps in either, while the boundaries are in the current one."""

    def __init__(self, seed, monkeypatch):
        self.sim = sim = Device(seed, ("sim:0", "sim:1")[: 1 + seed % 2])
        self.random = sim.random
        monkeypatch.setattr(product, "register_optimizer_step_pre_hook", lambda hook: None)
        monkeypatch.setattr(product, "register_optimizer_step_post_hook", lambda hook: None)
        self.streams = product.Streams(sim)
        self.homes = [self.random.choice(list(sim.side)) for _ in range(_TENSORS)]
        with sim.on(sim.loader):  # whose memory it is, whoever uses it
            self.tensors = [sim.make(home) for home in self.homes]
        self.values = [0] * _TENSORS
        self.is_either = seed % 3 == 0
        self.touched: set[int] = set()  # written by the loop itself since the boundary
        self.done = {home: sim.record(sim.stream(home)) for home in sim.side}
        self.memory = ctypes.create_string_buffer(_TENSORS * _BYTES)
        self.address = ctypes.addressof(self.memory)
        self.registration = None

    def _write(self, i, value):
        self.sim.write(self.homes[i], self.tensors[i], value)
        self.values[i] = value

    def step(self, step):
        """What it does waits for the step before, as it stood when that was taken: not for the boundary."""
        is_beside = self.is_either and self.random.random() < 0.5
        with self.sim.on(self.sim.side) if is_beside else contextlib.nullcontext():
            self.forward(step)
            self.optimize(step)

    def _note_done(self):
        self.done = {home: self.sim.record(self.sim.stream(home)) for home in self.sim.side}

    def forward(self, step):
        for home, event in self.done.items():
            self.sim.stream(home).wait_event(event)
            self._come_and_go(home, -step)
        if not self.is_either and self.random.random() < 0.3:  # weights that are clipped, or averaged, by the loop itself
            self.touched.add(self.random.randrange(_TENSORS))
            for i in self.touched:
                self._write(i, 1000 + step)
        self.sim.run(self.random.randrange(8))

    def _come_and_go(self, home, value):
        for _ in range(self.random.randrange(3)):
            made = self.sim.make(home)
            self.sim.write(home, made, value)
            self.sim.free(made)

    def load(self, step):
        """Batches, in a stream that waits for nobody."""
        with self.sim.on(self.sim.loader):
            for home in self.sim.side:
                self._come_and_go(home, -1000 - step)

    def optimize(self, step):
        if self.is_either or self.random.random() < 0.5:
            return self._optimize(step)
        for home in self.sim.side:
            self.sim.side[home].wait_event(self.sim.record(self.sim.stream(home)))
        with self.sim.on(self.sim.side):
            self._optimize(step)
        for home, event in self.done.items():
            if self.random.random() < 0.5:  # else the next step does
                self.sim.stream(home).wait_event(event)

    def _optimize(self, step):
        self.streams.before_step()
        for i in range(_TENSORS):
            self.sim.run(self.random.randrange(3))
            self._write(i, 10 * step + i)
        self.streams.after_step()
        self._note_done()

    def replace(self, step):
        """A tensor of the state is made anew; its old memory is free."""
        i = self.random.randrange(_TENSORS)
        self.sim.stream(self.homes[i]).wait_event(self.done[self.homes[i]])
        for streams in (self.sim.side, {home: self.sim.stream(home) for home in self.homes}):
            self.sim.use(streams[self.homes[i]], self.tensors[i])
        self.sim.free(self.tensors[i])
        self.tensors[i] = self.sim.make(self.homes[i])
        self._write(i, 500 + step)
        self._note_done()

    def boundary(self):
        """(arrivals, what has to arrive). Some tensors are later ones, which the loop should not touch."""
        self.touched = set()
        self.later = {i for i in range(_TENSORS) if self.random.random() < 0.5}
        arrivals = product.Arrivals(self.streams, dict(enumerate(self.tensors)))
        if self.registration is None:
            self.registration = arrivals.prepare(self.address, _TENSORS * _BYTES)
        arrivals.begin([(i, self.address + i * _BYTES, _BYTES, i in self.later) for i in range(_TENSORS)])
        return arrivals, [struct.pack("<i", value) * (_BYTES // 4) for value in self.values]

    def are_right(self, count, expected, changed):
        """The first so many tensors arrived as they were, or it is known that the loop has touched a later one."""
        is_false_alarm = not changed <= self.touched & self.later
        arrived = [self.memory.raw[i * _BYTES : (i + 1) * _BYTES] for i in range(count)]
        return not is_false_alarm and all(arrived[i] == expected[i] or i in changed for i in range(count))

    def live(self):
        """True where every boundary arrived as it was."""
        for step in range(1, _STEPS + 1):
            self.step(step)
            arrivals, expected = self.boundary()
            if self.random.random() < 0.5:
                self.replace(step)
            self.load(step)
            if self.random.random() < 0.5:
                self.step(_STEPS + step)
            count = arrivals.wait(self.random.randint(1, _TENSORS))
            if not self.are_right(count, expected, arrivals.changed):
                return False
            assert arrivals.wait(_TENSORS) == _TENSORS
            if not self.are_right(_TENSORS, expected, arrivals.changed):
                return False
        return True


def are_right(monkeypatch):
    return (Training(seed, monkeypatch).live() for seed in range(_SEEDS))


def test_what_arrives_is_what_stood_at_the_boundary(monkeypatch):
    assert all(are_right(monkeypatch))


def _deaf(monkeypatch):
    """Our stream waits for nobody."""

    class Deaf(Stream):
        def wait_event(self, event):
            pass

    def new_stream(self, device):
        self.streams.append(Deaf(self))
        return self.streams[-1]

    monkeypatch.setattr(Device, "new_stream", new_stream)


def _goes_on_unheard(monkeypatch):
    def go_on(self, device):
        self._steps[device] = {}

    monkeypatch.setattr(product.Streams, "go_on", go_on)


MUTANTS = {
    "no wait on the caller's stream": _deaf,
    "no wait on the stream of the last step": lambda m: m.setattr(product.Streams, "after_step", lambda self: None),
    "the caller's stream does not wait": _goes_on_unheard,
    "the optimizer does not wait": lambda m: m.setattr(product.Streams, "before_step", lambda self: None),
    "source freed during the copy": lambda m: m.setattr(Device, "use", lambda *_: None),
    "read before it arrived": lambda m: m.setattr(product.Arrivals, "wait", lambda self, count: _TENSORS),
    "what is later is not proved": lambda m: m.setattr(product.Arrivals, "_prove", lambda *_: None),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_each_wait_is_needed(mutant, monkeypatch):
    mutant(monkeypatch)
    assert not all(are_right(monkeypatch))


def test_the_host_waits_for_nothing_but_what_it_reads(monkeypatch):
    training = Training(0, monkeypatch)
    training.step(1)
    training.boundary()  # a device that is met first is waited for
    training.step(2)
    monkeypatch.setattr(Device, "run_until", lambda *_: pytest.fail("the host waits"))
    training.boundary()
    training.step(3)


def test_memory_is_registered_once_and_let_go(monkeypatch):
    training = Training(1, monkeypatch)
    assert training.live()
    assert training.sim.registrations == 1 and training.sim.registered
    training.registration = None
    assert not training.sim.registered


def test_what_cannot_be_begun_is_not_on_its_way(monkeypatch):
    training = Training(2, monkeypatch)
    training.step(1)
    real, calls = Device.copy, []

    def fails(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        real(self, *arguments)

    monkeypatch.setattr(Device, "copy", fails)
    with pytest.raises(RuntimeError):
        training.boundary()
    assert not any(stream.queue for stream in training.sim.streams)


def test_memory_that_cannot_be_registered_is_said(monkeypatch, capsys):
    training = Training(3, monkeypatch)

    def refuses(*_):
        raise RuntimeError("error 2")

    monkeypatch.setattr(Device, "register", refuses)
    assert product.Arrivals(training.streams, {}).prepare(0, 4096) is None
    assert "cannot be registered (error 2)" in capsys.readouterr().err


def test_sums_are_the_same_of_torch_and_of_memory():
    for nbytes in (0, 1, 8191, 8192, 100_003):
        data = torch.randint(256, (nbytes,), dtype=torch.uint8)
        parts = [part.contiguous().view(torch.uint8) for part in product.sums_of(data, torch.int64)]
        assert torch.cat(parts).numpy().tobytes() == product.sums_at(data.data_ptr(), nbytes)


def test_sums_tell_writes_and_moves():
    data = torch.randint(256, (5 * 8192 + 100,), dtype=torch.uint8)
    seen = {product.sums_at(data.data_ptr(), len(data))}
    for write in (
        lambda d: d[7].add_(1),
        lambda d: d[-1].add_(1),
        lambda d: d.copy_(d.roll(8)),
        lambda d: d.copy_(d.roll(8192)),
        lambda d: d[:8192].copy_(d[:8192].flip(0)),
        lambda d: d[:16].copy_(d[:16].roll(8)),
    ):
        write(data)
        seen.add(product.sums_at(data.data_ptr(), len(data)))
    assert len(seen) == 7


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_bytes_are_logical_ones(dtype):
    values = torch.arange(24).reshape(4, 6).to(torch.float32).to(dtype)
    for tensor in (values, values.T, values[1:3, ::2], values[0, 0]):
        expected = tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.dim() else values.reshape(-1)[:1].view(torch.uint8)
        assert torch.equal(product.logical_bytes(tensor), expected)
    if dtype is torch.complex64:
        turned = (values * 1j).conj()
        assert torch.equal(product.logical_bytes(turned), turned.resolve_conj().reshape(-1).view(torch.uint8))


def test_copies_what_torch_calls_what_it_calls():
    """The names that Cuda uses are there, in the torch that is installed."""
    for name in ("current_stream", "Stream", "synchronize", "is_current_stream_capturing", "Event", "stream", "cudart"):
        assert callable(getattr(torch.cuda, name))
    assert callable(torch.Tensor.record_stream) and callable(torch.cuda.Event.record)
    assert callable(torch.cuda.Stream.wait_event) and callable(torch.cuda.Event.synchronize)
    into = np.zeros(8, np.uint8)
    torch.frombuffer((ctypes.c_char * 8).from_address(into.ctypes.data), dtype=torch.uint8).copy_(torch.arange(8, dtype=torch.uint8))
    assert into.tolist() == list(range(8))
