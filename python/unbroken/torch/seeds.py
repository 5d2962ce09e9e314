"""Seeds by name, and streams of global random numbers that are borrowed and put back.

Three generators are meant: Python's, NumPy's legacy global one, torch's on the CPU. NumPy's is imported for it, as a data
set may be the first to draw from it.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
import sys

import numpy.random

from unbroken._state.generators import handlers_of


def derive(*parts) -> int:
    """A seed in [0, 2^64) that depends on every part: whole numbers and texts. It is the same in every version."""
    text = "\0".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def seed_all(seed: int) -> None:
    """Seeds the three generators, each with a seed of its own."""
    words = struct.unpack("<QIIQ", hashlib.blake2b(seed.to_bytes(8, "little"), digest_size=24).digest())
    random.seed(words[0])
    numpy.random.seed(words[1:3])
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(words[3])


def take():
    """The states of the three, for `put`."""
    torch = sys.modules["torch"].default_generator.get_state() if "torch" in sys.modules else None
    return random.getstate(), numpy.random.get_state(legacy=False), torch


def put(states) -> None:
    """Puts back what `take` gave."""
    python, legacy, torch = states
    random.setstate(python)
    numpy.random.set_state(legacy)
    if torch is not None:
        sys.modules["torch"].default_generator.set_state(torch)


def _three():
    """(name, generator) of those that are there."""
    yield "python", random._inst
    yield "numpy", numpy.random.mtrand._rand
    if "torch" in sys.modules:
        yield "torch", sys.modules["torch"].default_generator


def freeze() -> str:
    """The states of the three as a text that can be kept."""
    return json.dumps({name: handlers_of(generator)[1](generator, name) for name, generator in _three()})


def thaw(text: str) -> None:
    """Puts back what `freeze` gave."""
    nodes = json.loads(text)
    for name, generator in _three():
        if name in nodes:
            handlers_of(generator)[2](generator, nodes[name])


class Kept:
    """A context that puts the three back as they were."""

    def __enter__(self):
        self._outside = take()
        return self

    def __exit__(self, *error):
        put(self._outside)


class Streams(Kept):
    """The same, in which the three go on from one time to the next, from a seed of their own."""

    def __init__(self, seed: int):
        self._seed, self._inside = seed, None

    def __enter__(self):
        super().__enter__()
        if self._inside is None:
            seed_all(self._seed)
        else:
            put(self._inside)
        return self

    def __exit__(self, *error):
        self._inside = take()
        super().__exit__(*error)
