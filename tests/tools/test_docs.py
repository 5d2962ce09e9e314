"""`dev docs` runs the fences that it should, and a page with a broken one fails."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import docs  # noqa: E402

PAGE = """# Title

```python
x = 40
```

```
not code
```

```bash
echo hello > said
```

```python
assert open("said").read() == "hello\\n" and x + 2 == 42
```

```python no-run
raise SystemExit("never")
```

```console
$ ./never
```
"""


def run(tmp_path, text):
    (tmp_path / "page.md").write_text(text)
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import docs, pathlib; " \
           f"sys.exit(docs.run_page(pathlib.Path({str(tmp_path)!r}), 'page.md'))"
    return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


def test_fences_are_found_with_their_language_and_line(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    found = docs.fences(tmp_path, "page.md")
    assert [(fence.language, fence.line, fence.is_run) for fence in found] == [
        ("python", 4, True), ("bash", 12, True), ("python", 16, True), ("python", 20, False), ("console", 24, True)]


def test_a_page_shares_one_namespace_and_one_directory(tmp_path):
    done = run(tmp_path, PAGE)
    assert done.returncode == 0, done.stdout


def test_a_broken_python_fence_fails_with_its_place(tmp_path):
    done = run(tmp_path, "```python\n\nraise ValueError(1)\n```\n")
    assert done.returncode == 1 and 'File "page.md", line 3' in done.stdout


def test_a_broken_shell_fence_fails_at_its_first_command(tmp_path):
    assert run(tmp_path, "```bash\nfalse\ntrue\n```\n").returncode == 1


def test_a_fence_may_not_end_its_page(tmp_path):
    assert run(tmp_path, "```python\nraise SystemExit(0)\n```\n").returncode == 1


def shows(*lines):
    return "```bash\necho one; echo two 22 >&2; echo three\n```\n```output\n" + "\n".join(lines) + "\n```\n"


def test_output_is_what_the_fence_before_it_printed(tmp_path):
    assert run(tmp_path, shows("one", "two ...", "three")).returncode == 0
    assert run(tmp_path, shows("two ...2", "...")).returncode == 0


def test_output_that_was_not_printed_or_not_in_this_order_fails_with_its_place(tmp_path):
    for lines in (["four"], ["on"], ["two"], ["three", "one"]):
        done = run(tmp_path, shows(*lines))
        assert done.returncode == 1 and f"page.md:5: this was not printed: {lines[-1]}" in done.stdout, done.stdout


def test_what_a_shell_started_ends_with_its_fence(tmp_path):
    done = run(tmp_path, "```bash\nsleep 1000 & echo $! > process\n```\n```bash\n! kill -0 $(cat process) 2> /dev/null\n```\n")
    assert done.returncode == 0, done.stdout
