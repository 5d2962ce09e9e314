"""The pages that are made from the sources: what they say of a source changes with it, and a stale page is found."""

import ast
import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import reference  # noqa: E402
from reference.python_page import signature  # noqa: E402


@pytest.fixture
def tree(tmp_path):
    """The parts of the repository that the pages are made from."""
    for part in ("python/unbroken", "docs/reference", "include", "src", "bindings"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tmp_path


def change(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))


def test_the_pages_of_this_repository_are_not_stale():
    assert list(reference.findings(ROOT)) == []


@pytest.mark.parametrize("source, old, new, page", [
    ("python/unbroken/run.py", '"""Which life of the run this is, from 1', '"""Which life it is, from 1', "python.md"),
    ("python/unbroken/run.py", "def steps(self, n: int, loader=None)", "def steps(self, n: int, loader=None, more=1)", "python.md"),
    ("include/unbroken/exit_code.h", "superseded = 82", "superseded = 83", "exit-statuses.md"),
])  # fmt: skip
def test_a_change_of_a_source_makes_its_page_stale(tree, source, old, new, page):
    change(tree / source, old, new)
    assert [path for path, _ in reference.findings(tree)] == [f"docs/reference/{page}"]


def test_a_public_name_says_something_of_itself(tree):
    change(tree / "python/unbroken/run.py", '"""The run\'s directory, absolute."""', "")
    with pytest.raises(SystemExit, match="path has no docstring"):
        list(reference.findings(tree))


def test_every_variable_is_listed_and_nothing_else(tree):
    page = tree / "docs/reference/environment.md"
    change(page, "| `UNBROKEN_STEPS` |", "| `UNBROKEN_STRIDES` |")
    assert [what for _, what in reference.findings(tree)] == [
        "UNBROKEN_STEPS is read and not listed", "UNBROKEN_STRIDES is listed and nothing reads it"]


def test_a_signature_is_how_a_call_is_written():
    function = ast.parse("class A:\n  def f(self, a, *, b: int = 1, **later) -> int: ...").body[0].body[0]
    assert signature("f", function) == "f(a, *, b: int=1) -> int"
