"""The tensors that are saved, and whether those that were loaded are the same."""

import collections

SHAPES = {"large": "300 tensors", "small": "tensors of 20 KiB", "one": "1 tensor"}
LARGE, SMALL_MAX = 300, 10_000
SMALL_BYTES = 20 << 10


def sizes(shape, mib):
    """Bytes of each tensor."""
    if shape == "small":
        return [SMALL_BYTES] * min(SMALL_MAX, (mib << 20) // SMALL_BYTES)
    count = LARGE if shape == "large" else int(shape)
    return [(mib << 20) // count // 4 * 4] * count


def tensors(nbytes):
    """Named float32 tensors of these sizes, each in memory of its own."""
    import torch

    torch.manual_seed(1)
    return {f"layer.{i:06}": torch.empty(n // 4).uniform_() for i, n in enumerate(nbytes)}


def change(state):
    """Another value in every element."""
    for tensor in state.values():
        tensor.add_(1)


def spoil(state):
    for tensor in state.values():
        tensor.zero_()


def leaves(value):
    """The arrays and tensors in nested containers."""
    if isinstance(value, dict):
        value = value.values()
    elif hasattr(value, "dtype"):
        return [value]
    elif not isinstance(value, (list, tuple)):
        return []
    return [leaf for item in value for leaf in leaves(item)]


def digests(value):
    """How often each content is there. Names are left out: every way to save has its own."""
    import numpy
    import xxhash

    def bits(leaf):
        array = leaf.detach().contiguous().numpy() if hasattr(leaf, "detach") else numpy.ascontiguousarray(leaf)
        return xxhash.xxh3_128_digest(memoryview(array.reshape(-1)).cast("B"))
    return collections.Counter(bits(leaf) for leaf in leaves(value))


def touch(value):
    """Reads a byte of every page, for loads that only map."""
    import torch

    for leaf in leaves(value):
        tensor = leaf if isinstance(leaf, torch.Tensor) else torch.from_numpy(leaf)
        tensor.reshape(-1).view(torch.uint8)[:: 4096].sum()
    return value
