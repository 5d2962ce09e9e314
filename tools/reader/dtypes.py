"""Element types: docs/format/shard.md."""

from __future__ import annotations

from .text import Damage


STORED = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
# logical type -> (stored type, elements)
LOGICAL = {
    **{name: (name, 1) for name in STORED},
    "C32": ("F16", 2), "C128": ("F64", 2), "F4X2": ("F4", 2), "BITS16": ("U16", 1),
    **{f"{sign}INT{bits}": ("U8", 1) for sign in ("", "U") for bits in range(1, 8)},
    **{name: ("U8", 1) for name in ("BITS1X8", "BITS2X4", "BITS4X2", "BITS8")},
}  # fmt: skip
NUMPY = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8", "C128": "<c16",
}  # fmt: skip


def bits_of(dtype: str) -> int:
    stored, count = LOGICAL[dtype]
    return STORED[stored] * count


def size_of(dtype: str, shape: list[int]) -> int:
    bits = 1
    for axis in [*shape, bits_of(dtype)]:
        bits *= axis
        if bits >= 2**64:
            raise Damage("a tensor is too large")
    if bits % 8:
        raise Damage("a tensor does not end on a whole byte")
    return bits // 8
