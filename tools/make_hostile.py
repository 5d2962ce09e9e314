#!/usr/bin/env python3
"""Writes tests/hostile: one malformed file for each attack, and README.md with its story.

    make_hostile.py [--replace]

A file that exists with other bytes is never overwritten (change its name), but with --replace before a format is
released. Names say what a reader must answer: `ok-*` is
read, `newer-*` is refused as written by a newer version, anything else is damage.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
import sys
from pathlib import Path

from hostile.bodies import RECORD_SAVE, record_bodies
from hostile.folds import malformed

ROOT = Path(__file__).resolve().parent.parent
HOSTILE = ROOT / "tests/hostile"
SAMPLE = ROOT / "tests/golden/v1/sample"


def line_of(value) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sealed(line) -> bytes:
    line = line if isinstance(line, bytes) else line_of(line)
    return line + b"\nsha256:" + hashlib.sha256(line).hexdigest().encode() + b"\n"


def shard(text, data: int = 4, length: int | None = None) -> bytes:
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + b"d" * data


def entry(name="a", dtype='"U8"', shape="[4]", ends="[0,4]", more="") -> str:
    return f'"{name}":{{"dtype":{dtype},"shape":{shape},"data_offsets":{ends}{more}}}'


def shards():
    yield "ok-one-tensor", shard("{" + entry() + "}"), "what the others are bent from"
    yield "ok-empty", shard("{}", 0), "no tensor, no data"
    yield "ok-padded", shard("{" + entry() + "}     "), "spaces at the end are allowed"
    data = shard("{" + entry() + "," + entry("e", '"F64"', "[0,9]", "[4,4]") + "}")
    yield "ok-empty-between", data, "a tensor without bytes"
    yield "ok-sub-byte", shard("{" + entry("a", '"F4"', "[2,4]") + "}"), "8 elements of 4 bits"
    yield "short", b"\x02\0\0", "a file cut inside the length: a reader that loads 8 bytes reads past the end"
    yield "length-huge", shard("{}", 0, 2**64 - 1), "length + 8 wraps to 7: passes a naive bounds check"
    yield "length-cap", shard("{}", 0, 100_000_001), "one byte over the cap: reserves 100 MB for a file of 10 bytes"
    yield "length-beyond-file", shard("{}", 0, 3), "the header runs past the end of the file"
    yield "not-an-object", shard("[]", 0), "a header of another kind"
    yield "leading-space", shard(" {}", 0), "two files, one meaning: parsers differ on white space in front"
    yield "byte-order-mark", shard(b"\xef\xbb\xbf{}", 0), "parsers differ on it"
    yield "two-objects", shard("{}{}", 0), "a polyglot: the second object is what another reader sees"
    yield "not-utf8", shard(b'{"\xff":1}', 0), "a name that cannot be shown"
    yield "deep", shard('{"a":' + "[" * 20000), "nesting: a recursive parser runs out of stack"
    data = shard("{" + entry("a", ends="[0,4]") + "," + entry("a", ends="[0,4]") + "}")
    yield "twice", data, "a name twice: first or last wins?"
    data = shard('{"a":' + entry()[4:] + ',"\\u0061":' + entry()[4:] + "}")
    yield "twice-escaped", data, "a name twice, spelt differently"
    yield "dtype-twice", shard("{" + entry(more=',"dtype":"I8"') + "}"), "one entry, two types"
    yield "unknown-dtype", shard("{" + entry(dtype='"U9"') + "}"), "a reader that guesses loads noise"
    data = shard("{" + entry(dtype='"C128"', shape="[]", ends="[0,16]") + "}", 16)
    yield "logical-dtype", data, "a type that only an index may name"
    yield "missing-shape", shard('{"a":{"dtype":"U8","data_offsets":[0,4]}}'), "a member is missing"
    yield "extra-member", shard("{" + entry(more=',"strides":[1]') + "}"), "a meaning that another reader would add"
    yield "float-axis", shard("{" + entry(shape="[4.0]") + "}"), "4.0 is 4 for some parsers"
    yield "negative-axis", shard("{" + entry(shape="[-4]") + "}"), "becomes 2^64-4 when cast"
    yield "axis-over-64-bits", shard("{" + entry(shape="[18446744073709551620]") + "}"), "2^64+4 wraps to 4"
    data = shard("{" + entry(shape="[4294967296,4294967296,0]", ends="[0,0]") + "}", 0)
    yield "product-wraps", data, "2^64 wraps to 0 before the 0 comes"
    data = shard("{" + entry(dtype='"U64"', shape="[288230376151711744]", ends="[0,0]") + "}", 0)
    yield "bits-wrap", data, "elements fit 64 bits, their bits do not"
    data = shard("{" + entry(shape="[" + "1," * 16 + "4]") + "}")
    yield "rank-17", data, "more axes than NumPy or a fixed array holds"
    yield "size-short", shard("{" + entry(shape="[5]") + "}"), "reads one byte past its range"
    yield "half-byte", shard("{" + entry(dtype='"F4"', shape="[7]") + "}"), "ends inside a byte"
    yield "ends-before-begin", shard("{" + entry(ends="[4,0]") + "}"), "length wraps"
    yield "three-offsets", shard("{" + entry(ends="[0,4,4]") + "}"), "which one is the end?"
    data = shard("{" + entry(shape="[3]", ends="[0,3]") + "," + entry("b", shape="[3]", ends="[1,4]") + "}")
    yield "overlap", data, "two tensors share bytes: writing one changes the other"
    data = shard("{" + entry(shape="[1]", ends="[0,1]") + "," + entry("b", shape="[1]", ends="[3,4]") + "}")
    yield "hole", data, "bytes that belong to nobody: room for another file"
    yield "hole-in-front", shard("{" + entry(shape="[3]", ends="[1,4]") + "}"), "the same in front"
    yield "trailing-data", shard("{" + entry() + "}", 5), "the same behind"
    data = shard("{" + entry(shape="[8]", ends="[0,8]") + "}")
    yield "ends-beyond-file", data, "reads past the end: SIGBUS under mmap"
    yield "empty-name", shard("{" + entry("") + "}"), "no name"
    yield "nul-in-name", shard("{" + entry("a\\u0000b") + "}"), "ends early in C"
    yield "escape-in-name", shard("{" + entry("\\u001b[2J") + "}"), "clears the terminal that lists it"
    yield "c1-in-name", shard("{" + entry("\\u009b2J") + "}"), "the same in one character"
    yield "long-name", shard("{" + entry("n" * 1025) + "}"), "one byte over the cap"
    yield "metadata-number", shard('{"__metadata__":{"a":1}}', 0), "not text"
    yield "metadata-twice", shard('{"__metadata__":{},"__metadata__":{"a":"b"}}', 0), "which one counts?"
    yield "metadata-key-twice", shard('{"__metadata__":{"a":"b","a":"c"}}', 0), "the same inside"
    yield "metadata-as-tensor", shard('{"__metadata__":' + entry()[4:] + "}"), "a tensor in disguise"


TREES = [
    ("ok-all-kinds", None, "one of each; what the others are bent from"),
    ("two-numbers", b"1.0", "1.0 beside 1: two spellings of nearly the same"),
    ("too-large-number", b"18446744073709551616", "becomes a double in most parsers and loses its last digits"),
    ("small-big-int", b'{"int":"5"}', "two spellings of 5: equal trees with different digests"),
    ("padded-big-int", b'{"int":"018446744073709551616"}', "zero in front"),
    ("upper-hex", b'{"float":"7FF8000000000000"}', "two spellings of one float"),
    ("short-float", b'{"float":"7ff8"}', "too few bits"),
    ("encodable-str16", b'{"str16":"6100"}', "a text that has a plain spelling"),
    ("odd-str16", b'{"str16":"610000"}', "half a code unit"),
    ("paired-str16", b'{"str16":"3dd800de"}', "a whole surrogate pair: has a plain spelling"),
    ("lone-surrogate", b'"\\ud800"', "not UTF-8: crashes whoever prints it"),
    ("object-by-name", b'{"object":"os.system"}', "asks a reader to find a function by name"),
    ("reduce", b'{"reduce":["builtins.eval",["1"]]}', "asks a reader to call it"),
    ("unknown-kind", b'{"items":[],"kind":"namedtuple"}', "a class outside of the closed list"),
    ("dict-as-kind", b'{"items":[],"kind":"dict"}', "two spellings of a dict"),
    ("extra-member", b'{"items":[],"kind":"set","maxlen":1}', "a bound where none may be"),
    ("deque-overfull", b'{"items":[1,2],"kind":"deque","maxlen":1}', "drops items when it is built"),
    ("key-twice", b'{"dict":[["a",1],["a",2]]}', "the second silently wins"),
    ("keys-equal-bool", b'{"dict":[[1,1],[true,2]]}', "1 and True are one key in Python"),
    ("keys-equal-float", b'{"dict":[[1,1],[{"float":"3ff0000000000000"},2]]}', "1 and 1.0 are one key"),
    ("keys-equal-zero", b'{"dict":[[0,1],[{"float":"8000000000000000"},2]]}', "0 and -0.0 are one key"),
    ("keys-equal-numpy", b'{"dict":[[1,1],[{"numpy":{"bits":"0100","dtype":"I16"}},2]]}', "1 and int16(1) are one key"),
    ("list-as-key", b'{"dict":[[[],1]]}', "unhashable"),
    ("tensor-as-key", b'{"dict":[[{"tensor":"t"},1]]}', "hashed by address: another key in the next life"),
    ("set-unsorted", b'{"items":[2,1],"kind":"set"}', "two spellings of a set"),
    ("set-twice", b'{"items":[1,true],"kind":"set"}', "shrinks when it is built"),
    ("size-of-text", b'{"items":["x"],"kind":"Size"}', "torch.Size takes integers only"),
    ("numpy-size", b'{"numpy":{"bits":"00","dtype":"F64"}}', "one byte of eight: seven are read from elsewhere"),
    ("numpy-bool-2", b'{"numpy":{"bits":"02","dtype":"BOOL"}}', "neither true nor false: undefined where it is used"),
    ("tensor-nul", b'{"tensor":"a\\u0000b"}', "not a name"),
    ("deep-list", b"[" * 65 + b"]" * 65, "one deeper than allowed"),
    ("deep-dict", b'{"dict":[["k",' * 65 + b"1" + b"]]}" * 65, "three JSON levels each"),
    ("bottomless", b"[" * 100000, "a recursive parser runs out of stack"),
]  # fmt: skip


def trees():
    sample = json.loads(next(SAMPLE.glob("data/*/shard-*.json")).read_bytes().split(b"\n")[0])
    for name, data, story in TREES:
        yield name, line_of(sample["tree"]) if data is None else data, story


def bent(good: dict, changes):
    """Sealed copies of `good`: ("a.0.b", value) sets a member, value ... removes it."""
    for name, path, value, story in changes:
        copy_ = copy.deepcopy(good)
        at = copy_
        *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
        for parent in parents:
            at = at[parent]
        if value is ...:
            del at[last]
        else:
            at[last] = value
        yield name, sealed(copy_), story


def broken_seals(good: bytes):
    line, _, seal = good.partition(b"\n")
    value = json.loads(line)
    yield "ok-sample", good, "what the others are bent from"
    yield "empty", b"", "a file whose data was lost with the power"
    yield "zeros", bytes(len(good)), "the same, with its length kept"
    yield "unsealed", line + b"\n", "the seal is cut off"
    yield "seal-cut", good[:-2], "the seal is cut short"
    yield "after-the-seal", good + b" ", "bytes that no digest covers"
    yield "bit-flipped", bytes([good[20] ^ 1]).join([good[:20], good[21:]]), "one bit"
    yield "upper-seal", line + b"\n" + seal.upper(), "two spellings of a seal"
    data = sealed(json.dumps(dict(reversed(value.items())), separators=(",", ":")).encode())
    yield "not-sorted", data, "sealed, but not canonical: two texts, one value"
    yield "spaced", sealed(json.dumps(value, sort_keys=True).encode()), "the same, by white space"
    yield "member-twice", sealed(line[:-1] + b',"zz":1,"zz":2}'), "the last one wins in most parsers"
    yield "not-an-object", sealed(b"[]"), "another kind of value"
    yield "deep", sealed(b'{"zz":' + b"[" * 4000 + b"]" * 4000 + b"}"), "nesting"
    yield "newer-format", sealed({**value, "format": 2}), "a later version is no damage: it must not be quarantined"
    yield "format-0", sealed({**value, "format": 0}), "no version"
    yield "ok-unknown-member", sealed({**value, "zz": 1}), "an addition that is not critical is ignored"


CRITICAL = [
    ("newer-feature", "critical", ["sharded"], "a feature that changes the meaning of the rest"),
    ("critical-number", "critical", [7], "not a list of names"),
    ("no-critical", "critical", ..., "a reader that takes this for an empty list misses features"),
]
INDEX = [
    ("writer-out-of-range", "writer", 1, "writer 1 of 1"),
    ("chunk-zero", "chunk_bytes", 0, "divides by zero"),
    ("chunk-odd", "chunk_bytes", 5000, "not a power of two"),
    ("chunk-huge", "chunk_bytes", 2**63, "one chunk: a buffer of 8 EiB"),
    ("file-huge", "file_bytes", 2**64 - 1, "sizes that wrap"),
    ("file-short", "file_bytes", 5000, "tensors beyond the end"),
    ("data-offset-0", "data_offset", 0, "tensors over the header"),
    ("hash-unknown", "hash", "MD5", "digests of another kind"),
    ("save-path", "save", "../../etc", "a path where a name belongs"),
    ("save-padded", "save", "01200.a3", "two spellings of a save"),
    ("nonce-path", "nonce", "../../../../x123", "16 characters, and a path"),
    ("tensor-row-short", "tensors.0", ["a"], "a row without its cells"),
    ("tensor-overlap", "tensors.1.3", 12288, "begins inside the one before"),
    ("tensor-wraps", "tensors.0.3", 2**64 - 8, "offset + bytes wraps"),
    ("tensor-size", "tensors.0.4", 10**15, "another size than its shape says"),
    ("tensor-shape-wraps", "tensors.0.2", [2**32, 2**32, 4], "a product that wraps"),
    ("tensor-dtype", "tensors.0.1", "object", "a dtype that holds pointers"),
    ("tensor-digest", "tensors.0.5", "00", "a digest cut short"),
    ("tensor-box", "tensors.0", None, "a box outside of its tensor"),
    ("alias-of-alias", "aliases.0", ["model.x", "model.tied"], "a chain, or a loop, of names"),
    ("alias-shadows", "aliases.0", ["model.bias", "model.weight"], "another tensor under a name that is taken"),
    ("tree-dangling", "tree", {"tensor": "nowhere"}, "a tensor without bytes"),
    ("tree-missing", "tree", ..., "no state at all"),
    ("tensors-object", "tensors", {}, "another kind of value"),
]  # fmt: skip


def indexes():
    good = next(SAMPLE.glob("data/*/shard-*.json")).read_bytes()
    value = json.loads(good.split(b"\n")[0])
    yield from broken_seals(good)
    name, dtype, shape, offset, size, digest = value["tensors"][0]
    box = [name, dtype, shape, offset, size, digest, [[0] * len(shape), [axis + 1 for axis in shape]]]
    yield from bent(value, [(n, p, box if n == "tensor-box" else v, s) for n, p, v, s in [*CRITICAL, *INDEX]])


def receipts():
    good = next(SAMPLE.glob("data/*/receipt-00000")).read_bytes()
    value = json.loads(good.split(b"\n")[0])
    for name, data, story in broken_seals(good):
        if len(data) <= 512 or name == "deep":
            yield name, data, story
    changes = [
        ("save-path", "save", "../x", "a path where a name belongs"),
        ("resume-missing", "resume", ..., "null and missing are not the same"),
        ("nonce-long", "nonce", "0" * 17, "17 digits"),
        ("open-sha-short", "open.sha256", "00", "an attempt that any OPEN fits"),
        ("negative-size", "shard_bytes", -1, "becomes 2^64-1 when cast"),
        ("huge-size", "index.bytes", 2**63, "reserves 8 EiB"),
        ("bool-as-number", "writer", True, "true is 1 for some parsers"),
        ("over-a-sector", "zz", "x" * 512, "more than one sector: may be half old, half new"),
    ]  # fmt: skip
    yield from bent(value, changes)


def manifests():
    good = next(SAMPLE.glob("data/*/manifest-*.json")).read_bytes()
    value = json.loads(good.split(b"\n")[0])
    yield from broken_seals(good)
    deep = {}
    for _ in range(16):
        deep = {"a": deep}
    row = value["receipts"][0]
    changes = [
        ("no-receipts", "receipts", [], "a checkpoint of nothing"),
        ("row-short", "receipts.0", row[:6], "a row without its last digest"),
        ("row-number-nonce", "receipts.0.0", 7, "a nonce that is no text"),
        ("row-size-text", "receipts.0.2", "4096", "a size that is text"),
        ("row-size-huge", "receipts.0.3", 2**63, "reserves 8 EiB"),
        ("world-0", "world", 0, "no rank"),
        ("health-unknown", "health", "fine", "neither ok nor non-finite"),
        ("metric-text", "metrics", {"loss": "low"}, "a metric that is no number"),
        ("metrics-many", "metrics", {str(i): i for i in range(257)}, "one over the cap"),
        ("provenance-number", "provenance", {"host": 1}, "not text"),
        ("provenance-long", "provenance", {"x" * 257: ""}, "a name over the cap"),
        ("details-deep", "details", deep, "17 levels"),
        ("details-large", "details", {"a": "x" * 65536}, "over 64 KiB"),
        ("details-list", "details", [], "another kind of value"),
        ("save-path", "save", "1200.a3/../..", "a path where a name belongs"),
    ]  # fmt: skip
    yield from bent(value, [*CRITICAL, *changes])


def record(kind: str, body, **members) -> dict:
    first = kind == "GENESIS"
    envelope = {"magic": "unbroken-record-1", "critical": kind not in ("LATER", "SUMMARY"), "at": 1_700_000_000_000}
    chain = {"slot": 0 if first else 7, "writer": "00000000000000aa", "previous": ("0" * 64 if first else "ab" * 32)}
    return {**envelope, **chain, "type": kind, "body": body, **members}


def twice(value) -> bytes:
    return 2 * sealed(value)


def records():
    save = RECORD_SAVE
    bodies = record_bodies()
    for kind, body in bodies.items():
        yield f"ok-{kind.lower()}", twice(record(kind, body)), "what the others are bent from"
    good = record("INTENT", bodies["INTENT"])
    whole = twice(good)
    flipped = bytes([whole[20] ^ 1]).join([whole[:20], whole[21:]])
    yield "ok-one-copy-flipped", flipped, "one bit stops nothing: the second copy counts"
    yield "ok-unknown-member", twice({**good, "zz": 1}), "an addition is ignored"
    yield "ok-time-negative", twice({**good, "at": -1}), "a clock before 1970 decides nothing"
    yield "empty", b"", "a slot whose data was lost with the power is occupied, not absent"
    yield "zeros", bytes(4096), "the same, with a length"
    yield "torn", whole[:100] + bytes(len(whole) - 100), "a first sector and zeros"
    yield "one-copy", sealed(good), "half a file: its end may have been cut"
    yield "three-copies", 3 * sealed(good), "which two?"
    other = record("INTENT", {"save": {**save, "step": 1300}})
    yield "two-facts", sealed(good) + sealed(other), "two whole copies that differ: which one is the record?"
    yield "large", twice(record("LATER", {"a": "x" * 33000})), "over 64 KiB"
    yield "deep", twice(b'{"a":' + b"[" * 4000 + b"]" * 4000 + b"}"), "nesting"
    data = twice(json.dumps(good, sort_keys=True).encode())
    yield "spaced", data, "sealed, but not canonical: two digests, one value"
    yield "magic", twice({**good, "magic": "something-else-1"}), "another program's file"
    yield "newer-magic", twice({**good, "magic": "unbroken-record-2"}), "a later version is no damage"
    yield "newer-record-type", twice(record("PROMOTED", {"save": save})), "critical: who skips it deletes what it protects"
    genesis = bodies["GENESIS"]
    yield "newer-format", twice(record("GENESIS", {"format": 2})), "nothing else of a later version need be known"
    yield "newer-feature", twice(record("GENESIS", {**genesis, "features": ["sharded"]})), "a flag that is not known"
    yield "slot-float", twice({**good, "slot": 7.0}), "7.0 is 7 for some parsers"
    yield "slot-negative", twice({**good, "slot": -7}), "becomes 2^64-7 when cast"
    yield "time-over-63-bits", twice({**good, "at": 2**63}), "wraps to a negative time"
    yield "previous-short", twice({**good, "previous": "ab"}), "a chain that anything fits"
    yield "attempt-0", twice(record("OPEN", {**bodies["OPEN"], "attempt": 0})), "attempts count from 1"
    yield "world-0", twice(record("OPEN", {**bodies["OPEN"], "world": 0})), "complete without any receipt"
    over = {**save, "attempt": 2**32 + 3}
    yield "attempt-over-32-bits", twice(record("INTENT", {"save": over})), "wraps to another attempt: condemns its save"
    yield "keep-0", twice(record("POLICY", {"keep_last": 0, "verified_min": 2})), "deletes every checkpoint"
    yield "verified-0", twice(record("POLICY", {"keep_last": 3, "verified_min": 0})), "deletes the last whole one"
    yield "metric-text", twice(record("COMMIT", {**bodies["COMMIT"], "metrics": {"loss": "low"}})), "no number"
    yield "save-name", twice(record("INTENT", {"save": "1200.a3"})), "a save spelt in another way"
    yield "ok-summary-later-form", twice(record("SUMMARY", {"form": 2})), "a cache of a later version stops nobody"
    yield "summary-no-form", twice(record("SUMMARY", {"fold": "ab" * 32})), "a fold of no known form"
    yield "summary-digest-short", twice(record("SUMMARY", {**bodies["SUMMARY"], "fold": "ab"})), "that any fold fits"


def main() -> int:
    table = []
    status = 0
    targets = {"shard": shards, "tree": trees, "index": indexes, "receipt": receipts, "manifest": manifests}
    targets |= {"record": records, "fold": lambda: malformed(record_bodies(), bent, broken_seals, sealed)}
    for target, files in targets.items():
        folder = HOSTILE / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data, story in files():
            path = folder / name
            if path.exists() and path.read_bytes() != data and "--replace" not in sys.argv:
                print(f"error: {path} has other bytes: give the new one another name", file=sys.stderr)
                status = 1
                continue
            path.write_bytes(data)
            table.append(f"| {target}/{name} | {story} |")
    (HOSTILE / "README.md").write_text(
        "# Malformed files\n\n"
        "The C++ reader (`hostile_test`) and the independent one (`tests/python/test_format.py`) refuse each, and the\n"
        "fuzzers start from them. `ok-*` must be read, `newer-*` is refused as written by a newer version, anything\n"
        "else is damage. Records and folds are read by the C++ reader alone. `tools/make_hostile.py` writes the files and this\n"
        "page. A file stays for ever.\n\n"
        "| file | what it tries |\n|---|---|\n" + "\n".join(table) + "\n"
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
