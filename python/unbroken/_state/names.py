"""Names of tensors and of state: the attach name, then the path, joined by "."; two paths never have one name."""

from __future__ import annotations

import functools
import json
import re

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # may not stand in a name as it is
_INTEGER = re.compile(r"-?[0-9]+\Z")
_SPECIAL = re.compile(r"[.\\\x00-\x1f\x7f-\x9f]")
_SPECIAL_QUOTED = re.compile(r'[".\\\x00-\x1f\x7f-\x9f]')
NAME_BYTES_MAX = 1024


def _escape(key: str, pattern=_SPECIAL) -> str:
    return pattern.sub(lambda m: f"\\{m[0]}" if m[0] in '."\\' else f"\\x{ord(m[0]):02x}", key)


@functools.lru_cache(1 << 17)  # the same keys come with every save
def segment(key: str) -> str:
    """Of a text key. In double quotes where it would read as something else."""
    if not key or key[0] in '"(' or _INTEGER.match(key):
        return f'"{_escape(key, _SPECIAL_QUOTED)}"'
    return _escape(key)


def segment_of_node(node) -> str:
    """Of any key of a dict, as a node of the tree (tree.py)."""
    if isinstance(node, str):
        return segment(node)
    if isinstance(node, int) and not isinstance(node, bool):
        return str(node)
    if isinstance(node, dict) and "int" in node:
        return node["int"]
    return f"({_escape(canonical(node))})"


def join(prefix: str, part: str) -> str:
    return f"{prefix}.{part}" if prefix else part


def upwards(name: str):
    """A name, then what it lies in, up to the attach name."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def canonical(node) -> str:
    """Canonical JSON of a node."""
    return json.dumps(node, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
