import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

import program  # noqa: E402


def pytest_collection_modifyitems(config, items):
    if not program.PROGRAM.exists():
        raise pytest.UsageError(f"{program.PROGRAM} is not there: run `./dev build`")
