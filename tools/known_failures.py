"""docs/operations/known-failures.md: what went wrong for others, and the tests that would notice it here.

The page is made of known-failures.toml beside it and of marks on the tests: `@pytest.mark.failure("owner/repository#7")`
in Python, and in C++ a line `// failure: owner/repository#7` above a TEST, with commas between several. A mark names any
one report of a failure; the test it stands above runs what a user runs, never the fake core. `./dev lint` compares the page
with both; `python3 tools/known_failures.py` makes it anew.
"""

import ast
import pathlib
import re
import sys
import tomllib
import typing

from reference.tree import ROOT, is_text, tracked

DATA = "docs/operations/known-failures.toml"
PAGE = "docs/operations/known-failures.md"
REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+")
CPP_MARK = re.compile(r"\s*// failure: (.*)")
CPP_TEST = re.compile(r"\s*TEST(?:_[FP])?\((\w+), (\w+)\)")
HEAD = """# Known failures of others

What checkpoints and resumed trainings did to people, by public reports, one line each. Behind it stand the tests that fail
where Unbroken does the same, or the reason why none is needed or there. This page is about trainings of one process, and is
made of [a list](known-failures.toml) and of marks on the tests, by `tools/known_failures.py`; `./dev lint` fails where it is
not up to date.
"""


class Mark(typing.NamedTuple):
    report: str
    test: str
    path: str
    line: int


class Wrong(typing.NamedTuple):
    path: str
    line: int
    what: str


def cpp_marks(path, text):
    """Marks of one C++ file, and those that stand above no test."""
    reports = []
    for number, line in enumerate(text.splitlines(), 1):
        mark, test = CPP_MARK.match(line), CPP_TEST.match(line)
        if mark:
            reports += [(report.strip(), number) for report in mark.group(1).split(",")]
        elif test:
            yield from (Mark(report, ".".join(test.groups()), path, at) for report, at in reports)
            reports = []
        elif not line.lstrip().startswith("//"):
            yield from (Wrong(path, at, f"{report} stands above no TEST") for report, at in reports)
            reports = []


def on_the_fake(tree):
    """The functions of a file that use the fixture `fake`, by name, or through a fixture of this file."""
    uses = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            named = [ast.literal_eval(argument) for mark in node.decorator_list if isinstance(mark, ast.Call)
                     and ast.unparse(mark.func) == "pytest.mark.usefixtures" for argument in mark.args]
            uses[node.name] = {argument.arg for argument in node.args.args} | set(named)
    fakes, found = {"fake"}, {"fake"}
    while found:
        found = {name for name, used in uses.items() if used & fakes} - fakes
        fakes |= found
    return fakes


def python_marks(path, text):
    """Marks of one Python file, and those that say nothing."""
    if "mark.failure" not in text:
        return
    tree = ast.parse(text)
    fakes = on_the_fake(tree)
    for node in ast.walk(tree):
        for mark in getattr(node, "decorator_list", []):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.failure":
                if not mark.args or not node.name.startswith("test_"):
                    yield Wrong(path, mark.lineno, "a mark names reports, and stands above a test")
                if node.name in fakes:
                    yield Wrong(path, mark.lineno, f"{node.name} runs on the fake core, where nothing of others can be shown")
                yield from (Mark(ast.literal_eval(report), node.name, path, mark.lineno) for report in mark.args)


def marks(sources):
    """Every mark in (path, text) of the tests."""
    for path, text in sources:
        if path.endswith("_test.cc"):
            yield from cpp_marks(path, text)
        elif path.endswith(".py") and pathlib.PurePath(path).name.startswith("test_"):
            yield from python_marks(path, text)


def linked(report, shown=None):
    repository, number = report.split("#")
    return f"[{shown or report}](https://github.com/{repository}/issues/{number})"


def render(kinds, tests):
    """The page. `tests`: report -> its marks."""
    out = [HEAD]
    for kind in kinds:
        out.append(f"\n## {kind['title']}\n\n")
        for failure in kind["failure"]:
            found = {(mark.test, mark.path) for report in failure["reports"] for mark in tests.get(report, [])}
            links = ", ".join(map(linked, failure["reports"]))
            named = ", ".join(f"[`{test}`](../../{path})" for test, path in sorted(found))
            out.append(f"- {failure['what']} ({links}) **{'Tests' if found else 'No test'}:** {named or failure.get('why_not')}\n")
    return "".join(out)


def made(data, sources):
    """The page as it should be, and what is wrong with the list and the marks."""
    kinds, wrong, tests, known = tomllib.loads(data)["kind"], [], {}, set()
    for mark in marks(sources):
        if isinstance(mark, Wrong):
            wrong.append(mark)
        else:
            tests.setdefault(mark.report, []).append(mark)
    for kind in kinds:
        for failure in kind["failure"]:
            reports = failure["reports"]
            wrong += [Wrong(DATA, 1, f"{report} is no owner/repository#number") for report in reports if not REPORT.fullmatch(report)]
            wrong += [Wrong(DATA, 1, f"{report} is there twice") for report in reports if report in known]
            known.update(reports)
            has_tests = any(report in tests for report in reports)
            if has_tests == ("why_not" in failure):
                wrong.append(Wrong(DATA, 1, f"{reports[0]}: " + ("it has tests: drop why_not" if has_tests else
                                                                 "no test is marked with it, and no why_not says why")))
    wrong += [Wrong(mark.path, mark.line, f"{mark.report} is not in {DATA}")
              for report in tests.keys() - known for mark in tests[report]]
    return render(kinds, tests), wrong


def known_failures(root, sources, finding):
    """Findings of `dev lint`: wrong marks, failures without a test or a reason, a page that is out of date."""
    if not (root / DATA).exists():
        return
    page, wrong = made((root / DATA).read_text(), sources)
    for path, line, what in wrong:
        yield finding(path, line, "failures", what)
    if not (root / PAGE).exists() or (root / PAGE).read_text() != page:
        yield finding(PAGE, 1, "failures", "out of date: run `python3 tools/known_failures.py`")


def main():
    sources = [(path, (ROOT / path).read_text()) for path in tracked(ROOT) if is_text(path)]
    page, wrong = made((ROOT / DATA).read_text(), sources)
    for path, line, what in wrong:
        print(f"{path}:{line}: {what}", file=sys.stderr)
    (ROOT / PAGE).write_text(page)
    print(f"wrote {PAGE}: {page.count('**Tests:**')} failures have tests, {page.count('**No test:**')} have a reason for none")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
