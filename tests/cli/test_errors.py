"""Every command, and all that can be wrong with how it is called: each error says what, where and what to do next."""

import hashlib
import json
import re
import shlex
import shutil

import pytest
from program import unbroken
from test_commands import error_in

#: those that want a run, with what stands behind the directory; `doctor` tells of it as a finding instead
ON_A_RUN = {
    "ls": [], "show": ["12"], "verify": ["12"], "diff": ["8", "12"], "explain": [], "trace": [],
    "export": ["12", "--to", "never.safetensors"], "keep": ["12"], "unkeep": ["12"], "rm": ["12"],
}  # fmt: skip
TAKES_AT = ["show", "verify", "diff", "export", "keep", "unkeep", "rm"]
#: the others, with what they need
OTHERS = {
    "doctor": ["run"], "import": ["a.safetensors", "--to", "run"], "drill": [], "plan": [], "simulate": [],
    "generate": ["man"], "version": [],
}  # fmt: skip


def missing(folder, trained):
    return folder / "is missing"


def empty(folder, trained):
    (folder / "is empty").mkdir()
    return folder / "is empty"


def not_a_run(folder, trained):
    (folder / "not a run").mkdir()
    (folder / "not a run/notes.txt").write_text("mine")
    return folder / "not a run"


def file_in_place(folder, trained):
    (folder / "a file").write_text("")
    return folder / "a file"


def below_a_file(folder, trained):
    return file_in_place(folder, trained) / "run"


def without_journal(folder, trained):
    shutil.copytree(trained, folder / "run")
    shutil.rmtree(folder / "run/journal")
    return folder / "run"


def with_a_hole(folder, trained):
    shutil.copytree(trained, folder / "run")
    (folder / "run/journal/00000000000000000003").unlink()
    return folder / "run"


def for_everybody(folder, trained):
    shutil.copytree(trained, folder / "run")
    (folder / "run").chmod(0o777)
    return folder / "run"


STATUSES = {
    missing: 66, empty: 66, not_a_run: 66, file_in_place: 66, below_a_file: 66, without_journal: 66, with_a_hole: 66,
    for_everybody: 78,
}  # fmt: skip


def test_every_command_is_here():
    listed = re.findall(r"^  (\w+) +\w", unbroken("--help")[1], re.M)
    assert sorted(listed) == sorted([*ON_A_RUN, *OTHERS])


@pytest.mark.parametrize("command", ON_A_RUN)
@pytest.mark.parametrize("wrong", STATUSES, ids=lambda wrong: wrong.__name__)
def test_directories(command, wrong, tmp_path, trained):
    directory = wrong(tmp_path, trained)
    status, out, err = unbroken(command, directory, *ON_A_RUN[command], "--json")
    error = error_in(status, out, err)
    assert status == STATUSES[wrong] and str(directory) in error["message"]
    assert str(directory) in shlex.split(error["next_command"])  # in quotes where it has to be
    plain = unbroken(command, directory, *ON_A_RUN[command])
    reports = command == "verify" and wrong in (without_journal, with_a_hole)  # what is damaged, besides
    assert (plain[0], plain[1] != "", plain[2]) == (status, reports, err)


@pytest.mark.parametrize("command", [*ON_A_RUN, "doctor"])
def test_a_run_of_a_newer_version(command, copied):
    slot = copied / "journal/00000000000000000000"
    genesis = json.loads(slot.read_text().splitlines()[0])
    genesis["body"]["format"] = 2
    line = json.dumps(genesis, separators=(",", ":"), sort_keys=True)
    slot.write_text(2 * f"{line}\nsha256:{hashlib.sha256(line.encode()).hexdigest()}\n")
    status, out, err = unbroken(command, copied, *ON_A_RUN.get(command, []), "--json")
    error = error_in(status, out, err)
    assert status == 78 and error["message"].endswith("use a newer unbroken")
    assert error["next_command"] == "unbroken version"


@pytest.mark.parametrize("command", ON_A_RUN)
@pytest.mark.parametrize("closed", ["", "journal", "journal/00000000000000000001", "RUN"])
def test_no_permission(command, closed, public, trained):
    directory = public.copy(trained)
    (directory / closed).chmod(0)
    status, out, err = public.unbroken(command, directory, *ON_A_RUN[command], "--json")
    if closed == "RUN" and command != "verify":  # which only verify reads; export and keep may not write here
        assert status == {"diff": 1, "export": 74, "keep": 74, "unkeep": 66, "rm": 78}.get(command, 0)
        return
    error = error_in(status, out, err)
    assert status == 74 and error["kind"] == "StorageUnavailable"
    assert str(directory) in error["message"] and str(directory) in error["next_command"]


def test_no_permission_is_not_told_as_something_missing(public, trained):
    directory = public.copy(trained)
    (directory / "metrics").chmod(0)
    error = error_in(*(ended := public.unbroken("explain", directory, "--json")))
    assert ended[0] == 74 and "EACCES" in error["message"] and f"{directory}/metrics" in error["next_command"]

    (directory / "metrics").chmod(0o755)
    (directory / "hint").chmod(0)
    findings = json.loads(public.unbroken("doctor", directory, "--json")[1])["findings"]
    [hint] = [finding for finding in findings if finding["object"] == "hint"]
    assert hint["severity"] == "warning" and "EACCES" in hint["what"] and f"{directory}/hint" in hint["next_command"]


@pytest.mark.parametrize("command", [*ON_A_RUN, *OTHERS])
def test_an_unknown_option(command, trained):
    needed = [trained, *ON_A_RUN[command]] if command in ON_A_RUN else OTHERS[command]
    status, out, err = unbroken(command, *needed, "--frobnicate", "--json")
    error = error_in(status, out, err)
    assert status == 78 and error["kind"] == "Misconfigured" and "--frobnicate" in error["message"]
    assert error["next_command"] == f"unbroken {command} --help"


@pytest.mark.parametrize("command", TAKES_AT)
@pytest.mark.parametrize("at, status", [("7", 66), ("12.a9", 66), ("12.a1.t3", 66), ("-1", 78), ("nonsense", 78), ("1e3", 78)])
def test_a_step_that_is_not_there(command, at, status, trained):
    rest = [at, *ON_A_RUN[command][1:]]
    got, out, err = unbroken(command, trained, *rest, "--json")
    error = error_in(got, out, err)
    assert got == status and at in error["message"]
    if status == 66:
        assert "12.a1" in error["message"] and error["next_command"] == f"unbroken ls {trained}"


@pytest.mark.parametrize(
    "arguments, where",
    [
        (["drill"], "--"),
        (["drill", "--"], "--"),
        (["drill", "--kills", "0", "--", "true"], "--kills"),
        (["drill", "--at", "noon", "--", "true"], "--at"),
        (["drill", "--dir", "/dev/null", "--", "true"], "/dev/null"),
        (["drill", "--", "/is/missing"], "/is/missing"),
        (["plan", "--gpus", "0"], "--gpus"),
        (["plan", "--config", "/is/missing.yaml"], "/is/missing.yaml"),
        (["plan", "--preset", "rsc-1", "--chart", "/is/missing/chart.svg"], "/is/missing/chart.svg"),
        (["plan", "--stall", "1s", "--tier", "disk:stall=1min"], "--stall"),
        (["simulate", "--stall", "1min", "--mtti", "1d", "--seeds", "0"], "--seeds"),
        (["simulate", "--stall", "1min", "--mtti", "1d", "--trace", "/is/missing.csv"], "/is/missing.csv"),
        (["version", "1"], "1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_else_commands_take(arguments, where):
    at = arguments.index("--") if "--" in arguments else len(arguments)
    status, out, err = unbroken(*arguments[:at], "--json", *arguments[at:])
    error = error_in(status, out, err)
    assert status in (78, 74) and where in error["message"]


@pytest.mark.parametrize("kind", ["closed", "below a file", "link to itself"])
def test_what_stands_in_the_way_is_looked_at_part_by_part(kind, public, trained):
    copy = public.copy(trained)
    path = copy / "w.safetensors"
    path.symlink_to(path) if kind == "link to itself" else path.write_text("")
    path.chmod(0) if kind == "closed" else None
    path = path / "below" if kind == "below a file" else path
    for command in (["import", path, "--to", public.folder / "new"], ["plan", "--config", path], ["ls", path]):
        status, out, err = public.unbroken(*command, "--json")
        if (kind, command[0]) == ("closed", "ls"):  # it is no directory, whoever may read it
            continue
        error = error_in(status, out, err)
        assert error["next_command"] == f"namei -l {path}", command
