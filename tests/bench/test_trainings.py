"""A race beside a training of a few MiB: what its result holds, and that what was saved meanwhile is what stood at the call."""

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import page  # noqa: E402
import rivals  # noqa: E402
from race import chart, table, trainings  # noqa: E402

pytest.importorskip("torch")


def raced(kind, folder, names):
    kind = type("Quick", (kind,), {"compute_s": 0.002, "every": 60, "quiet": 1})
    race = kind("large", 4, 2, folder, names).run()
    assert not race.errors
    return race.result()


@pytest.fixture(scope="module")
def stalls(tmp_path_factory):
    return raced(trainings.Stalls, tmp_path_factory.mktemp("stalls"), [rivals.OURS, "by hand", "DCP async", rivals.CONTROL])


def of(result, name):
    return next(case for case in result["cases"] if case["name"].rpartition(".")[0] == name)


def whole(race):
    keys = ("date", "commit", "changed", "cpu", "cores", "memory_gib", "kernel", "file_system", "load")
    return {**race, "machine": dict.fromkeys(keys, 1), "notes": []}


def test_what_is_saved_beside_steps_is_the_state_of_the_call(stalls):
    assert [of(stalls, name)["equal"] for name in (rivals.OURS, "by hand", "DCP async")] == [True] * 3
    assert of(stalls, rivals.CONTROL)["equal"] is None


def test_waits_are_within_the_save_and_the_control_writes_nothing(stalls):
    for name in (rivals.OURS, "by hand"):
        case = of(stalls, name)
        assert 0 < case["median"] <= case["save_s"] and case["repeats"] == 2 and case["written_per_byte"] > 0.9
    assert of(stalls, rivals.CONTROL)["written_per_byte"] < 0.1


def test_the_table_and_the_picture_have_everybody(stalls):
    result = whole(stalls)
    failed = {"name": "x.stall", "race": "stall", "shape": "large", "bytes": 1, "repeats": 0, "unit": "s", "median": None,
              "ci95": None, "ratio": None, "error": "ImportError: <none>"}
    result["cases"] = [*result["cases"], failed]
    text, picture = table.text(result), chart.svg(result)
    for name in (rivals.OURS, "by hand", "DCP async", rivals.CONTROL):
        assert any(line.startswith(name + " ") for line in text.splitlines()) and f">{name}<" in picture
    assert "x  " in text and "ImportError: <none>" in text
    assert picture.startswith("<svg") and "ImportError: &lt;none&gt;" in picture


def test_a_page_gets_the_results_between_its_marks(stalls, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "PAGE", tmp_path / "speed.md")
    page.PAGE.write_text(f"before\n{page.BEGINS}old\n{page.ENDS}after\n")
    (tmp_path / "stall.json").write_text(json.dumps({**whole(stalls), "bench": "stall", "options": {"mib": 4}, "only": None}))
    for _ in range(2):
        assert page.main([str(tmp_path / "stall.json")]) == 0
    text = page.PAGE.read_text()
    assert text.startswith("before\n") and text.endswith(f"{page.ENDS}after\n") and "old" not in text
    assert text.count("`./dev bench stall --mib 4`") == 1 and "\n| by hand |" in text
    assert (tmp_path / "speed-stall.svg").read_text().startswith("<svg")


@pytest.mark.skipif(shutil.which("fio") is None, reason="no fio")
def test_interference_stands_beside_fio(tmp_path):
    result = raced(trainings.Interference, tmp_path, [rivals.OURS])
    case = of(result, rivals.OURS)
    assert case["equal"] is True and case["paced"] > 0 and case["ratio"] > 0
    assert [case["unit"] for case in result["cases"] if case["name"].startswith("raw")] == ["s", "s/GiB"]
