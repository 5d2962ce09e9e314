"""A race of a few MiB through the command: what its result holds, and that everybody gives back what was saved."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import rivals  # noqa: E402
from race import table  # noqa: E402

pytest.importorskip("torch")
CASE = {"name", "shape", "bytes", "repeats", "median", "ci95", "ratio", "unit"}
BESIDE = ["torch.save", "safetensors"]


def raced(case, *only, mib=8):
    names = [word for name in only for word in ("--only", name)]
    done = subprocess.run([sys.executable, ROOT / "bench/bench.py", case, "--mib", str(mib), "--repeats", "2", "--json", *names],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["save", "load"])
def result(request):
    return raced(request.param, rivals.OURS, *BESIDE)


def of(result, name):
    return next(case for case in result["cases"] if case["name"] == f"{name}.{result['bench']}")


def test_the_result_has_the_keys_that_are_promised(result):
    assert {"bench", "cases", "machine", "options"} <= set(result)
    assert all(CASE <= set(case) for case in result["cases"])
    assert {"raw", "raw.memcpy", "raw.copy_hash", "raw.buffered"} <= {case["name"] for case in result["cases"]}
    assert all(case["bytes"] == pytest.approx(8 << 20, rel=1e-3) for case in result["cases"])


def test_everybody_gives_back_the_bytes_that_were_saved(result):
    for name in (rivals.OURS, *BESIDE):
        case = of(result, name)
        assert "error" not in case and case["equal"] is True and case["repeats"] == 2


def test_the_turns_go_forth_and_back_and_the_seconds_add_up(result):
    race = result["races"][0]
    names = [name for name, _ in race["turns"]]
    assert names[:4] == ["raw", rivals.OURS, *BESIDE] and names[4:] == names[3::-1]
    assert sum(race["spent_s"].values()) == pytest.approx(race["wall_s"])
    assert race["spent_s"]["between"] >= 0
    for name, seconds in race["spent_s"].items():
        if name != "between":
            assert seconds == pytest.approx(sum(taken for turn, taken in race["turns"] if turn == name))


def test_loads_start_cold(result):
    if result["bench"] == "load":
        assert all(of(result, name)["cached_bytes"] in (0, None) for name in (rivals.OURS, *BESIDE))


def test_saves_say_who_synced_them_and_what_they_wrote(result):
    if result["bench"] == "save":
        assert of(result, rivals.OURS)["durable"] == "itself"
        assert [of(result, name)["durable"] for name in BESIDE] == ["us", "us"]
        assert all(of(result, name)["written_per_byte"] >= 0.99 for name in (rivals.OURS, *BESIDE))


def test_the_table_has_a_row_for_each(result):
    text = table.text(result)
    assert all(any(line.startswith(name + " ") for line in text.splitlines()) for name in (rivals.OURS, *BESIDE))


def test_an_entrant_that_cannot_run_is_listed_with_its_error():
    case = {"name": "x.save", "race": "save", "shape": "large", "bytes": 1, "repeats": 0, "unit": "s", "median": None,
            "ci95": None, "ratio": None, "error": "ImportError: no module"}
    assert table.rows([case])[1] == ["x", "ImportError: no module"]


def test_an_environment_that_is_not_there_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(rivals, "VENVS", tmp_path)
    with pytest.raises(LookupError, match="./dev bench venvs orbax"):
        rivals.python_of(rivals.ENTRANTS["Orbax"])
    (tmp_path / "orbax").mkdir()
    (tmp_path / "orbax" / rivals.WHY_NOT).write_text("ERROR: no matching\ndistribution")
    with pytest.raises(LookupError, match="ERROR: no matching distribution"):
        rivals.python_of(rivals.ENTRANTS["Orbax"])
