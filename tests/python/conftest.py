"""Which core the tests run on: the native one; a fake one in memory where a test needs faults on demand (`fake`).

Without a native core nothing runs, but with UNBROKEN_TESTS=fake, which puts the fake one under every test.
"""

import os
import random
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import fake_core  # noqa: E402

if os.environ.get("UNBROKEN_TESTS") == "fake":
    sys.modules["unbroken._core"] = fake_core
elif not any((Path(__file__).resolve().parents[2] / "python" / "unbroken").glob("_core*.so")):
    raise pytest.UsageError("no native core in python/unbroken: run ./dev build, or set UNBROKEN_TESTS=fake for the fake one")
from unbroken import _native, opened  # noqa: E402


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """No state of another test: environment, registries, generators."""
    for name in ("UNBROKEN_DIR", "UNBROKEN_STEPS", "UNBROKEN_TAKEOVER", "UNBROKEN_RESUMED", "UNBROKEN_MTTI"):
        monkeypatch.delenv(name, raising=False)
    fake_core.DISK.clear()
    fake_core.Session.fail_saves = []
    random.seed(0)
    handler = signal.getsignal(signal.SIGTERM)
    yield
    left = list(opened.RUNS)
    for one in left:
        one._close(is_quiet=True)
    assert not left, "the test leaves a run open"
    assert signal.getsignal(signal.SIGTERM) is handler, "the test leaves a handler behind"


@pytest.fixture
def fake(monkeypatch):
    """The fake core, in place of whatever is there."""
    monkeypatch.setattr(_native, "core", fake_core)
    monkeypatch.setattr(_native, "CoreError", fake_core.CoreError)
    return fake_core


@pytest.fixture
def run_dir(tmp_path):
    return tmp_path / "run"
