import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

import program  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def built():
    for path in (program.PROGRAM,):
        assert path.exists(), f"{path} is not there: run `./dev build`"


@pytest.fixture
def in_memory():
    with program.memory_folder() as folder:
        yield folder
