"""Which core the tests run on: the native one; a fake one in memory where a test needs faults on demand (`fake`)."""

import random
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import fake_core

HAS_CORE = any((Path(__file__).resolve().parents[2] / "python" / "unbroken").glob("_core*.so"))
if not HAS_CORE:
    sys.modules["unbroken._core"] = fake_core
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
