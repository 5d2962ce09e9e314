#!/usr/bin/env python3
"""Writes tests/hostile/pickle and tests/hostile/torch_zip: foreign files that try something, with their stories.

Files of `pickle` are bare pickles, those of `torch_zip` are files of torch.save, new and old. `ok-*` must be read;
anything else is refused as damage, and nothing of it may run: what these name would make the file RAN. Nothing here
is ever unpickled. Needs only the standard library; a file stays for ever.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "tests/hostile"
RAN = b"touch RAN"


# -- Opcodes


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    return (
        b"J" + struct.pack("<i", value)
        if -(2**31) <= value < 2**31
        else b"\x8a\x09" + value.to_bytes(9, "little", signed=True)
    )


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def dict_of(**items: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return named(module, name) + tuple_of(*arguments) + b"R"


def pickled(value: bytes, protocol: int = 2) -> bytes:
    return bytes([0x80, protocol]) + value + b"."


def storage(kind: str = "FloatStorage", key: str = "0", count: int = 4) -> bytes:
    return tuple_of(text("storage"), named("torch", kind), text(key), text("cpu"), number(count)) + b"Q"


def tensor(
    shape=(4,), strides=(1,), offset=0, store: bytes | None = None, hooks: bytes | None = None, more: tuple = ()
) -> bytes:
    hooks = hooks if hooks is not None else call("collections", "OrderedDict")
    return call(
        "torch._utils",
        "_rebuild_tensor_v2",
        store or storage(),
        number(offset),
        tuple_of(*map(number, shape)),
        tuple_of(*map(number, strides)),
        b"\x89",
        hooks,
        *more,
    )


# -- Archives


def zipped(
    pickle: bytes, records: dict[str, bytes] | None = None, *, top="archive", bend=None, tail=b"", raw=()
) -> bytes:
    """A zip of stored records. `bend(entry)` changes the directory's entry of a record; `raw` adds (name, data)."""
    records = {
        "data.pkl": pickle,
        "byteorder": b"little",
        **(records if records is not None else {"data/0": bytes(16)}),
    }
    named_records = [(f"{top}/{name}", data) for name, data in records.items()] + list(raw)
    body, directory = b"", b""
    for name, data in named_records:
        entry = {
            "name": name.encode(),
            "crc": zlib.crc32(data),
            "size": len(data),
            "packed": len(data),
            "method": 0,
            "flags": 0x800,
            "offset": len(body),
            "extra": b"",
            "local": {},
        }
        if bend:
            bend(entry)
        local = {**entry, **entry["local"]}
        body += (
            struct.pack(
                "<4s5H3I2H",
                b"PK\3\4",
                0,
                local["flags"],
                local["method"],
                0,
                0,
                local["crc"],
                local["packed"],
                local["size"],
                len(local["name"]),
                0,
            )
            + local["name"]
            + data
        )
        directory += (
            struct.pack(
                "<4s6H3I5H2I",
                b"PK\1\2",
                0,
                0,
                entry["flags"],
                entry["method"],
                0,
                0,
                entry["crc"],
                entry["packed"],
                entry["size"],
                len(entry["name"]),
                len(entry["extra"]),
                0,
                0,
                0,
                0,
                entry["offset"],
            )
            + entry["name"]
            + entry["extra"]
        )
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(named_records), len(named_records), len(directory), len(body), 0)
    return body + directory + end + tail


def bent(name: str, **changes):
    """A bend that changes one record."""

    def bend(entry):
        if entry["name"].endswith(name.encode()):
            entry.update(changes)

    return bend


def legacy(
    value: bytes, *, magic=119547037146038801333356, little=b"\x88", keys=(b"0",), count=4, data=bytes(16)
) -> bytes:
    raw = magic.to_bytes(10, "little")
    return (
        pickled(b"\x8a\x0a" + raw)
        + pickled(number(1001))
        + pickled(dict_of(protocol_version=number(1001), little_endian=little))
        + pickled(value)
        + pickled(b"](" + b"".join(text(key.decode()) for key in keys) + b"e")
        + struct.pack("<q", count)
        + data
    )


TENSOR = dict_of(w=tensor())
SYSTEM = named("os", "system") + tuple_of(text(RAN.decode())) + b"R"


def nested(depth: int) -> bytes:
    return b"]" * depth + b"a" * (depth - 1)


def laughs(levels: int) -> bytes:
    """Each list holds the one before ten times: ten to the power of `levels` values in a few bytes."""
    out = b"]q\0"
    for level in range(levels):
        out += b"](" + b"h" + bytes([level]) + (b"h" + bytes([level])) * 9 + b"e" + b"q" + bytes([level + 1])
    return out


def pickles():
    """name -> (bytes, story), of bare pickles."""
    yield (
        "ok-plain",
        pickled(dict_of(step=number(7), rate=b"G" + struct.pack(">d", 0.5), done=b"\x88", none=b"N")),
        "what the others are bent from",
    )
    yield (
        "ok-containers",
        pickled(
            dict_of(
                counter=call("collections", "Counter", b"}(" + text("a") + number(2) + b"u"),
                deque=call("collections", "deque", b")", number(3)),
                set=call("__builtin__", "set", b"](" + number(1) + b"e"),
                raw=call("_codecs", "encode", text("a\u00ff"), text("latin1")),
                size=call("torch", "Size", tuple_of(number(2))),
                complex=call("__builtin__", "complex", b"G" + struct.pack(">d", 1), b"G" + struct.pack(">d", 2)),
            )
        ),
        "one of each container",
    )
    yield "os-system", pickled(SYSTEM), "runs a command when it is loaded"
    yield (
        "posix-system",
        pickled(named("posix", "system") + tuple_of(text(RAN.decode())) + b"R"),
        "the same by its other name",
    )
    yield "eval", pickled(call("builtins", "eval", text("__import__('os').system('touch RAN')"))), "evaluates"
    yield (
        "exec-2",
        pickled(call("__builtin__", "exec", text("import os; os.system('touch RAN')"))),
        "the same by the name that Python 2 has",
    )
    yield (
        "getattr",
        pickled(call("builtins", "getattr", named("builtins", "dict"), text("mro"))),
        "walks from an allowed class to any other",
    )
    yield "import-module", pickled(call("importlib", "import_module", text("antigravity"))), "importing runs code"
    yield "torch-load", pickled(call("torch", "load", text("other.pt"))), "a second file, read without rules"
    yield "torch-hub", pickled(call("torch.hub", "load", text("a/b"), text("c"))), "code from the network"
    yield (
        "dotted-name",
        pickled(text("collections") + text("OrderedDict.__init__.__globals__") + b"\x93"),
        "an attribute of an allowed name",
    )
    yield (
        "stack-global",
        pickled(text("os") + text("system") + b"\x93" + tuple_of(text(RAN.decode())) + b"R", 4),
        "the name comes from the stack",
    )
    yield "stack-global-number", pickled(number(1) + text("system") + b"\x93", 4), "a module that is a number"
    yield "inst", b"\x80\x02(" + text(RAN.decode()) + b"ios\nsystem\n.", "names and calls in one opcode"
    yield "obj", pickled(b"(" + named("os", "system") + text(RAN.decode()) + b"o"), "calls what is on the stack"
    yield (
        "newobj",
        pickled(named("subprocess", "Popen") + tuple_of(text(RAN.decode())) + b"\x81"),
        "a constructor that starts a program",
    )
    yield (
        "newobj-ex",
        pickled(named("collections", "OrderedDict") + b")}\x92", 4),
        "keyword arguments for a constructor",
    )
    yield "extension", pickled(b"\x82\x01"), "a name by its number in a registry"
    yield "persistent-text", b"\x80\x02P0\n.", "a storage by a text"
    yield "buffer", pickled(b"\x97", 5), "bytes from elsewhere"
    yield (
        "build-dict",
        pickled(dict_of(a=number(1)) + dict_of(__class__=number(1)) + b"b"),
        "gives a plain dict attributes",
    )
    yield (
        "build-attribute",
        pickled(call("collections", "OrderedDict") + dict_of(__reduce__=number(1)) + b"b"),
        "hides a method in an attribute",
    )
    yield (
        "build-class",
        pickled(named("collections", "OrderedDict") + dict_of(__setitem__=number(1)) + b"b"),
        "changes a class for everybody",
    )
    yield (
        "ok-factory",
        pickled(call("collections", "defaultdict", named("collections", "OrderedDict"))),
        "a factory is code that runs later: it is left out, which is said",
    )
    yield (
        "ok-factory-list",
        pickled(call("collections", "defaultdict", named("__builtin__", "list"))),
        "the same, harmless: and yet code",
    )
    yield (
        "hooks",
        pickled(dict_of(w=tensor(hooks=call("collections", "OrderedDict", b"](](" + number(1) + number(2) + b"ee")))),
        "hooks of a tensor are called",
    )
    yield "call-a-value", pickled(text("x") + tuple_of() + b"R"), "calls a text"
    yield "reduce-no-tuple", pickled(named("collections", "OrderedDict") + number(1) + b"R"), "arguments that are none"
    yield (
        "huge-tuple",
        pickled(call("torch", "Size", b"(" + number(1) * 5000 + b"t" + b"0N")),
        "an argument that is thrown away",
    )
    yield "huge-shape", pickled(dict_of(w=tensor(shape=(1,) * 5000, strides=(1,) * 5000))), "five thousand axes"
    yield (
        "conjugated",
        pickled(dict_of(w=tensor(more=(b"}(" + text("conj") + b"\x88u",)))),
        "other values than the bytes say",
    )
    yield "memo-missing", pickled(b"h\x05"), "a value that was never made"
    yield (
        "memo-huge-index",
        pickled(b"Nr\xff\xff\xff\xff" + b"j\xfe\xff\xff\xff"),
        "an index that a table would be made for",
    )
    yield "laughs", pickled(laughs(20)), "10^20 values in 500 bytes"
    yield "itself", pickled(b"]q\0h\0a"), "a list that holds itself"
    yield "itself-in-a-dict", pickled(b"}q\0" + text("a") + b"h\0s"), "a dict that holds itself"
    yield "deep", pickled(nested(5000)), "nested so deep that a recursive reader runs out of stack"
    yield "deep-tuples", pickled(b")" + b"\x85" * 20000), "the same, made from the inside out"
    yield "marks", pickled(b"(" * 20000), "marks without end"
    yield (
        "copies",
        pickled(b"}q\0(" + b"K\1K\2" * 500 + b"u0" + (named("collections", "Counter") + b"h\0\x85R0") * 500 + b"h\0"),
        "copies one dict five hundred times",
    )
    yield "long-string", b"\x80\x02X\xff\xff\xff\x7fshort.", "says that a text has 2 GiB"
    yield "long-bytes", b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"x.", "a length that wraps"
    yield "long-frame", b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.", "a frame longer than the file"
    yield "long-integer", b"\x80\x02\x8b\xff\xff\xff\x7f\x01.", "an integer of 2 GiB"
    yield "negative-integer-length", b"\x80\x02\x8b\xff\xff\xff\xff\x01.", "a length below zero"
    yield (
        "wide-integer",
        pickled(b"\x8b" + struct.pack("<I", 4000) + b"\x01" * 4000),
        "an integer that takes long to print",
    )
    yield "long-name", b"\x80\x02c" + b"a" * 70000 + b"\nb\n.", "a module whose name does not end"
    yield "empty-stack", pickled(b"0"), "takes what is not there"
    yield "below-the-mark", pickled(b"N(\x85"), "takes what lies below a mark"
    yield "dropped-name", pickled(named("os", "system") + b"0N"), "says a name and drops it"
    yield "dropped-call", pickled(SYSTEM + b"0N"), "calls it and drops what comes back"
    yield "two-values", pickled(b"NN"), "ends with two values"
    yield "no-end", b"\x80\x02N", "no STOP"
    yield "odd-items", pickled(b"}(" + text("a") + b"u"), "a key without a value"
    yield "items-of-a-text", pickled(text("a") + b"(" + number(1) + b"e"), "appends to a text"
    yield "unhashable-key", pickled(b"}" + b"]" + number(1) + b"s"), "a list as a key"
    yield "tensor-as-key", pickled(b"}" + tensor() + number(1) + b"s"), "a tensor as a key"
    yield "key-twice", pickled(b"}(" + text("a") + number(1) + text("a") + number(2) + b"u"), "which one counts?"
    yield (
        "not-latin-1",
        pickled(dict_of(b=call("_codecs", "encode", text("\u20ac"), text("latin1")))),
        "a byte above 255",
    )
    yield (
        "encode-rot13",
        pickled(dict_of(b=call("_codecs", "encode", text("a"), text("rot13")))),
        "an encoding by name loads a module",
    )
    yield "not-utf8", b"\x80\x02X\x02\0\0\0\xff\xfe.", "a text that is none"
    yield "protocol-0", b"cos\nsystem\n(S'touch RAN'\ntR.", "the protocol of texts"
    yield "protocol-9", pickled(b"N", 9), "a protocol that nobody knows"
    yield "array-short", pickled(dict_of(a=array(b"1234"))), "fewer bytes than the shape says"
    yield "array-of-objects", pickled(dict_of(a=array(b"12345678", code="O8"))), "an array of pointers"
    yield "array-big-endian", pickled(dict_of(a=array(b"12345678", order=">"))), "bytes the other way round"
    yield (
        "array-unfinished",
        pickled(
            dict_of(
                a=call(
                    "numpy.core.multiarray", "_reconstruct", named("numpy", "ndarray"), tuple_of(number(0)), text("b")
                )
            )
        ),
        "an array that never got its content",
    )
    yield (
        "array-subclass",
        pickled(
            dict_of(
                a=call("numpy.core.multiarray", "_reconstruct", named("numpy", "dtype"), tuple_of(number(0)), text("b"))
            )
        ),
        "an array of another class",
    )
    yield (
        "scalar-short",
        pickled(
            dict_of(
                a=call(
                    "numpy.core.multiarray",
                    "scalar",
                    dtype_of("f8", "<"),
                    call("_codecs", "encode", text("1"), text("latin1")),
                )
            )
        ),
        "one byte of eight",
    )
    yield "a-storage", pickled(dict_of(s=storage())), "a storage is a part of a tensor and no value"
    yield "a-name", pickled(dict_of(s=named("collections", "OrderedDict"))), "a class is no value"


def dtype_of(code: str, order: str) -> bytes:
    state = tuple_of(number(3), text(order), b"N", b"N", b"N", number(-1), number(-1), number(0))
    return call("numpy", "dtype", text(code), b"\x89", b"\x88") + state + b"b"


def array(data: bytes, code="f8", order="<", shape=(1,)) -> bytes:
    made = call("numpy.core.multiarray", "_reconstruct", named("numpy", "ndarray"), tuple_of(number(0)), text("b"))
    raw = call("_codecs", "encode", text(data.decode()), text("latin1"))
    return made + tuple_of(number(1), tuple_of(*map(number, shape)), dtype_of(code, order), b"\x89", raw) + b"b"


def archives():
    """name -> (bytes, story), of whole files."""
    good = pickled(TENSOR)
    yield "ok-tensor", zipped(good), "what the others are bent from"
    yield "ok-legacy", legacy(TENSOR), "the form before 1.6"
    yield "ok-array", zipped(pickled(dict_of(a=array(b"12345678"))), {}), "a NumPy array inside the pickle"
    yield (
        "os-system",
        zipped(
            pickled(dict_of(w=tensor(), x=SYSTEM)),
        ),
        "a tensor, and a command behind it",
    )
    yield "legacy-os-system", legacy(dict_of(w=tensor(), x=SYSTEM)), "the same in the old form"
    yield "legacy-first-pickle", pickled(SYSTEM) + legacy(TENSOR), "before anybody looks at the magic number"
    yield "legacy-keys", legacy(TENSOR)[: -24 - len(b"](" + text("0") + b"e.")] + SYSTEM + b".", "in the list of keys"
    yield "legacy-big-endian", legacy(TENSOR, little=b"\x89"), "bytes the other way round"
    yield "legacy-count", legacy(TENSOR, count=2**40), "a storage beyond the file"
    yield "legacy-negative", legacy(TENSOR, count=-1), "a storage below nothing"
    yield (
        "legacy-key-twice",
        legacy(TENSOR, keys=(b"0", b"0"), data=bytes(16) + struct.pack("<q", 4) + bytes(16)),
        "which one counts?",
    )
    yield "legacy-behind", legacy(TENSOR) + b"x", "bytes that belong to nobody"
    yield "offset-beyond", zipped(pickled(dict_of(w=tensor(offset=1)))), "reads one element past its storage"
    yield "offset-negative", zipped(pickled(dict_of(w=tensor(offset=-1)))), "reads before its storage"
    yield "offset-wraps", zipped(pickled(dict_of(w=tensor(offset=2**62)))), "wraps when it is multiplied by four"
    yield "shape-beyond", zipped(pickled(dict_of(w=tensor(shape=(5,))))), "one element too many"
    yield "shape-wraps", zipped(pickled(dict_of(w=tensor(shape=(2**33, 2**33), strides=(2**33, 1))))), "2^66 elements"
    yield "shape-negative", zipped(pickled(dict_of(w=tensor(shape=(-1,))))), "fewer than no elements"
    yield (
        "stride-zero",
        zipped(pickled(dict_of(w=tensor(shape=(2**40,), strides=(0,))))),
        "a terabyte out of four bytes",
    )
    yield "stride-negative", zipped(pickled(dict_of(w=tensor(strides=(-1,), offset=3)))), "reads backwards"
    yield (
        "ok-stride-overlap",
        zipped(pickled(dict_of(w=tensor(shape=(2, 2), strides=(1, 1))))),
        "elements that share their place: each is read for itself",
    )
    yield (
        "stride-wraps",
        zipped(pickled(dict_of(w=tensor(shape=(2, 2), strides=(2**62, 1))))),
        "wraps to a place inside",
    )
    yield "strides-missing", zipped(pickled(dict_of(w=tensor(shape=(2, 2), strides=(1,))))), "fewer strides than axes"
    yield "storage-short", zipped(good, {"data/0": bytes(15)}), "a byte less than the pickle says"
    yield "storage-long", zipped(good, {"data/0": bytes(17)}), "a byte more"
    yield "storage-missing", zipped(good, {}), "no storage"
    yield (
        "storage-elsewhere",
        zipped(pickled(dict_of(w=tensor(store=storage(key="../../../etc/passwd"))))),
        "a key that is a path",
    )
    yield "storage-count-wraps", zipped(pickled(dict_of(w=tensor(store=storage(count=2**62))))), "a size that wraps"
    yield (
        "storage-other-class",
        zipped(
            pickled(
                dict_of(
                    w=tensor(
                        store=tuple_of(
                            text("storage"), named("collections", "OrderedDict"), text("0"), text("cpu"), number(4)
                        )
                        + b"Q"
                    )
                )
            )
        ),
        "a storage of no type",
    )
    yield (
        "module",
        zipped(
            pickled(tuple_of(text("module"), named("collections", "OrderedDict"), text("a.py"), text("code")) + b"Q")
        ),
        "source code by its persistent id",
    )
    yield (
        "crc",
        zipped(good, bend=bent("data/0", crc=1, local={"crc": 1})),
        "bytes that are not those that were written",
    )
    yield "crc-pickle", zipped(good, bend=bent("data.pkl", crc=1, local={"crc": 1})), "the same for the pickle"
    yield "byteorder-big", zipped(good, {"byteorder": b"big", "data/0": bytes(16)}), "bytes the other way round"
    yield "slip-up", zipped(good, raw=[("archive/../../RAN", b"x")]), "a name that leaves the archive"
    yield "slip-root", zipped(good, raw=[("/tmp/RAN", b"x")]), "a name from the root"
    yield "slip-backslash", zipped(good, raw=[("archive\\..\\RAN", b"x")]), "the same with the other slash"
    yield "slip-nul", zipped(good, raw=[("archive/a\0b", b"x")]), "ends early in C"
    yield "name-twice", zipped(good, raw=[("archive/data.pkl", pickled(SYSTEM))]), "first or last wins?"
    yield "two-files", zipped(good, raw=[("other/data.pkl", good)]), "which one is it?"
    yield "local-name", zipped(good, bend=bent("data/0", local={"name": b"archive/data/9"})), "two names for one record"
    yield "local-size", zipped(good, bend=bent("data/0", local={"size": 8, "packed": 8})), "two sizes for one record"
    yield "packed-size", zipped(good, bend=bent("data/0", packed=8)), "stored, and yet smaller"
    yield "compressed", zipped(good, bend=bent("data/0", method=8, local={"method": 8})), "may be a bomb"
    yield "encrypted", zipped(good, bend=bent("data/0", flags=0x801, local={"flags": 0x801})), "needs a password"
    yield "overlap", zipped(good, bend=bent("byteorder", offset=0, local={})), "two records in one place"
    yield "offset-outside", zipped(good, bend=bent("data/0", offset=2**31)), "lies behind the end"
    yield (
        "zip64-missing",
        zipped(good, bend=bent("data/0", size=0xFFFFFFFF, packed=0xFFFFFFFF)),
        "says that the size is elsewhere, where it is not",
    )
    yield (
        "zip64-huge",
        zipped(
            good,
            bend=bent("data/0", size=0xFFFFFFFF, packed=0xFFFFFFFF, extra=struct.pack("<HHQQ", 1, 16, 2**63, 2**63)),
        ),
        "8 EiB",
    )
    yield (
        "zip64-wraps",
        zipped(good, bend=bent("data/0", offset=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 2**64 - 30))),
        "an offset that wraps to the front",
    )
    yield (
        "zip64-twice",
        zipped(
            good, bend=bent("data/0", size=0xFFFFFFFF, packed=0xFFFFFFFF, extra=struct.pack("<HHQQ", 1, 16, 16, 16) * 2)
        ),
        "two sizes",
    )
    yield "extra-cut", zipped(good, bend=bent("data/0", extra=b"\1\0\xff\xff")), "an extra field beyond the entry"
    yield "behind", zipped(good, tail=b"x"), "bytes behind the end"
    yield "comment", zipped(good)[:-2] + b"\5\0hello", "another archive may hide in a comment"
    yield "behind-the-pickle", zipped(good + b"N."), "a second pickle behind the first"
    yield (
        "count-low",
        zipped(good)[:-14] + struct.pack("<HH", 1, 1) + zipped(good)[-10:],
        "a record that is not counted",
    )
    yield (
        "count-high",
        zipped(good)[:-14] + struct.pack("<HH", 60000, 60000) + zipped(good)[-10:],
        "records that are not there",
    )
    yield "empty-archive", b"PK\5\6" + bytes(18), "no record"
    yield "only-magic", b"PK\3\4", "four bytes"


def table() -> str:
    lines = [
        "# Foreign files that try something",
        "",
        *(__doc__ or "").splitlines()[2:5],
        "",
        "| file | what it tries |",
        "|---|---|",
    ]
    for folder, all_of_it in (("pickle", pickles()), ("torch_zip", archives())):
        lines += [f"| {folder}/{name} | {story} |" for name, _, story in all_of_it]
    return "\n".join(lines) + "\n"


def main() -> int:
    for folder, all_of_it in (("pickle", pickles()), ("torch_zip", archives())):
        (ROOT / folder).mkdir(parents=True, exist_ok=True)
        for name, data, _ in all_of_it:
            (ROOT / folder / name).write_bytes(data)
    (ROOT / "PICKLES.md").write_text(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
