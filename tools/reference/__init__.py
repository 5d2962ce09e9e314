"""The pages of docs/reference that are made and not written: what the sources and the program say of themselves.

    python.md          signatures and docstrings of the public names; nothing is imported for it
    exit-statuses.md   include/unbroken/exit_code.h and the classes of errors
    options.md         `unbroken COMMAND --help`; needs the program

`python3 tools/reference` writes all three. `./dev lint` compares the first two with the sources, and
docs/reference/environment.md with the variables that the sources read; `./dev docs` compares the third.
"""

import re
import shutil
import subprocess

from .python_page import ERRORS, MADE, python_page, status_of

FOLDER = "docs/reference"
STATUS_INTRO = """\
What a supervisor, a scheduler or a script does when a training or a command of `unbroken` has ended. A training ends so
by itself, without any code of yours: an error that nobody catches in the main thread prints its traceback and one
`error:` line, and the process ends with its status. *Retried* is what is worth doing again without a person; *charged*
is what counts against a limit of retries.
"""
STATUS_END = """\
A process that was killed (128 and the number of the signal, 137 for SIGKILL) had no say: start the same command again,
and it goes on from the newest checkpoint. `unbroken doctor DIR` tells afterwards how the last life ended. What to do
where a person is needed: [operations](../operations/index.md).
"""


# --- Exit statuses ---------------------------------------------------------------------------------------------

STATUS = re.compile(r"^\s*(\w+)\s*=\s*(\d+),\s*///<\s*(.+)$", re.MULTILINE)


def statuses(root):
    """(name, status, meaning) of each, as the header says it."""
    return [(name, int(status), meaning)
            for name, status, meaning in STATUS.findall((root / "include/unbroken/exit_code.h").read_text())]


def in_use(root):
    """The names of the statuses that something in this version ends with."""
    sources = [path for path in (root / "src").rglob("*.cc") if not path.name.endswith("_test.cc")]
    return set(re.findall(r"\bExitCode::(\w+)", "\n".join(path.read_text() for path in sources)))


def status_page(root):
    raised = {75: ["Interrupted"], 76: ["Interrupted"], 82: ["Superseded"]}  # each raise says which
    for name in ERRORS:
        raised.setdefault(status_of(root, name), []).append(name)
    used = in_use(root)
    rows = ["| status | name | what happened; what a supervisor does | raised as |", "|---|---|---|---|"]
    for name, status, meaning in statuses(root):
        what = meaning if name in used or status == 0 else meaning + ". *Not in this version*"
        rows.append(f"| {status} | {name} | {what} | {', '.join(raised.get(status, []))} |")
    return f"# Exit statuses\n\n{MADE}\n\n{STATUS_INTRO}\n" + "\n".join(rows) + f"\n\n{STATUS_END}"


# --- The program -----------------------------------------------------------------------------------------------

def asked(program, *words):
    return subprocess.run([program, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout


def options_page(program):
    listed = asked(program, "--help")
    parts = ["# Options of the program\n", f"{MADE}\n", "What each command prints, and how it ends: [the program](program.md).\n",
             f"```\n$ unbroken --help\n{listed.strip()}\n```\n"]
    for command in re.findall(r"^  (\w+) +\w", listed, re.MULTILINE):
        text = "\n".join(line.rstrip() for line in asked(program, command, "--help").strip().splitlines())
        parts.append(f"## {command}\n\n```\n$ unbroken {command} --help\n{text}\n```\n")
    return "\n".join(parts)


# --- Variables -------------------------------------------------------------------------------------------------

VARIABLE = re.compile(r'"((?:UNBROKEN|SLURM|TORCHELASTIC)_[A-Z_]*[A-Z]|NO_COLOR)"')


def variables_read(root):
    """What the product reads from its environment, by name."""
    sources = [*(root / "src").rglob("*.cc"), *(root / "bindings").glob("*.cc"), *(root / "python").rglob("*.py")]
    return {name for path in sources if not path.name.endswith("_test.cc") for name in VARIABLE.findall(path.read_text())}


def variables_told(text):
    return set(re.findall(r"^\| `([A-Z_]+)", text, re.MULTILINE)) | set(re.findall(r"`([A-Z_]{6,})`", text))


# --- Comparing -------------------------------------------------------------------------------------------------

def from_sources(root):
    return {"python.md": python_page(root), "exit-statuses.md": status_page(root)}


def stale(root, pages):
    """Of the pages given as {name: text}: those whose file says something else."""
    files = {name: root / FOLDER / name for name in pages}
    return [f"{FOLDER}/{name}" for name, text in pages.items() if not files[name].is_file() or files[name].read_text() != text]


def findings(root):
    """(page, what to do) for everything that `./dev lint` can compare."""
    if not (root / FOLDER).is_dir():
        return
    for page in stale(root, from_sources(root)):
        yield page, "it is not what the sources say: run `python3 tools/reference`"
    page = f"{FOLDER}/environment.md"
    told, read = variables_told((root / page).read_text()), variables_read(root)
    for name in sorted(read - told):
        yield page, f"{name} is read and not listed"
    for name in sorted(told - read):
        yield page, f"{name} is listed and nothing reads it"


def program_of(root):
    built = root / "build/bin/unbroken"
    return str(built) if built.exists() else shutil.which("unbroken")
