"""Text that others wrote, in what is said to a person: it moves no cursor, reorders no line, and forges none."""

import os
import re
import subprocess
import sys

import numpy
import pytest

import unbroken
from unbroken.errors import printable

ODD = "\x1b[31mred\n9.a1  verified\x9b\u202e"
SHOWN = r"\x1b[31mred\x0a9.a1  verified\x9b\u202e"
LIVING = """
import sys, numpy, unbroken
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(w=numpy.zeros(1))
    run.restore()
    print("begun", flush=True)
    sys.stdin.readline()
"""


def refused(capsys, act, *given, **how):
    with pytest.raises(unbroken.Error) as caught:
        act(*given, **how)
    said = str(caught.value), caught.value.last_line(), capsys.readouterr().err
    for text in said:
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]|^9\.a1", text, re.M), text
    return said[0]


def test_names_of_metrics(run_dir, capsys):
    with unbroken.Run(run_dir, every=1, keep_best=(ODD, "min")) as run:
        run.attach(w=numpy.zeros(1))
        for _ in run.steps(1):
            run.log(**{ODD: 1})
        assert SHOWN in refused(capsys, run.log, **{ODD: "no number"})
    assert SHOWN in refused(capsys, unbroken.load, run_dir, at="best:q")


def test_the_job_of_an_owner(run_dir, capsys):
    alive = subprocess.Popen([sys.executable, "-c", LIVING, run_dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "UNBROKEN_JOB": ODD})  # fmt: skip
    assert alive.stdout.readline() == "begun\n"

    def start():
        with unbroken.Run(run_dir) as run:
            run.attach(w=numpy.zeros(1))
            run.restore()

    assert SHOWN in refused(capsys, start)
    alive.communicate("\n")
    assert alive.returncode == 0


def test_a_path_of_odd_bytes_and_ordinary_text():
    assert printable("a\udcff\u2028b") == r"a\xff\u2028b"
    assert printable("\u20ac\t") == "\u20ac\\x09" and printable("a\nb", may_have_lines=True) == "a\nb"


@pytest.mark.parametrize("name", [
    "we\x1b[31mird\nna'me", "back\\slash\r'\"$HOME`id`", "a\u202eb c", "\x9bA", "caf\u00e9 au lait", "\udcff\udc80", "it's $'\\x41'",
])  # fmt: skip
def test_a_command_names_the_directory_itself_and_can_be_shown(name):
    error = unbroken.NothingToResume("it is missing", "unbroken ls DIR")
    error.directory = name
    assert error.next_command.isprintable() and error.last_line() == f"error: it is missing: try `{error.next_command}`"
    out = subprocess.run(["bash", "-c", f"printf '%s\\0' {error.next_command}"], capture_output=True, check=True).stdout
    assert [os.fsdecode(word) for word in out.split(b"\0")[:-1]] == ["unbroken", "ls", name]
