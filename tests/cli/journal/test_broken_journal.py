"""A journal that cannot be folded, and names of a run that are something else: a report, a way out, and never a fresh start."""

import os
import shutil

import program
import pytest
from program import journal_files, train, unbroken, unbroken_json
from test_doctor import doctor, errors


def slot(directory, number):
    return directory / "journal" / f"{number:020}"


def spoil_last(directory):
    number = int(journal_files(directory)[-1])
    slot(directory, number).write_bytes(b"junk")
    return number


def start(directory, steps=16):
    return program.run(program.python(program.SAVING, directory, steps, 4))


def test_verify_says_which_slot_is_wrong_and_what_lies_there_whole(copied):
    slot(copied, 3).write_bytes(b"junk")
    slot(copied, 5).unlink()
    status, said = unbroken_json("verify", copied)
    assert status == 66 and not said["ok"] and said["error"]["kind"] == "NothingToResume"
    assert [e["object"] for e in said["journal"]["errors"]] == [f"journal/{3:020}", f"journal/{5:020}"]
    assert said["journal"]["errors"][1]["what"] == "missing"
    # That 1.a1 was removed by retention stands in a slot that cannot be read any more.
    assert [(c["name"], c["ok"], c["in_journal"]) for c in said["checkpoints"] if c["step"] > 1] == [
        ("12.a1", True, False), ("8.a1", True, False), ("4.a1", True, False)]  # fmt: skip
    assert said["error"]["next_command"].split()[:2] == ["unbroken", "doctor"]
    status, out, _ = unbroken("verify", copied)
    assert status == 66 and f"journal/{3:020}" in out and "12.a1" in out


@pytest.mark.parametrize(
    ("at", "names"), [("newest", ["12.a1"]), ("8", ["8.a1"]), ("4.a1", ["4.a1"]), ("7", []), ("8.a2", []), ("tag:x", [])]
)
def test_verify_of_one_checkpoint_reads_that_one_only_beside_a_broken_journal(at, names, copied):
    slot(copied, 3).write_bytes(b"junk")
    status, said = unbroken_json("verify", copied, at)
    assert status == 66 and [e["object"] for e in said["journal"]["errors"]] == [f"journal/{3:020}"]
    assert [c["name"] for c in said["checkpoints"]] == names
    assert said["journal"]["notes"] == ([] if names else [f"no checkpoint {at} was found"])


def test_verify_refuses_what_names_no_checkpoint_beside_a_broken_journal_too(copied):
    slot(copied, 3).write_bytes(b"junk")
    assert unbroken("verify", copied, "best:")[0] == 78


def test_verify_names_a_missing_slot_0_a_cut_tail_and_damage_beside_it(copied):
    last = int(journal_files(copied)[-1])
    slot(copied, last).unlink()  # the hint names it
    flipped = next((copied / "data").glob("step-000000000008.*/*.safetensors"))
    raw = bytearray(flipped.read_bytes())
    raw[-1] ^= 1
    flipped.write_bytes(raw)
    status, said = unbroken_json("verify", copied)
    assert status == 66 and [e["object"] for e in said["journal"]["errors"]] == [f"journal/{last:020}"]
    assert {c["name"]: c["ok"] for c in said["checkpoints"]} == {"12.a1": True, "8.a1": False, "4.a1": True}
    assert all(c["in_journal"] for c in said["checkpoints"])
    shutil.rmtree(copied / "journal")
    status, said = unbroken_json("verify", copied)
    assert status == 66 and f"journal/{0:020}" in [e["object"] for e in said["journal"]["errors"]]


@pytest.mark.parametrize("harm", ["junk", "hole", "none"])
def test_the_advice_leads_on_and_not_around(harm, copied):
    if harm == "junk":
        slot(copied, 3).write_bytes(b"junk")
    elif harm == "hole":
        slot(copied, 3).unlink()
    else:
        shutil.rmtree(copied / "journal")
    for command in ("ls", "verify"):
        status, said = unbroken_json(command, copied)
        assert status == 66 and said["error"]["next_command"].split()[:2] == ["unbroken", "doctor"], command
    status, _, err = start(copied)
    assert status == 66 and f"unbroken doctor {copied}" in err
    status, found = doctor(copied)
    assert status == 66
    for error in errors(found):  # what it says to do can be done: it brings the tensors of the newest back
        assert error["next_command"].split()[:2] == ["unbroken", "import"]
    assert program.run([program.PROGRAM, *error["next_command"].split()[1:]])[0] == 0
    status, listed = unbroken_json("ls", f"{copied}.step-12")
    assert status == 0 and [c["step"] for c in listed["checkpoints"]] == [12]


def test_a_slot_is_declared_void_and_the_run_goes_on(copied):
    last = spoil_last(copied)
    assert unbroken("ls", copied)[0] == start(copied)[0] == 66
    status, found = doctor(copied)
    assert status == 66 and {e["next_command"] for e in errors(found)} == {f"unbroken doctor {copied} --void {last}"}
    for wrong in (last - 1, last + 1):
        assert unbroken("doctor", copied, "--void", wrong)[0] == 78
        assert int(journal_files(copied)[-1]) == last
    assert unbroken("doctor", copied, "--void", last, env={"UNBROKEN_KILL": "void.before_create:1:kill"})[0] == -9
    status, said = unbroken_json("doctor", copied, "--void", last)
    assert status == 0 and said["resumable"], said
    assert int(journal_files(copied)[-1]) == last + 1 and slot(copied, last).read_bytes() == b"junk"
    assert unbroken("verify", copied)[0] == 0
    assert unbroken("doctor", copied, "--void", last)[0] == 78
    status, _, err = start(copied)
    assert status == 0, err
    assert max(c["attempt"] for c in unbroken_json("ls", copied)[1]["checkpoints"]) == 3
    assert unbroken("verify", copied)[0] == 0


def test_void_is_refused_where_it_would_not_mend_it(copied):
    before = journal_files(copied)
    assert unbroken("doctor", copied, "--void", len(before) - 1)[0] == 78  # whole
    slot(copied, 3).write_bytes(b"junk")
    assert unbroken("doctor", copied, "--void", 3)[0] in (66, 78)  # later slots are there
    assert journal_files(copied) == before
    for no_slot in ("x", "-1", "", "1e3", "99999999999999999999999"):
        status, _, err = unbroken("doctor", copied, f"--void={no_slot}")
        assert status == 78 and "--void" in err, no_slot


@pytest.mark.parametrize("of", [0, -1])
def test_a_whole_record_of_another_slot_is_junk_like_any_other(of, copied):
    files = [copied / "journal" / name for name in journal_files(copied)]
    new = len(files)
    slot(copied, new).write_bytes(files[of].read_bytes())
    status, found = doctor(copied)
    assert status == 66 and {e["next_command"] for e in errors(found)} == {f"unbroken doctor {copied} --void {new}"}
    assert unbroken("doctor", copied, "--void", new)[0] == 0
    assert start(copied)[0] == 0
    assert unbroken("verify", copied)[0] == 0


def test_a_record_of_another_run_is_no_junk_that_can_be_given_up(copied, tmp_path):
    """It may be the true one, where the record before it was exchanged."""
    new = len(journal_files(copied))
    train(tmp_path / "other", 20, 1, code=program.SAVING)
    slot(copied, new).write_bytes(slot(tmp_path / "other", new).read_bytes())
    status, found = doctor(copied)
    assert status == 66 and not any("--void" in e["next_command"] for e in errors(found))
    assert unbroken("doctor", copied, "--void", new)[0] == 66


STRANGE = {
    "file": lambda path: path.write_bytes(b"something"),
    "link": lambda path: path.symlink_to("../elsewhere"),
    "pipe": os.mkfifo,
    "folder": os.mkdir,
}
#: what verify, doctor and a start come to where this name is something else
COMES_TO = {
    "journal": (66, 66, 66),
    "data": (65, 66, 66),
    "RUN": (65, 65, 0),
    "hint": (0, 0, 0),
    "metrics": (0, 0, 0),
}


#: a folder is nothing else where a folder belongs
ELSE = [(name, harm) for name in COMES_TO for harm in STRANGE if harm != "folder" or name in ("RUN", "hint")]


@pytest.mark.parametrize("name, harm", ELSE)
def test_a_name_that_is_something_else(name, harm, copied):
    path = copied / name
    elsewhere = copied.parent / "elsewhere"
    path.rename(elsewhere)
    STRANGE[harm](path)
    before = journal_files(elsewhere.parent / "run") if name != "journal" else None
    want_verify, want_doctor, want_start = COMES_TO[name]
    status, said = unbroken_json("verify", copied)
    assert status == want_verify
    everything = said["journal"]["errors"] + [e for c in said["checkpoints"] for e in c["errors"]]
    assert (want_verify == 0) == (not everything)
    assert want_verify == 0 or any(e["object"].split("/")[0] == name for e in everything), everything
    status, found = doctor(copied)
    assert status == want_doctor
    assert name == "hint" or any(f["object"].split("/")[0] == name for f in found["findings"]), found
    status, _, err = start(copied)
    assert status == want_start, err
    if want_start:
        assert "fresh" not in err.splitlines()[0], err
        assert any(command in err for command in ("unbroken doctor", "namei", "ls -l")), err
        assert before is None or journal_files(copied) == before, "nothing is appended, nor put aside as damaged"
        path.unlink() if harm != "folder" else path.rmdir()
        elsewhere.rename(path)
        assert start(copied)[0] == 0
