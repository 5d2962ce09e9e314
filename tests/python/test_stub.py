"""python/unbroken/_core.pyi is what nanobind makes of the extension that lies beside it."""

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

import unbroken

PACKAGE = Path(__file__).resolve().parents[2] / "python"
pytestmark = pytest.mark.skipif(
    sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core"
)


def test_the_stub_is_of_this_core(tmp_path):
    pytest.importorskip("nanobind")
    made = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-i", str(PACKAGE), "-m", "unbroken._core", "-o", str(made)]
    subprocess.run(command, check=True)
    kept = PACKAGE / "unbroken" / "_core.pyi"
    names = "python/unbroken/_core.pyi", "of the extension now"
    changes = list(difflib.unified_diff(kept.read_text().splitlines(), made.read_text().splitlines(), *names, lineterm=""))
    assert not changes, "\n".join([*changes, "to write it anew: " + " ".join([*command[:-1], str(kept)])])


def test_version_is_the_core_s():
    assert unbroken.__version__ == sys.modules["unbroken._core"].version()["version"]
