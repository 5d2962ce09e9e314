"""The manual page and the completions: made by the program, of every command, and understood by who reads them."""

import re
import shutil
import subprocess

import program
import pytest
from program import unbroken

COMMANDS = re.findall(r"^  (\w+) ", unbroken("--help")[1], re.M)
SHARE = program.PROGRAM.parents[1] / "share"


def made(what):
    status, out, err = unbroken("generate", what)
    assert status == 0, err
    return out


@pytest.mark.parametrize("what, name", [("man", "unbroken.1"), ("bash", "unbroken.bash"), ("zsh", "_unbroken")])
def test_what_is_installed_is_current(what, name):
    assert (SHARE / name).read_text() == made(what)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_all_of_them(command):
    options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", unbroken(command, "--help")[1]))
    man = made("man").replace("\\-", "-")
    section = man[man.index(f".SS {command}\n") :].split(".SS ")[1]
    bash = re.search(rf"^    {command}\) options='(.*?)'", made("bash"), re.M).group(1)
    zsh = re.search(rf"^    {command}\)\n(.*?);;", made("zsh"), re.M | re.S).group(1)
    assert options and options <= set(re.findall(r"--[\w-]+", section)) | {"--help-all"}
    assert options <= set(bash.split()) | {"--help-all"}
    assert all(option in zsh for option in options)


def completed(line):
    words = line.split(" ")
    script = f"""source <(printf '%s' "$SCRIPT"); COMP_WORDS=({" ".join(f'"{word}"' for word in words)})
COMP_CWORD={len(words) - 1}; _unbroken; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(
        ["bash", "-c", script], env={"SCRIPT": made("bash"), "PATH": "/usr/bin:/bin"}, text=True, capture_output=True
    )
    assert done.stderr == "", done.stderr
    return sorted(done.stdout.split())


def test_bash_completes_commands_and_options():
    assert completed("unbroken ver") == ["verify", "version"]
    assert completed("unbroken export --o") == ["--only"]
    assert completed("unbroken export runs/") == []


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_zsh_reads_its_completion():
    assert subprocess.run(["zsh", "-n", SHARE / "_unbroken"]).returncode == 0


@pytest.mark.skipif(not shutil.which("man"), reason="no man")
def test_man_reads_its_page_without_a_warning():
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", SHARE / "unbroken.1"], text=True, capture_output=True
    )
    assert done.returncode == 0 and done.stderr == ""
