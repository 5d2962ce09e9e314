"""Canonical JSON, seals, versions and save names: docs/format/index.md."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

MIB64 = 64 << 20


class Damage(Exception):
    """Bytes are not what the format, or the object that refers to them, says."""


class Newer(Exception):
    """Written by a newer version, or needing a feature that is not known here."""


class _Number(float):
    """A number with a fraction, with its spelling."""

    text = ""


def number_with_fraction(text: str) -> _Number:
    number = _Number(text)
    number.text = text
    return number


def no_duplicates(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Damage("a name stands twice in an object")
    return out


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _text(value: str) -> str:
    return '"' + re.sub(r'["\\\x00-\x1f]', lambda m: _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04x}", value) + '"'


def canonical(value) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    names = sorted(value, key=lambda name: name.encode())
    return "{" + ",".join(f"{_text(name)}:{canonical(value[name])}" for name in names) + "}"


def depth_of(value) -> int:
    """Nesting, without recursion: the value may be hostile."""
    deepest, pending = 0, [(value, 1)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, (dict, list)):
            deepest = max(deepest, depth)
            pending += [(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)]
    return deepest


def parse(line: bytes, depth_max: int):
    try:
        value = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=no_duplicates,
            parse_float=number_with_fraction,
            parse_constant=lambda _: number_with_fraction("x"),  # NaN and the like are not JSON: not canonical
        )
    except (ValueError, RecursionError) as error:
        raise Damage(f"not JSON: {error}") from None
    if depth_of(value) > depth_max:
        raise Damage("nested too deeply")
    try:
        again = canonical(value).encode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise Damage(f"not canonical: {error}") from None
    if again != line:
        raise Damage("not in canonical form")
    return value


def open_sealed(data: bytes, bytes_max: int, depth_max: int):
    """(value, SHA-256 of the line)."""
    if len(data) > bytes_max:
        raise Damage(f"{len(data)} bytes, at most {bytes_max} are read")
    line, newline, seal = data.partition(b"\n")
    digest = hashlib.sha256(line).hexdigest()
    if not newline or seal != f"sha256:{digest}\n".encode():
        raise Damage("does not fit its seal")
    return parse(line, depth_max), digest


def open_twice(data: bytes, bytes_max: int, depth_max: int):
    """(value, digest, was it repaired)."""
    if len(data) % 2 or not data or len(data) > bytes_max:
        raise Damage("does not hold two copies")
    halves, errors = [], []
    for half in (data[: len(data) // 2], data[len(data) // 2 :]):
        try:
            halves.append(open_sealed(half, bytes_max, depth_max))
        except Damage as error:
            errors.append(error)
    if not halves:
        raise errors[0]
    if len(halves) == 2 and halves[0][1] != halves[1][1]:
        raise Damage("holds two copies that differ")
    return (*halves[0], bool(errors))


def check_version(value, has_critical: bool = True):
    if not isinstance(value, dict):
        raise Damage("not an object")
    if number(value, "format") != 1:
        if value["format"] > 1:
            raise Newer(f"format {value['format']}")
        raise Damage("format 0")
    if has_critical:
        flags = member(value, "critical", list)
        if not all(isinstance(flag, str) and re.fullmatch(r"[a-z0-9-]{1,64}", flag) for flag in flags):
            raise Damage("a feature's name is not one")
        if flags:
            raise Newer(f"feature {flags[0]}")


def member(value: dict, name: str, kind):
    if not isinstance(value, dict) or name not in value:
        raise Damage(f'"{name}" is missing')
    if not isinstance(value[name], kind) or (kind is int and isinstance(value[name], bool)):
        raise Damage(f'"{name}" is of another kind')
    return value[name]


def number(value: dict, name: str, top: int = 2**64 - 1) -> int:
    found = member(value, name, int)
    if not 0 <= found <= top:
        raise Damage(f'"{name}" is out of range')
    return found


def hexes(text, digits: int) -> str:
    if not isinstance(text, str) or not re.fullmatch(f"[0-9a-f]{{{digits}}}", text):
        raise Damage(f"not {digits} hex digits")
    return text


def metric(value) -> float:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Damage("a metric is not a number")
    return float(value)


@dataclass(frozen=True, order=True)
class Save:
    step: int
    attempt: int
    try_index: int

    @property
    def name(self) -> str:
        return f"{self.step}.a{self.attempt}" + (f".t{self.try_index}" if self.try_index else "")

    @property
    def folder(self) -> str:
        return f"data/step-{self.step:012}.a{self.attempt:04}.t{self.try_index}"

    @staticmethod
    def of_name(text) -> "Save":
        match = isinstance(text, str) and re.fullmatch(r"(0|[1-9]\d*)\.a(0|[1-9]\d*)(?:\.t([1-9]\d*))?", text, re.ASCII)
        save = Save(*(int(part or 0) for part in match.groups())) if match else None
        if save is None or save.step >= 2**64 or save.attempt >= 2**32 or save.try_index >= 2**32:
            raise Damage("not a save name")
        return save

    @staticmethod
    def of_body(value) -> "Save":
        return Save(number(value, "step"), number(value, "attempt", 2**32 - 1), number(value, "try", 2**32 - 1))
