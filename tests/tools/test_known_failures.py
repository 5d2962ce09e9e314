"""The page of known failures: what a mark is, and what is wrong with a list or a page that does not fit the tests."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import known_failures as tool  # noqa: E402
from reference.tree import Finding  # noqa: E402

LIST = """
[[kind]]
title = "Kept"

[[kind.failure]]
reports = ["a/b#1", "c.d/e-f#20"]
what = "It went."

[[kind.failure]]
reports = ["a/b#2"]
what = "It came."
why_not = "It cannot."
"""
CPP = ("src/x/y_test.cc", "// failure: c.d/e-f#20\n// More of it.\nTEST(Subject, DoesIt) {}\n\nTEST(Subject, Other) {}\n")
AT = "@pytest.mark."  # in halves, since this file is read, too
PYTHON = ("tests/test_z.py", f"{AT}parametrize('x', [1])\n{AT}failure(\n    'a/b#1',\n)\ndef test_it(x):\n    pass\n")


@pytest.fixture
def found(tmp_path):
    """Findings about a list, its page and (path, text) of tests."""
    def look(text, *sources, page=None):
        for path, content in ((tool.DATA, text), (tool.PAGE, tool.made(text, sources)[0] if page is None else page)):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(content)
        return [(finding.path, finding.line, finding.what) for finding in tool.known_failures(tmp_path, sources, Finding)]
    return look


def test_each_failure_has_its_tests_or_a_reason(found):
    assert found(LIST, CPP, PYTHON) == []
    page, _ = tool.made(LIST, [CPP, PYTHON])
    assert "## Kept\n" in page
    assert ("- It went. ([a/b#1](https://github.com/a/b/issues/1), [c.d/e-f#20](https://github.com/c.d/e-f/issues/20)) **Tests:** "
            "[`Subject.DoesIt`](../../src/x/y_test.cc), [`test_it`](../../tests/test_z.py)\n") in page
    assert "- It came. ([a/b#2](https://github.com/a/b/issues/2)) **No test:** It cannot.\n" in page
    assert "Other" not in page


@pytest.mark.parametrize(
    "text, sources, what",
    [
        (LIST, [], "a/b#1: no test is marked with it"),
        (LIST.replace('why_not = "It cannot."', ""), [CPP], "a/b#2: no test is marked with it"),
        (LIST, [CPP, (CPP[0], CPP[1].replace("c.d/e-f#20", "a/b#2"))], "a/b#2: it has tests: drop why_not"),
        (LIST, [CPP, (CPP[0], CPP[1].replace("#20", "#21"))], "c.d/e-f#21 is not in"),
        (LIST.replace("a/b#2", "a/b#1"), [CPP], "a/b#1 is there twice"),
        (LIST.replace("a/b#2", "b#2"), [CPP], "b#2 is no owner/repository#number"),
        (LIST, [CPP, ("t/a_test.cc", "// failure: a/b#1\n\nTEST(A, B) {}\n")], "a/b#1 stands above no TEST"),
        (LIST, [CPP, ("t/test_a.py", f"{AT}failure()\ndef test_a(): pass\n")], "a mark names reports"),
        (LIST, [CPP, ("t/test_a.py", f"{AT}failure('a/b#1')\ndef helper(): pass\n")], "stands above a test"),
        (LIST, [CPP, ("t/test_a.py", f"{AT}failure('a/b#1')\ndef test_a(x, fake): pass\n")], "runs on the fake core"),
        (LIST, [CPP, ("t/test_a.py", f"{AT}failure('a/b#1')\n{AT}usefixtures('fake')\ndef test_a(): pass\n")], "on the fake core"),
        (LIST, [CPP, ("t/test_a.py", f"def disk(fake): pass\n{AT}failure('a/b#1')\ndef test_a(disk): pass\n")], "on the fake core"),
    ],
)
def test_what_does_not_fit_is_found(found, text, sources, what):
    findings = found(text, *sources)
    assert len([finding for finding in findings if what in finding[2]]) == 1, findings


def test_a_page_that_is_out_of_date_is_found(found):
    (stale,) = found(LIST, CPP, page="old")
    assert stale[0] == tool.PAGE and "tools/known_failures.py" in stale[2]


def test_no_list_is_nothing_to_find(tmp_path):
    assert list(tool.known_failures(tmp_path, [], Finding)) == []
