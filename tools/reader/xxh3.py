"""XXH3-128 with seed 0, in Python and NumPy: for the reader that shares no code with the product."""

from __future__ import annotations

import struct

import numpy as np

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MX1, _MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_64 = (1 << 64) - 1
_32 = (1 << 32) - 1


def _u64(data, at: int) -> int:
    return struct.unpack_from("<Q", data, at)[0]


def _u32(data, at: int) -> int:
    return struct.unpack_from("<I", data, at)[0]


def _swap(value: int, size: int) -> int:
    return int.from_bytes(value.to_bytes(size, "little"), "big")


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _64) ^ (product >> 64)


def _avalanche64(h: int) -> int:
    h = (h ^ h >> 33) * _P64[1] & _64
    h = (h ^ h >> 29) * _P64[2] & _64
    return h ^ h >> 32


def _avalanche3(h: int) -> int:
    h = (h ^ h >> 37) * _MX1 & _64
    return h ^ h >> 32


def _secret_xor(at: int) -> int:
    return _u64(_SECRET, at) ^ _u64(_SECRET, at + 8)


def _up_to_3(data: bytes) -> tuple[int, int]:
    n = len(data)
    low = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
    swapped = _swap(low, 4)
    high = (swapped << 13 | swapped >> 19) & _32
    return (
        _avalanche64(low ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4)),
        _avalanche64(high ^ _u32(_SECRET, 8) ^ _u32(_SECRET, 12)),
    )


def _up_to_8(data: bytes) -> tuple[int, int]:
    n = len(data)
    keyed = (_u32(data, 0) | _u32(data, n - 4) << 32) ^ _secret_xor(16)
    product = keyed * ((_P64[0] + (n << 2)) & _64)
    low, high = product & _64, product >> 64
    high = (high + (low << 1)) & _64
    low ^= high >> 3
    low = (low ^ low >> 35) * _MX2 & _64
    return low ^ low >> 28, _avalanche3(high)


def _up_to_16(data: bytes) -> tuple[int, int]:
    n = len(data)
    first, last = _u64(data, 0), _u64(data, n - 8)
    product = (first ^ last ^ _secret_xor(32)) * _P64[0]
    low, high = product & _64, product >> 64
    low = (low + ((n - 1) << 54)) & _64
    last ^= _secret_xor(48)
    high = (high + last + (last & _32) * (_P32[1] - 1)) & _64
    low ^= _swap(high, 8)
    product = low * _P64[1]
    return _avalanche3(product & _64), _avalanche3(((product >> 64) + high * _P64[1]) & _64)


def _mix16(data, at: int, secret: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret), _u64(data, at + 8) ^ _u64(_SECRET, secret + 8))


def _mix32(low: int, high: int, data, a: int, b: int, secret: int) -> tuple[int, int]:
    low = (low + _mix16(data, a, secret)) & _64 ^ (_u64(data, b) + _u64(data, b + 8)) & _64
    high = (high + _mix16(data, b, secret + 16)) & _64 ^ (_u64(data, a) + _u64(data, a + 8)) & _64
    return low, high


def _finish_middle(low: int, high: int, n: int) -> tuple[int, int]:
    total = (low * _P64[0] + high * _P64[3] + n * _P64[1]) & _64
    return _avalanche3((low + high) & _64), -_avalanche3(total) & _64


def _up_to_128(data: bytes) -> tuple[int, int]:
    n = len(data)
    low, high = n * _P64[0] & _64, 0
    for i in range((n - 1) // 32, -1, -1):
        low, high = _mix32(low, high, data, 16 * i, n - 16 * (i + 1), 32 * i)
    return _finish_middle(low, high, n)


def _up_to_240(data: bytes) -> tuple[int, int]:
    n = len(data)
    low, high = n * _P64[0] & _64, 0
    for i in range(n // 32):
        if i == 4:
            low, high = _avalanche3(low), _avalanche3(high)
        low, high = _mix32(low, high, data, 32 * i, 32 * i + 16, 32 * i if i < 4 else 3 + 32 * (i - 4))
    if n // 32 == 4:
        low, high = _avalanche3(low), _avalanche3(high)
    low, high = _mix32(low, high, data, n - 16, n - 32, 103)
    return _finish_middle(low, high, n)


def _stripes(data, begin: int, count: int, secret_step: int, secret: int = 0) -> np.ndarray:
    """What each of `count` stripes of 64 bytes adds to the eight lanes; the secret starts over after 16."""
    lanes = np.frombuffer(data, "<u8", count * 8, begin).reshape(count, 8)
    starts = [secret + secret_step * (i % 16) for i in range(min(count, 16))]
    keys = np.array([np.frombuffer(_SECRET, "<u8", 8, at) for at in starts])
    keyed = lanes ^ np.resize(keys, lanes.shape)
    product = (keyed & np.uint64(_32)) * (keyed >> np.uint64(32))
    return product + lanes[:, [1, 0, 3, 2, 5, 4, 7, 6]]


def _merge(lanes: list[int], secret: int, start: int) -> int:
    for i in range(4):
        at = secret + 16 * i
        start += _fold(lanes[2 * i] ^ _u64(_SECRET, at), lanes[2 * i + 1] ^ _u64(_SECRET, at + 8))
    return _avalanche3(start & _64)


def _long(data: bytes) -> tuple[int, int]:
    n = len(data)
    lanes = [_P32[2], _P64[0], _P64[1], _P64[2], _P64[3], _P32[1], _P64[4], _P32[0]]
    blocks = (n - 1) // 1024
    if blocks:
        per_block = _stripes(data, 0, blocks * 16, 8).reshape(blocks, 16, 8).sum(1, dtype=np.uint64).tolist()
        keys = [_u64(_SECRET, 128 + 8 * i) for i in range(8)]
        for added in per_block:
            for i in range(8):
                lane = (lanes[i] + added[i]) & _64
                lanes[i] = (lane ^ lane >> 47 ^ keys[i]) * _P32[0] & _64
    rest = (n - 1 - blocks * 1024) // 64
    added = _stripes(data, n - 64, 1, 0, 121).sum(0, dtype=np.uint64)
    if rest:
        added = added + _stripes(data, blocks * 1024, rest, 8).sum(0, dtype=np.uint64)
    lanes = [(lane + more) & _64 for lane, more in zip(lanes, added.tolist())]
    return _merge(lanes, 11, n * _P64[0] & _64), _merge(lanes, 117, ~(n * _P64[1]) & _64)


def xxh3_128(data) -> bytes:
    """The canonical 16 bytes."""
    data = bytes(data)
    n = len(data)
    if n == 0:
        low, high = _avalanche64(_secret_xor(64)), _avalanche64(_secret_xor(80))
    else:
        steps = ((3, _up_to_3), (8, _up_to_8), (16, _up_to_16), (128, _up_to_128), (240, _up_to_240))
        low, high = next((hash_ for limit, hash_ in steps if n <= limit), _long)(data)
    return struct.pack(">QQ", high, low)
