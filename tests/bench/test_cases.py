"""The cases of `./dev bench` are the same wherever they are told."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import bench  # noqa: E402
import pytest  # noqa: E402
from cases import BESIDE, CASES  # noqa: E402


def test_the_help_and_the_page_name_the_cases_that_are_there_and_no_others(capsys):
    with pytest.raises(SystemExit):
        bench.main(["--help"])
    own = capsys.readouterr().out
    of_dev = subprocess.run([ROOT / "dev", "--help"], text=True, capture_output=True, check=True).stdout
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert f"`{' '.join(CASES)}`" in page and "|".join(CASES) in "".join(of_dev.split())
    assert all(f"{case} (" in " ".join(own.split()) for case in CASES)
    assert all((ROOT / "bench" / f"{case}.py").is_file() for case in BESIDE)
