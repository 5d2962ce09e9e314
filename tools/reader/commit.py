"""Manifest and receipt: docs/format/commit.md."""

from __future__ import annotations

from .journal import Checkpoint
from .text import (
    MIB64,
    Damage,
    Save,
    canonical,
    check_version,
    depth_of,
    hexes,
    member,
    metric,
    number,
    open_sealed,
)


METRICS = 256


def read_manifest(data: bytes, checkpoint: Checkpoint):
    """(manifest, receipts as dicts)."""
    if len(data) != checkpoint.manifest_bytes:
        raise Damage(f"manifest: {len(data)} bytes, COMMIT says {checkpoint.manifest_bytes}")
    value, digest = open_sealed(data, MIB64, 20)
    if digest != checkpoint.manifest:
        raise Damage("manifest: not the one that COMMIT names")
    return decode_manifest(value, checkpoint.save)


def decode_manifest(value, expected: Save | None = None):
    check_version(value)
    save = Save.of_name(value.get("save"))
    if expected is not None and save != expected:
        raise Damage("manifest: of another save")
    shared = {"save": save, "open": _open(value), "resume": _resume(value)}
    rows = member(value, "receipts", list)
    if not rows or number(value, "world", 2**32 - 1) == 0:
        raise Damage("manifest: no receipt or no rank")
    for name, kind in (("provenance", dict), ("details", dict), ("metrics", dict), ("health", str)):
        member(value, name, kind)
    if value["health"] not in ("ok", "non-finite"):
        raise Damage("manifest: health")
    for texts in (value["provenance"], value["metrics"]):
        if len(texts) > METRICS or any(len(name.encode()) > 256 for name in texts):
            raise Damage("manifest: too many entries, or too long")
    if not all(isinstance(text, str) and len(text.encode()) <= 16384 for text in value["provenance"].values()):
        raise Damage("manifest: provenance is not text")
    if len(canonical(value["details"]).encode()) > 65536 or depth_of(value["details"]) > 16:
        raise Damage("manifest: details are too large")
    value["metrics"] = {name: metric(number_) for name, number_ in value["metrics"].items()}
    return value, [_row(row, writer, shared) for writer, row in enumerate(rows)]


def _open(value):
    where = member(value, "open", dict)
    return {"slot": number(where, "slot"), "sha256": hexes(where.get("sha256"), 64)}


def _resume(value):
    if "resume" not in value:
        raise Damage('"resume" is missing')
    return None if value["resume"] is None else Save.of_name(value["resume"])


def _row(row, writer: int, shared):
    if not isinstance(row, list) or len(row) != 7:
        raise Damage("manifest: a receipt is not a row of 7")
    sizes = dict(zip(("shard", "index", "sums"), (row[2], row[3], row[5])))
    return {
        **shared,
        "writer": writer,
        "nonce": hexes(row[0], 16),
        "life": hexes(row[1], 16),
        "shard_bytes": number(sizes, "shard", 2**63 - 1),
        "index": {"bytes": number(sizes, "index", 2**63 - 1), "xxh128": hexes(row[4], 32)},
        "sums": {"bytes": number(sizes, "sums", 2**63 - 1), "xxh128": hexes(row[6], 32)},
    }


def read_receipt(data: bytes):
    value, _ = open_sealed(data, 512, 4)
    check_version(value, has_critical=False)
    out = {"save": Save.of_name(value.get("save")), "open": _open(value), "resume": _resume(value)}
    out["writer"] = number(value, "writer", 2**32 - 1)
    out["nonce"], out["life"] = hexes(value.get("nonce"), 16), hexes(value.get("life"), 16)
    out["shard_bytes"] = number(value, "shard_bytes", 2**63 - 1)
    for name in ("index", "sums"):
        content = member(value, name, dict)
        out[name] = {"bytes": number(content, "bytes", 2**63 - 1), "xxh128": hexes(content.get("xxh128"), 32)}
    return out
