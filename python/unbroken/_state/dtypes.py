"""Element types by the names that files and messages use: those of safetensors where it has one."""

from __future__ import annotations

_BOTH = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16",
    "complex64": "C64", "complex128": "C128", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "uint2": "UINT2", "uint4": "UINT4", "int2": "INT2", "int4": "INT4",
}  # fmt: skip
_TORCH_ONLY = {
    "complex32": "C32", "float4_e2m1fn_x2": "F4X2",
    **{f"uint{i}": f"UINT{i}" for i in range(1, 8)}, **{f"int{i}": f"INT{i}" for i in range(1, 8)},
    **{name: name.upper() for name in ("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16")},
}  # fmt: skip
#: name of a numpy (or ml_dtypes) dtype -> ours; of a torch dtype -> ours
NUMPY_TO_NAME = dict(_BOTH)
TORCH_TO_NAME = {**_BOTH, **_TORCH_ONLY}
NAME_TO_NUMPY = {name: numpy_name for numpy_name, name in NUMPY_TO_NAME.items()}
NAME_TO_TORCH = {name: torch_name for torch_name, name in TORCH_TO_NAME.items()}

_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C32": 32, "C64": 64, "C128": 128,
    "BITS16": 16, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
}  # fmt: skip


def bits_of(name: str) -> int:
    """Of one element."""
    return _BITS.get(name, 8)


def describe(dtype: str, shape) -> str:
    """F32[3,4]; F32[] for a scalar."""
    return f"{dtype}[{','.join(map(str, shape))}]"


_FLOATS = {"F16", "BF16", "F32", "F64", "F8_E5M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}
_INTEGERS = {"U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"}
_COMPLEX = {"C64", "C128"}


def can_cast(saved: str, live: str) -> bool:
    """True where values of one dtype can become values of another one without changing their sort."""
    if saved == live:
        return False
    sorts = ((_FLOATS, _FLOATS), (_INTEGERS, _INTEGERS), (_COMPLEX, _COMPLEX), (_FLOATS, _COMPLEX))
    return any(saved in a and live in b for a, b in sorts)
