"""`dev docs`: runs every fence tagged `python` or `bash` of the pages, in page order.

A page has one directory and one Python namespace of its own, and fences see what those before them left. `python
no-run` marks what cannot run here; at most a quarter of the Python fences may say so. A fence tagged `output` holds
lines that the `bash` fence before it has to print, in this order; `...` in a line stands for anything.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import traceback
import typing

import reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE_S_MAX = 300
END_JOBS = "trap 'status=$?; kill -9 $(jobs -p) 2> /dev/null || true; wait || true; exit $status' EXIT; "
OPENS = re.compile(r"^ {0,3}(```+|~~~+)\s*(\S*)\s*(.*)$")


class Fence(typing.NamedTuple):
    page: str
    line: int
    language: str
    is_run: bool
    code: str


def pages(root):
    """Every page that people read, in a fixed order."""
    found = [path for path in root.glob("*.md")] + [path for folder in ("docs", "examples", "changes")
                                                    for path in (root / folder).glob("**/*.md")]
    return sorted(str(path.relative_to(root)) for path in found)


def fences(root, page):
    """The code blocks of one page that name a language."""
    found, opened = [], None
    for number, line in enumerate((root / page).read_text().splitlines(), 1):
        fence = OPENS.match(line)
        if opened is None and fence:
            opened = (fence[1], fence[2], fence[3].split(), number, [])
        elif opened is not None and fence and fence[1].startswith(opened[0]) and not fence[2]:
            marker, language, words, start, lines = opened
            if language:
                found.append(Fence(page, start + 1, language, "no-run" not in words, "\n".join(lines) + "\n"))
            opened = None
        elif opened is not None:
            opened[4].append(line)
    if opened is not None:
        raise ValueError(f"{page}:{opened[3]}: the fence is never closed")
    return found


def not_printed(expected, printed):
    """The first line of `expected` that `printed` does not have behind those before it, or None."""
    rest = iter(printed.splitlines())
    for line in expected.splitlines():
        wanted = re.compile(".*".join(map(re.escape, line.rstrip().split("..."))))
        if line.strip(" .") and not any(wanted.fullmatch(one.rstrip()) for one in rest):
            return line
    return None


def run_page(root, page):
    """Runs one page in this process, in the current directory; the exit status."""
    namespace, printed = {"__name__": "__main__"}, ""
    for fence in fences(root, page):
        if fence.language == "output":
            line = not_printed(fence.code, printed)
            if line is not None:
                print(f"{page}:{fence.line}: this was not printed: {line}", file=sys.stderr)
                return 1
        elif fence.language == "bash":
            # The environment, the directory and the namespace of the page; each fence is a shell of its own, and what
            # it started ends with it. Not through a pipe: nobody waits for what goes on in the background.
            with tempfile.TemporaryFile() as output:
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", END_JOBS + fence.code], stdin=subprocess.DEVNULL,
                                      stdout=output, stderr=subprocess.STDOUT)
                output.seek(0)
                printed = output.read().decode(errors="replace")
            print(printed, end="", flush=True)
            if done.returncode:
                print(f"{page}:{fence.line}: the shell ended with {done.returncode}", file=sys.stderr)
                return 1
        elif fence.language == "python" and fence.is_run:
            try:
                exec(compile("\n" * (fence.line - 1) + fence.code, page, "exec"), namespace)
            except ModuleNotFoundError as missing:
                if missing.name in ("torch", "lightning", "transformers", "accelerate"):
                    print(f"note: {page}:{fence.line}: {missing.name} is not installed: the rest of the page was not run")
                    return 0
                traceback.print_exc()
                return 1
            except BaseException:  # a SystemExit too: no fence may end its page
                traceback.print_exc()
                print(f"{page}:{fence.line}: this fence failed", file=sys.stderr)
                return 1
            sys.stdout.flush()
    return 0


def run_apart(page):
    """One page in a process and a directory of its own; (status, output)."""
    path = os.pathsep.join([str(ROOT / ".venv/bin"), str(ROOT / "build/bin"), os.environ.get("PATH", "")])
    with tempfile.TemporaryDirectory(prefix="unbroken-docs-", ignore_cleanup_errors=True) as folder:
        try:
            done = subprocess.run([sys.executable, __file__, "--page", page], cwd=folder, text=True, errors="replace",
                                  env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, timeout=PAGE_S_MAX,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return 1, f"{page}: no end after {PAGE_S_MAX} s"
    return done.returncode, done.stdout


def reference_is_stale():
    """1 where the page of the program's options is not what the program says."""
    program = reference.program_of(ROOT)
    if program is None:
        print(f"failed: the program is not built, so that {reference.FOLDER}/options.md cannot be compared")
        return 1
    stale = reference.stale(ROOT, {"options.md": reference.options_page(program)})
    for page in stale:
        print(f"failed: {page} is not what the program says: run `python3 tools/reference`")
    return len(stale)


def main(arguments):
    if arguments[:1] == ["--page"]:
        return run_page(ROOT, arguments[1])
    every = {page: fences(ROOT, page) for page in arguments or pages(ROOT)}
    with_code = [page for page, found in every.items()
                 if any(fence.language in ("python", "bash") and fence.is_run for fence in found)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for page, (status, output) in zip(with_code, pool.map(run_apart, with_code)):
            failed += bool(status)
            if status:
                print(f"failed: {page}\n{output.rstrip()}")
            else:
                print("\n".join(line for line in output.splitlines() if line.startswith("note: ")), end="")
    if not arguments:
        failed += reference_is_stale()
    python = [fence for found in every.values() for fence in found if fence.language == "python"]
    skipped = sum(not fence.is_run for fence in python)
    if skipped * 4 > len(python):
        print(f"failed: {skipped} of {len(python)} Python fences say no-run, a quarter at most")
        failed += 1
    print(f"{len(with_code) - min(failed, len(with_code))} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
