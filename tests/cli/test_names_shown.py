"""Whatever a directory or a file is called: what is shown of it stays in its line, and what is to be run next is about it."""

import os
import re
import subprocess

import program
import pytest
from program import unbroken
from unbroken.errors import printable, shell_word

NAMES = [
    "we\x1b[31mird\nna'me", "back\\slash\r'\"$HOME`id`", "two\nlines", "a\u202eb c", "\x9bA", "caf\u00e9 au lait", "\udcff\udc80",
    "it's $'\\x41'",
]  # fmt: skip
VERBS = [
    ["ls"], ["show"], ["verify"], ["doctor"], ["explain"], ["trace"], ["diff", "4", "8"], ["keep", "8", "--tag", "x"],
    ["unkeep", "8"], ["rm", "99"], ["rm", "8"], ["export", "8", "--to", "w.safetensors"], ["show", "99"],
]  # fmt: skip


def words_of(command):
    """As a shell reads it."""
    out = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    return [os.fsdecode(word) for word in out.split(b"\0")[:-1]]


@pytest.mark.parametrize("name", NAMES)
def test_a_word_is_read_back_as_it_is_by_a_shell(name):
    word = shell_word(name)
    assert printable(word) == word and word.isprintable()
    assert words_of(f"unbroken ls {word}") == ["unbroken", "ls", name]


@pytest.mark.parametrize("name", NAMES)
def test_the_program_shows_a_name_in_one_line_and_names_it_in_the_next_command(name, tmp_path):
    path = tmp_path / name
    for verb, *rest in VERBS:
        status, out, err = unbroken(verb, path, *rest, "--json" if verb == "doctor" else "--")
        assert status in (66, 78), (verb, err)
        if verb == "doctor":
            continue
        lines = err.splitlines()
        assert out == "" and len(lines) == 1 and lines[0].isprintable(), (verb, err)
        assert printable(name) in lines[0], (verb, err)
        command = re.search(r": try `(.*)`$", lines[0])[1]
        assert str(path) in words_of(command), (verb, command)
        if printable(name) != name:
            assert shell_word(str(path)) in command, "the program and the package quote alike"


@pytest.mark.parametrize("name", NAMES[:3])
def test_no_command_hands_a_name_to_the_terminal_as_it_is(name, copied, tmp_path):
    path = tmp_path / name
    copied.rename(path)
    for verb, *rest in [["ls"], ["show"], ["verify"], ["doctor"], ["explain"], ["diff", "4", "8"], ["show", "99"], ["rm", "8"]]:
        status, out, err = unbroken(verb, path, *rest)
        for line in (out + err).splitlines():
            assert line.isprintable() and not line.startswith("na'me"), (verb, line)


def test_a_doctor_points_at_the_directory_that_it_looked_at(copied, tmp_path):
    path = tmp_path / NAMES[0]
    copied.rename(path)
    for slot in (path / "journal").iterdir():
        slot.write_bytes(b"")
    status, out, err = unbroken("doctor", path)
    assert status == 66
    commands = re.findall(r"next: (.*)", out)
    assert all(line.isprintable() for line in out.splitlines()), out
    assert any(str(path) in word for command in commands for word in words_of(command)), out


def test_the_package_names_a_run_in_one_line(tmp_path):
    name = NAMES[0]
    (tmp_path / name).mkdir()
    (tmp_path / name / "RUN").write_text("x")
    script = "import sys, unbroken\nwith unbroken.Run(sys.argv[1]) as run:\n    run.attach(a={'x': 1}) or run.restore()\n"
    done = program.start([program.sys.executable, "-c", script, tmp_path / name])
    err = done.communicate()[1]
    last = err.splitlines()[-1]
    assert done.returncode == 66 and last.startswith("error: ") and printable(name) in last, err
    assert str(tmp_path / name) in words_of(re.search(r"try `(.*)`$", last)[1])


def test_what_was_made_is_named_in_one_line(copied, tmp_path):
    status, out, err = unbroken("export", copied, "8", "--to", tmp_path / f"{NAMES[0]}.safetensors")
    assert status == 0 and len(out.splitlines()) == 1 and out.rstrip("\n").isprintable() and printable(NAMES[0]) in out
    status, out, err = unbroken("import", tmp_path / f"{NAMES[0]}.safetensors", "--to", tmp_path / NAMES[2], "--step", "1")
    assert status == 0 and len(out.splitlines()) == 1 and out.rstrip("\n").isprintable(), err
    assert all(line.isprintable() for line in err.splitlines())


def test_an_error_about_a_foreign_file_names_it_once(tmp_path):
    os.mkfifo(tmp_path / "fifo.pt")
    for path in (tmp_path / "fifo.pt", tmp_path / "missing.pt"):
        status, out, err = unbroken("import", path, "--to", tmp_path / "run")
        assert status in (66, 74, 78) and err.partition(": try ")[0].count(str(path)) == 1, err
