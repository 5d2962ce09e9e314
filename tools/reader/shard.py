"""Shard header, element types, index: docs/format/shard.md."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

import numpy as np

from .dtypes import LOGICAL, NUMPY, STORED, bits_of, size_of
from .state import check_name, check_tree
from .text import (
    MIB64,
    Damage,
    Save,
    check_version,
    hexes,
    member,
    no_duplicates,
    number,
    number_with_fraction,
    open_sealed,
)


def check_shape(shape) -> list[int]:
    if not isinstance(shape, list) or len(shape) > 16:
        raise Damage("not a shape")
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**64 for n in shape):
        raise Damage("not a shape")
    return shape


@dataclass
class Tensor:
    name: str
    dtype: str
    shape: list[int]
    offset: int
    bytes: int
    digest: str
    box: tuple[list[int], list[int]] | None = None

    @property
    def held(self) -> list[int]:
        return [e - b for b, e in zip(*self.box)] if self.box else self.shape

    @property
    def stored(self) -> tuple[str, list[int]]:
        dtype, count = LOGICAL[self.dtype]
        return dtype, self.held + ([count] if count > 1 else [])


def read_header(data: bytes, file_bytes: int):
    """(data offset, {name: (dtype, shape, offset, bytes)}) of a safetensors file; `data` is its beginning."""
    if file_bytes < 8 or len(data) < 8:
        raise Damage("header: the file is too short")
    (size,) = struct.unpack("<Q", data[:8])
    if size > 100_000_000 or size > file_bytes - 8 or len(data) < 8 + size:
        raise Damage("header: longer than the file or the cap")
    text = data[8 : 8 + size]
    if not text.startswith(b"{"):
        raise Damage("header: does not begin with {")
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=no_duplicates, parse_float=number_with_fraction)
    except (ValueError, RecursionError) as error:
        raise Damage(f"header: {error}") from None
    notes = value.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise Damage("header: __metadata__ is not texts")
    out = {}
    for name, entry in value.items():
        check_name(name)
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise Damage("header: an entry has other members")
        dtype, shape, ends = entry["dtype"], check_shape(entry["shape"]), check_shape(entry["data_offsets"])
        if not isinstance(dtype, str) or dtype not in STORED or len(ends) != 2 or ends[1] < ends[0]:
            raise Damage(f"header: {name}")
        if size_of(dtype, shape) != ends[1] - ends[0]:
            raise Damage(f"header: {name} has another size")
        out[name] = (dtype, shape, 8 + size + ends[0], ends[1] - ends[0])
    at = 8 + size
    for _, _, offset, length in sorted(out.values(), key=lambda e: e[2:]):
        if offset != at:
            raise Damage("header: a hole or an overlap")
        at += length
    if at != file_bytes:
        raise Damage("header: the tensors do not end with the file")
    return 8 + size, out


class Index:
    """One decoded and checked index."""

    def __init__(self, data: bytes):
        value, _ = open_sealed(data, MIB64, 199)
        check_version(value)
        self.save = Save.of_name(value.get("save"))
        self.nonce = hexes(value.get("nonce"), 16)
        self.writer, self.writers = number(value, "writer", 2**32 - 1), number(value, "writers", 2**32 - 1)
        self.chunk_bytes = number(value, "chunk_bytes")
        self.data_offset, self.file_bytes = number(value, "data_offset"), number(value, "file_bytes", 2**63 - 1)
        if value.get("hash") != "XXH3-128" or self.writer >= self.writers or self.data_offset <= 8:
            raise Damage("index: hash, writer or data_offset")
        if self.chunk_bytes & (self.chunk_bytes - 1) or not 4096 <= self.chunk_bytes <= 2**30:
            raise Damage("index: chunk_bytes")
        self.tensors = {}
        at = self.data_offset
        for tensor in map(self._tensor, member(value, "tensors", list)):
            if tensor.name in self.tensors or tensor.offset != at:
                raise Damage(f"index: {tensor.name} stands twice, or leaves a hole")
            self.tensors[tensor.name] = tensor
            at += tensor.bytes
        if at != self.file_bytes:
            raise Damage("index: the tensors do not end with the file")
        self.aliases = self._aliases(member(value, "aliases", list))
        if "tree" not in value:
            raise Damage("index: no tree")
        self.tree = value["tree"]
        check_tree(self.tree, None if self.writers > 1 else self.tensors.keys() | self.aliases.keys())

    @staticmethod
    def _tensor(row) -> Tensor:
        if not isinstance(row, list) or len(row) not in (6, 7):
            raise Damage("index: a tensor is not a row")
        name, dtype, shape = check_name(row[0]), row[1], check_shape(row[2])
        if not isinstance(dtype, str) or dtype not in LOGICAL:
            raise Damage("index: unknown dtype")
        sizes = {"offset": row[3], "bytes": row[4]}
        box = None
        if len(row) == 7:
            if not isinstance(row[6], list) or len(row[6]) != 2:
                raise Damage("index: a box is not a pair")
            box = tuple(map(check_shape, row[6]))
            if not len(box[0]) == len(box[1]) == len(shape):
                raise Damage("index: a box of another rank")
            if not all(b <= e <= n for b, e, n in zip(*box, shape)):
                raise Damage("index: a box outside of its tensor")
        tensor = Tensor(name, dtype, shape, number(sizes, "offset"), number(sizes, "bytes"), hexes(row[5], 32), box)
        size_of(dtype, shape)
        if len(tensor.stored[1]) > 16 or size_of(dtype, tensor.held) != tensor.bytes:
            raise Damage(f"index: {name} has another size")
        return tensor

    def _aliases(self, rows) -> dict[str, str]:
        out = {}
        for row in rows:
            if not isinstance(row, list) or len(row) != 2:
                raise Damage("index: an alias is not a pair")
            name, target = check_name(row[0]), row[1]
            if name in self.tensors or not isinstance(target, str) or target not in self.tensors:
                raise Damage("index: an alias of nothing, or of a name that is taken")
            out[name] = target
        if list(out) != sorted(out, key=str.encode) or len(out) != len(rows):
            raise Damage("index: aliases are not sorted")
        return out

    def check_header(self, data: bytes):
        offset, entries = read_header(data, self.file_bytes)
        expected = {t.name: (*t.stored, t.offset, t.bytes) for t in self.tensors.values()}
        if offset != self.data_offset or entries != expected:
            raise Damage("header: says something else than the index")


def array_of(tensor: Tensor, data: bytes) -> np.ndarray:
    """NumPy where it has the type; else the bytes of each element on a last axis."""
    if tensor.dtype in NUMPY:
        return np.frombuffer(data, NUMPY[tensor.dtype]).reshape(tensor.held)
    if bits_of(tensor.dtype) % 8:
        return np.frombuffer(data, np.uint8)
    return np.frombuffer(data, np.uint8).reshape([*tensor.held, bits_of(tensor.dtype) // 8])
