"""What `log` was given since the last boundary. A tensor on an accelerator is read one step later, without a sync."""

from __future__ import annotations

import numbers
import sys

from unbroken.errors import Misconfigured, printable


_OURS = ("step", "attempt")


class _OnDevice:
    """A number on its way to the host."""

    def __init__(self, torch, tensor):
        source = tensor.detach().reshape(())
        self._host = source
        self._event = None
        if source.device.type == "cuda":
            self._host = torch.empty((), dtype=source.dtype, pin_memory=True)
            self._host.copy_(source, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(source.device))
        else:
            self._host = source.clone()

    def read(self) -> float:
        if self._event is not None:
            self._event.synchronize()
        return float(self._host)


def number(name: str, value):
    """A float, or an _OnDevice. Errors: Misconfigured for what is not one number."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.numel() != 1 or value.is_complex():
            raise Misconfigured(f"log: {printable(name)} is a tensor of shape {list(value.shape)}, not one number")
        return float(value.detach()) if value.device.type == "cpu" else _OnDevice(torch, value)
    if not isinstance(value, numbers.Real) and getattr(value, "size", None) == 1 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, numbers.Real):
        try:
            return float(value)
        except OverflowError:
            raise Misconfigured(f"log: {printable(name)} is a number that no float holds (up to 1.8e308)") from None
    raise Misconfigured(f"log: {printable(name)} is {type(value).__qualname__}, not one number")


def _checked(name: str) -> str:
    """Errors: Misconfigured for a name that no file can hold, and for one of ours."""
    if name in _OURS:
        raise Misconfigured(f"log: {name!r} is no name for a metric: each line of metrics says its {name} under it")
    if not name or any("\ud800" <= character <= "\udfff" for character in name):
        raise Misconfigured(f"log: {name!r} is no name for a metric: it is empty or no text")
    return name


class Metrics:
    """Numbers by name; the last value of a step counts."""

    def __init__(self):
        self._values: dict[str, object] = {}

    def add(self, metrics: dict) -> None:
        self._values.update({_checked(name): number(name, value) for name, value in metrics.items()})

    def take(self) -> dict[str, object]:
        """All of them, and forgets them."""
        values, self._values = self._values, {}
        return values


def is_late(values: dict) -> bool:
    """True where a number is still on a device."""
    return any(isinstance(value, _OnDevice) for value in values.values())


def read(values: dict) -> list[tuple[str, float]]:
    """(name, number), waiting for devices."""
    return [(name, value.read() if isinstance(value, _OnDevice) else value) for name, value in values.items()]
