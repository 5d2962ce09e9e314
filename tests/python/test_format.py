"""The reader that was written from docs/format alone: golden files, every malformed file, flipped bytes."""

import hashlib
import math
import shutil
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import format_reader  # noqa: E402
from reader import commit, dtypes, shard, state, text, xxh3  # noqa: E402

GOLDEN = sorted(path for path in (ROOT / "tests/golden").glob("v*/*") if path.is_dir())
SAMPLE = ROOT / "tests/golden/v1/sample"


@pytest.fixture
def run_dir(tmp_path):
    return Path(shutil.copytree(SAMPLE, tmp_path / "run"))


# ---------------------------------------------------------------- golden files


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_golden_runs_are_whole(path):
    run = format_reader.Run(path)
    kept = [checkpoint for checkpoint in run.journal.checkpoints.values() if not checkpoint.is_condemned]
    assert kept
    assert run.journal.damaged_folds() == []
    for checkpoint in kept:
        assert run.verify(checkpoint) == []


def test_sample_lists_as_it_was_meant():
    journal = format_reader.Run(SAMPLE).journal
    assert [c.save.name for c in journal.checkpoints.values()] == ["100.a1", "200.a1", "200.a2.t1"]
    assert [c.save.name for c in journal.loadable()] == ["200.a2.t1", "100.a1"]
    assert [c.save.name for c in journal.lineage()] == ["200.a2.t1", "100.a1"]
    assert journal.newest().save.name == "200.a2.t1"
    assert journal.newest().metrics == {"loss": 0.125}
    assert journal.newest().verified == {"run"}


def test_folded_has_a_fold_that_the_records_come_to():
    journal = format_reader.Run(SAMPLE.parent / "folded").journal
    assert [fold["slot"] for fold in journal.fold.summaries] == [256]
    assert [c.save.name for c in journal.loadable()] == ["200.a2.t1", "100.a1"]


def test_sample_loads_every_kind_of_value():
    run = format_reader.Run(SAMPLE)
    loaded, arrays, tensors = run.load(run.checkpoint("200.a2.t1"))
    assert list(loaded) == ["model", "rng", "odd"]
    model = loaded["model"]
    assert isinstance(model, OrderedDict) and list(model)[:3] == ["bias", "weight", "tied"]
    assert model["weight"].shape == (1200, 3) and model["weight"].dtype == np.float32
    assert model["tied"] is model["weight"]
    assert model["phase"].dtype == np.complex128 and tensors["model.phase"].stored == ("F64", [2, 2])
    assert model["none"].shape == (0, 4) and model["scale"].shape == () and model["bias"].shape == (3, 2)
    assert model["mask"].tolist() == [False, True, False, True, False]
    none, true, minus, large, huge, nan, imaginary, *rest = loaded["odd"]
    assert (none, true, minus, large, huge) == (None, True, -1, 2**64 - 1, 123456789012345678901234567890)
    assert math.isnan(nan) and imaginary == complex(1, -math.inf)
    accented, lone, raw, scalar, dtype, nested, size, items, frozen, bounded, counted, default, keys = rest
    assert accented == "na\u00efve" and lone == "a\ud800" and raw == b"\x00\xff" and scalar == 1.0
    assert dtype == state.DType("BF16") and nested == (1, ()) and size == (3, 4)
    assert items == {"a", 1} and frozen == frozenset([1]) and isinstance(frozen, frozenset)
    assert bounded == deque([1, 2], 4) and bounded.maxlen == 4
    assert counted == Counter(k=3) and isinstance(default, defaultdict) and default.default_factory is None
    assert keys[1] == "int" and keys["1"] == "str" and keys[None] is arrays['a/../b "q" \\\\ \u20ac']


def test_program_lists_and_verifies():
    tool = [sys.executable, ROOT / "tools/format_reader.py", SAMPLE]
    listed = subprocess.run([*tool, "verify"], capture_output=True, text=True)
    assert (listed.returncode, listed.stdout) == (0, "200.a2.t1  verified\n200.a1  quarantined\n100.a1  verified\n")
    assert "model.weight" in subprocess.run([*tool, "show", "100.a1"], capture_output=True, text=True).stdout
    assert subprocess.run([*tool[:2], SAMPLE / "data"], capture_output=True).returncode == 66


# ---------------------------------------------------------------- malformed files


def _shard(data):
    return shard.read_header(data, len(data))


READERS = {
    "shard": _shard,
    "tree": lambda data: state.check_tree(text.parse(data, 195)),
    "index": shard.Index,
    "receipt": commit.read_receipt,
    "manifest": lambda data: commit.decode_manifest(text.open_sealed(data, 64 << 20, 20)[0]),
}
HOSTILE = [path for target in READERS for path in sorted((ROOT / "tests/hostile" / target).iterdir())]


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_hostile_files_are_refused(path):
    read = READERS[path.parent.name]
    if path.name.startswith("ok-"):
        read(path.read_bytes())
        return
    with pytest.raises(text.Newer if path.name.startswith("newer-") else text.Damage):
        read(path.read_bytes())


def test_every_hostile_file_has_its_story():
    stories = (ROOT / "tests/hostile/README.md").read_text()
    for path in HOSTILE:
        assert f"| {path.parent.name}/{path.name} | " in stories


# ---------------------------------------------------------------- damage


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)


def test_flipped_bytes_of_a_checkpoint_are_found(run_dir):
    run = format_reader.Run(run_dir)
    checkpoint = run.checkpoint("100.a1")
    for path in sorted((run_dir / checkpoint.save.folder).iterdir()):
        size = path.stat().st_size
        for at in range(0, size, 7 if size < 600 else size // 23):
            flip(path, at)
            found = run.verify(checkpoint)
            assert [f"{checkpoint.save.folder}/{path.name}"] == [key for key, _, _ in found], (path.name, at)
            flip(path, at)
    assert run.verify(checkpoint) == []


def test_missing_and_swapped_objects_are_found(run_dir):
    run = format_reader.Run(run_dir)
    a, b = run.checkpoint("100.a1"), run.checkpoint("200.a1")
    shards = [next((run_dir / c.save.folder).glob("*.safetensors")) for c in (a, b)]
    first, second = (path.read_bytes() for path in shards)
    assert len(first) == len(second)
    shards[0].write_bytes(second)
    shards[1].write_bytes(first)
    assert run.verify(a) and run.verify(b)
    shards[0].unlink()
    assert (f"{a.save.folder}/{shards[0].name}", 0, "missing") in run.verify(a)


def test_one_flipped_byte_of_a_record_is_repaired_and_two_are_refused(run_dir):
    record = run_dir / f"journal/{4:020}"
    half = record.stat().st_size // 2
    for at in (0, half - 1, half, 2 * half - 1):
        flip(record, at)
        assert format_reader.Run(run_dir).journal.repaired == [f"journal/{4:020}"]
        flip(record, at)
    flip(record, 3)
    flip(record, half + 3)
    with pytest.raises(text.Damage, match="slot 4"):
        format_reader.Run(run_dir)


def test_junk_is_skipped_only_where_a_void_names_it(run_dir):
    for path in sorted((run_dir / "journal").iterdir())[4:]:
        path.unlink()
    (run_dir / "hint").unlink()
    junk, after = run_dir / f"journal/{4:020}", run_dir / f"journal/{5:020}"
    junk.write_bytes(b"junk")
    previous = text.open_twice((run_dir / f"journal/{3:020}").read_bytes(), 65536, 16)[1]
    body = {"slot": 4, "seen": hashlib.sha256(b"junk").hexdigest()}
    record = {"magic": "unbroken-record-1", "type": "VOID", "critical": True, "slot": 5, "at": 0, "body": body}
    line = text.canonical({**record, "writer": "0" * 16, "previous": previous}).encode()
    after.write_bytes((line + b"\nsha256:" + hashlib.sha256(line).hexdigest().encode() + b"\n") * 2)
    assert [c.save.name for c in format_reader.Run(run_dir).journal.loadable()] == ["100.a1"]
    junk.write_bytes(b"other")
    with pytest.raises(text.Damage, match="slot 4"):
        format_reader.Run(run_dir)


def test_a_cut_journal_is_refused(run_dir):
    slots = sorted((run_dir / "journal").iterdir())
    (run_dir / "hint").rename(run_dir / "kept")
    slots[-1].unlink()  # nothing but the hint can tell
    format_reader.Run(run_dir)
    (run_dir / "kept").rename(run_dir / "hint")
    with pytest.raises(text.Damage, match="records were lost"):
        format_reader.Run(run_dir)
    slots[3].unlink()
    with pytest.raises(text.Damage, match="slot 3 is missing"):
        format_reader.Run(run_dir)


# ---------------------------------------------------------------- the parts


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "99aa06d3014798d86001c324468d497f"),
        (b"a", "a96faf705af16834e6c632b61e964e1f"),
        (b"abcd", "8d6b60383dfa90c21be79eecd1b1353d"),
        (bytes(range(256)) * 8, "df73e0768dd183fadd420471ff96bd00"),
    ],
)
def test_xxh3_known_values(data, digest):
    assert xxh3.xxh3_128(data).hex() == digest


def test_element_types_are_those_of_the_package():
    package = pytest.importorskip("unbroken._state.dtypes")
    for name in {*package.TORCH_TO_NAME.values(), *package.NUMPY_TO_NAME.values()}:
        assert dtypes.bits_of(name) == package.bits_of(name)
