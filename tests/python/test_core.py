"""Which core the tests run on is said: without the native one they fail, where nobody asked for the fake one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TEST = """
from unbroken import _native
def test_core():
    assert _native.core.__name__ == "fake_core"
"""


@pytest.mark.parametrize("word, status, said", [("", 4, "no native core"), ("full", 4, "no native core"), ("fake", 0, "1 passed")])
def test_without_a_core_nothing_passes_unless_the_fake_one_is_asked_for(tmp_path, word, status, said):
    tests = tmp_path / "tests" / "python"
    tests.mkdir(parents=True)
    for name in ("conftest.py", "fake_core.py"):
        shutil.copy(HERE / name, tests)
    (tests / "test_it.py").write_text(TEST)
    package = HERE.parents[1] / "python" / "unbroken"
    shutil.copytree(package, tmp_path / "python" / "unbroken", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(tmp_path)]
    env = {**os.environ, "UNBROKEN_TESTS": word, "PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-m", "pytest", *options, str(tests)], env=env, text=True, capture_output=True)
    assert done.returncode == status and said in done.stdout + done.stderr, done.stdout + done.stderr
