"""Variables UNBROKEN_* that cannot be used, and places that no run can have: 78, and nothing is made."""

import json
import re

import program
import pytest
from program import MLP, ROOT, SAVING, TRAIN, python, unbroken

BAD = {
    "SLURM_RESTART_COUNT": ["abc", "-1"],
    "TORCHELASTIC_RESTART_COUNT": ["1.5"],
    "UNBROKEN_STEPS": ["many", "-1", "1.5", "99999999999999999999"],
    "UNBROKEN_DIR": ["{tmp}/file"],
    "UNBROKEN_RESUMED": ["yes"],
    "UNBROKEN_TAKEOVER": ["true"],
    "UNBROKEN_MTTI": ["often", "5", "0s"],
    "UNBROKEN_PIN_LASTS": ["long", "5", "0s"],
    "UNBROKEN_IO": ["frob", "uring"],
    "UNBROKEN_IO_CLASS": ["frob", "IDLE"],
    "UNBROKEN_KILL": ["frob", "commit.before_append:0:kill", "commit.before_append:1:maim", "no.such.point:1:kill"],
    "UNBROKEN_POINT_LOG": ["{tmp}", "{tmp}/missing/log"],
    "UNBROKEN_TAP": ["{tmp}", "{tmp}/missing/tap", "{tmp}/link"],
}
CASES = [(name, value) for name, values in BAD.items() for value in values]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    return tmp_path


@pytest.mark.parametrize("name, value", CASES)
def test_a_variable_that_cannot_be_used_is_named_and_nothing_is_made(name, value, place):
    value = value.format(tmp=place)
    before = sorted(place.rglob("*"))
    for command in (python(TRAIN, place / "run", 3), [MLP, place / "run", "--steps", "3"], [program.PROGRAM, "ls", place]):
        status, out, err = program.run(command, env={name: value})
        last = err.strip().splitlines()[-1]
        assert status == 78 and f"{name} is '{value[:200]}': " in last, (command, err)
        assert f"give it as {name}=" in last and f"unset {name}" in last, err
    assert sorted(place.rglob("*")) == before


def test_an_empty_variable_is_not_set(tmp_path):
    empty = dict.fromkeys(BAD, "")
    for command in (python(TRAIN, tmp_path / "a", 3), [MLP, tmp_path / "b", "--steps", "3"]):
        status, _, err = program.run(command, env=empty)
        assert status == 0, err


def test_every_point_of_the_library_can_be_asked_for(tmp_path):
    points = set()
    for path in (ROOT / "src").rglob("*.cc"):
        if not path.name.endswith("_test.cc"):
            points |= set(re.findall(r'UNBROKEN_POINT\("([^"]+)"\)', path.read_text()))
    status, out, _ = unbroken("ls", "--json", tmp_path, env={"UNBROKEN_KILL": "x:1:kill"})
    said = json.loads(out)["error"]["message"].partition("there are ")[2].partition(": give")[0]
    assert status == 78 and set(said.replace(" and ", ", ").split(", ")) == points


@pytest.fixture
def outer(tmp_path):
    assert program.run(python(SAVING, tmp_path / "outer", 3))[0] == 0
    return tmp_path / "outer"


@pytest.mark.parametrize("below", ["inside", "data/x", "journal/y/z"])
def test_no_run_is_begun_inside_another_one(below, outer, tmp_path):
    before = sorted(outer.rglob("*"))
    file = tmp_path / "x.safetensors"
    assert unbroken("export", outer, "--to", file)[0] == 0
    for command in (python(TRAIN, outer / below, 3), [MLP, outer / below, "--steps", "3"],
                    [program.PROGRAM, "import", file, "--to", outer / below]):  # fmt: skip
        status, _, err = program.run(command)
        assert status == 78 and f"lies inside the run {outer}" in err, err
    assert sorted(outer.rglob("*")) == before


def test_a_place_that_no_run_can_have_is_78(tmp_path):
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    for path, why in (("/", "the root of the file system"), (tmp_path / "broken", "a symbolic link to"),
                      (tmp_path / "broken/deep/run", "a symbolic link to")):  # fmt: skip
        for command in (python(TRAIN, path, 3), [MLP, path, "--steps", "3"]):
            status, _, err = program.run(command)
            assert status == 78 and why in err and ("try `" in err or "next: " in err), err
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_an_export_to_a_missing_folder_or_onto_a_directory_says_what_to_do(outer, tmp_path):
    (tmp_path / "d.safetensors").mkdir()
    status, _, err = unbroken("export", outer, "--to", tmp_path / "no/such/x.safetensors")
    assert status == 78 and f"there is no directory {tmp_path}/no/such" in err and "mkdir -p" in err
    for more in ([], ["--force"]):
        status, _, err = unbroken("export", outer, "--to", tmp_path / "d.safetensors", *more)
        assert status == 78 and "a directory stands there" in err and "d.safetensors/checkpoint.safetensors" in err
