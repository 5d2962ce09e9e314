"""Every script that a person or `dev` starts by its path begins: it finds what it imports, wherever the caller stands."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ["dev", "bench/bench.py", "bench/ettr.py", "model/check.py", "tools/campaign/fuzz.py", "tools/campaign/sim.py"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_says_how_it_is_called(script, tmp_path):
    done = subprocess.run([sys.executable, ROOT / script, "--help"], text=True, capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout.lower()
