#!/usr/bin/env python3
"""Reads a run, written from docs/format alone: it shares no code with the product, so the pages must be enough.

    format_reader.py DIR            list checkpoints
    format_reader.py DIR verify     check every byte of every checkpoint; exit 65 on damage
    format_reader.py DIR show NAME  tensors and state of one checkpoint, such as 1200.a3

It only reads. Needs NumPy.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reader.commit import read_manifest, read_receipt
from reader.journal import Checkpoint, Journal
from reader.shard import Index, array_of
from reader.state import read_tree
from reader.text import Damage, Newer, Save
from reader.xxh3 import xxh3_128


class Run:
    def __init__(self, root):
        self.root = Path(root)
        self.journal = Journal(self.root)

    def checkpoint(self, name: str) -> Checkpoint:
        return self.journal.checkpoints[Save.of_name(name)]

    def _get(self, key: str) -> bytes:
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            raise Damage("missing") from None

    def receipts(self, c: Checkpoint):
        return read_manifest(self._get(f"{c.save.folder}/manifest-{c.manifest[:16]}.json"), c)

    def verify(self, c: Checkpoint) -> list[tuple[str, int, str]]:
        """(object, offset, what) for everything that is wrong."""
        found = []

        def check(key, action, *args):
            try:
                return action(key, *args)
            except Damage as error:
                found.append((key, 0, str(error)))
                return None

        manifest_key = f"{c.save.folder}/manifest-{c.manifest[:16]}.json"
        manifest = check(manifest_key, lambda key: read_manifest(self._get(key), c))
        for receipt in manifest[1] if manifest else ():
            stem = f"{c.save.folder}/shard-{receipt['writer']:05}.{receipt['nonce']}"
            check(f"{c.save.folder}/receipt-{receipt['writer']:05}", self._check_receipt, receipt)
            index = check(f"{stem}.json", self._index, receipt)
            sums = check(f"{stem}.sums", self._content, receipt["sums"])
            shard = check(f"{stem}.safetensors", self._get)
            if index and sums is not None and shard is not None:
                found += self._check_shard(f"{stem}.safetensors", index, sums, shard)
        return found

    def _check_receipt(self, key: str, receipt):
        if read_receipt(self._get(key)) != receipt:
            raise Damage("says something else than the manifest")

    def _content(self, key: str, expected) -> bytes:
        data = self._get(key)
        if len(data) != expected["bytes"] or xxh3_128(data).hex() != expected["xxh128"]:
            raise Damage("length or XXH3-128 differs from what the receipt says")
        return data

    def _index(self, key: str, receipt) -> Index:
        index = Index(self._content(key, receipt["index"]))
        expected = (receipt["save"], receipt["nonce"], receipt["writer"], receipt["shard_bytes"])
        if (index.save, index.nonce, index.writer, index.file_bytes) != expected:
            raise Damage("the index of another save, writer or shard")
        return index

    @staticmethod
    def _check_shard(key: str, index: Index, sums: bytes, shard: bytes):
        if len(shard) != index.file_bytes or len(sums) != 16 * -(-index.file_bytes // index.chunk_bytes):
            return [(key, min(len(shard), index.file_bytes), "length of shard or sums")]
        found = []
        for i in range(len(sums) // 16):
            chunk = shard[i * index.chunk_bytes : (i + 1) * index.chunk_bytes]
            if xxh3_128(chunk) != sums[16 * i : 16 * i + 16]:
                found.append((key, i * index.chunk_bytes, "the chunk does not fit its sum"))
        if not found:
            try:
                index.check_header(shard)
            except Damage as error:
                found.append((key, 0, str(error)))
        return found

    def load(self, c: Checkpoint):
        """(state, {name: array}, {name: Tensor}) of a checkpoint of one writer, every tensor digest checked."""
        receipts = self.receipts(c)[1]
        if len(receipts) != 1:
            raise Newer("a checkpoint of several writers")
        stem = f"{c.save.folder}/shard-00000.{receipts[0]['nonce']}"
        index = self._index(f"{stem}.json", receipts[0])
        shard = self._get(f"{stem}.safetensors")
        arrays = {}
        for tensor in index.tensors.values():
            data = shard[tensor.offset : tensor.offset + tensor.bytes]
            if xxh3_128(data).hex() != tensor.digest:
                raise Damage(f"{tensor.name}: its digest differs")
            arrays[tensor.name] = array_of(tensor, data)
        for name, target in index.aliases.items():
            arrays[name] = arrays[target]
        return read_tree(index.tree, arrays.__getitem__), arrays, index.tensors


def main(arguments: list[str]) -> int:
    if not arguments or len(arguments) > 3:
        print(__doc__, file=sys.stderr)
        return 78
    try:
        run = Run(arguments[0])
    except (Damage, Newer, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 66
    if arguments[1:2] == ["show"]:
        state, _, tensors = run.load(run.checkpoint(arguments[2]))
        for tensor in tensors.values():
            print(f"{tensor.digest}  {tensor.name}  {tensor.dtype}{tensor.shape}")
        print(state)
        return 0
    status = 0
    for key, offset, what in run.journal.damaged_folds() if arguments[1:2] == ["verify"] else ():
        print(f"{key} at {offset}: {what}")
        status = 65
    for checkpoint in reversed(run.journal.checkpoints.values()):
        if checkpoint.is_condemned:
            continue
        notes = "quarantined" if checkpoint.quarantine else "verified" if checkpoint.verified else "committed"
        print(f"{checkpoint.save.name}  {notes}")
        for key, offset, what in run.verify(checkpoint) if arguments[1:2] == ["verify"] else ():
            print(f"  {key} at {offset}: {what}")
            status = 65
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
