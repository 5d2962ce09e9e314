import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import program  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def built():
    for path in (program.PROGRAM, program.MLP):
        assert path.exists(), f"{path} is not there: run `./dev build`"


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A finished run of 12 steps that saved every 4th; nobody writes here."""
    directory = tmp_path_factory.mktemp("trained") / "run"
    program.train(directory, 12, 4, code=program.SAVING)
    return directory


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of it, to be damaged."""
    directory = tmp_path / "run"
    shutil.copytree(trained, directory)
    return directory


@pytest.fixture
def in_memory():
    with program.memory_folder() as folder:
        yield folder


@pytest.fixture
def public():
    with program.public_folder() as folder:
        yield folder
