import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import program  # noqa: E402


def pytest_collection_modifyitems(config, items):
    missing = [path for path in (program.PROGRAM, program.MLP) if not path.exists()]
    if missing:
        raise pytest.UsageError(f"{missing[0]} is not there: run `./dev build`")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A finished run of 12 steps that saved every 4th; nobody writes here."""
    directory = tmp_path_factory.mktemp("trained") / "run"
    program.train(directory, 12, 4)
    return directory


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of it, to be damaged."""
    directory = tmp_path / "run"
    shutil.copytree(trained, directory)
    return directory
