"""doctor: what it finds, how it ends, what it says to do next; and that it never writes."""

import json
import os
import re
import shlex
import shutil
import signal

import program
import pytest
from program import train, unbroken, unbroken_json


def doctor(directory):
    status, found = unbroken_json("doctor", directory)
    assert set(found) == {"ok", "resumable", "last_end", "findings"}, found
    for finding in found["findings"]:
        assert set(finding) == {"severity", "object", "what", "next_command"}
        assert finding["severity"] in ("note", "warning", "error")
        assert finding["severity"] != "error" or finding["next_command"]
    assert found["ok"] == (status == 0) and found["resumable"] == (status != 66)
    text_status, out, _ = unbroken("doctor", directory)
    assert text_status == status and all(finding["object"] in out for finding in found["findings"])
    return status, found


def errors(found):
    return [finding for finding in found["findings"] if finding["severity"] == "error"]


def flip(path, at=-1):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def shard(directory, step):
    return next((directory / "data").glob(f"step-{step:012d}.*/*.safetensors"))


def test_a_whole_run(trained):
    status, found = doctor(trained)
    assert status == 0 and errors(found) == []
    assert found["last_end"]["attempt"] == 1 and "orderly" in found["last_end"]["why"]


def test_it_never_writes(trained):
    def picture():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in trained.rglob("*")}

    before = picture()
    doctor(trained)
    assert picture() == before


def test_damage_with_something_left(copied):
    flip(shard(copied, 12))
    status, found = doctor(copied)
    assert status == 65
    (error,) = errors(found)
    assert error["object"].startswith("data/step-000000000012") and "12.a1" in error["next_command"]
    assert unbroken(*error["next_command"].split()[1:])[0] == 65  # and it leads on


def test_nothing_left(copied):
    for step in (4, 8, 12):
        flip(shard(copied, step))
    status, found = doctor(copied)
    assert status == 66 and any(error["object"] == "journal" for error in errors(found))


def test_a_journal_that_cannot_be_read(copied):
    (copied / "journal/00000000000000000003").unlink()
    status, found = doctor(copied)
    assert status == 66 and found["last_end"] is None and "slot" in errors(found)[0]["what"]
    shutil.rmtree(copied / "journal")
    assert doctor(copied)[0] == 66


def test_a_repaired_record_and_the_object_run(copied):
    flip(copied / "journal/00000000000000000001", 5)
    flip(copied / "RUN", 5)
    status, found = doctor(copied)
    assert status == 65
    assert {error["object"] for error in errors(found)} == {"journal/00000000000000000001", "RUN"}


def test_what_doctor_says_of_a_damaged_run_object_mends_it(copied):
    flip(copied / "RUN", 5)
    (said,) = errors(doctor(copied)[1])
    train(copied, 14, 4)
    assert doctor(copied)[0] == 65  # a start goes past it, and takes nothing away
    assert shlex.split(said["next_command"]) == ["rm", str(copied / "RUN")]
    (copied / "RUN").unlink()
    train(copied, 16, 4)
    assert doctor(copied)[0] == unbroken("verify", copied)[0] == 0


def test_the_object_run_is_judged_as_verify_does(copied):
    (copied / "RUN").unlink()
    assert doctor(copied)[0] == unbroken("verify", copied)[0] == 65  # a start went past it
    for path in copied.iterdir():
        if path.name != "journal":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for slot in sorted((copied / "journal").iterdir())[1:]:
        slot.unlink()
    _, found = doctor(copied)
    assert [f["severity"] for f in found["findings"] if f["object"] == "RUN"] == ["note"]
    assert unbroken("verify", copied)[0] == 0


def test_debris_is_a_note(copied):
    (copied / "data/step-000000000099.a0001.t0").mkdir()
    status, found = doctor(copied)
    assert status == 0 and [f["severity"] for f in found["findings"] if "000099" in f["object"]] == ["note"]


def test_what_is_no_run_is_66(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        status, out, _ = unbroken("doctor", tmp_path / name, "--json")
        assert status == 66 and json.loads(out)["error"]["kind"] == "NothingToResume"


def test_why_the_last_life_ended(tmp_path):
    process = program.start(program.python(program.SAVING, tmp_path / "run", 100000, 1, 0.01))
    try:
        while not has_checkpoint(tmp_path / "run"):
            assert process.poll() is None, process.communicate()
        _, found = doctor_alive(tmp_path / "run")
        assert "goes on" in found["last_end"]["why"] and found["last_end"]["code"] is None
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    status, found = doctor(tmp_path / "run")
    assert status == 0
    assert re.search("killed or crashed", found["last_end"]["why"]) and found["last_end"]["code"] == 80


def has_checkpoint(directory):
    """True once one is committed, not only written."""
    status, listed = unbroken_json("ls", directory)
    return status == 0 and bool(listed["checkpoints"])


def doctor_alive(directory):
    """While it is being written: retention may take what is looked at."""
    return unbroken_json("doctor", directory)


def test_metrics_that_are_no_folder_are_looked_at(copied):
    shutil.rmtree(copied / "metrics")
    (copied / "metrics").write_text("")
    findings = doctor(copied)[1]["findings"]
    assert [f["next_command"] for f in findings if f["object"] == "metrics"] == [f"namei -l {copied}/metrics"]


ENDS = """
import os, signal, sys, unbroken
with unbroken.Run(sys.argv[1], every=2) as run:
    for step in run.steps(6):
        if step == 3 and sys.argv[2] == "stop":
            os.kill(os.getpid(), signal.SIGTERM)
        if step == 3 and sys.argv[2] == "fail":
            raise ValueError
"""


@pytest.mark.parametrize(("how", "code", "why"), [("finish", 0, "came to its end"), ("stop", 75, "asked to stop"), ("fail", 1, "error")])
def test_how_a_life_closed(how, code, why, tmp_path):
    assert program.run(program.python(ENDS, tmp_path / "run", how))[0] == code
    end = doctor(tmp_path / "run")[1]["last_end"]
    assert end["code"] == code and "orderly" in end["why"] and why in end["why"]


LEFT = """
import sys, unbroken
with unbroken.Run(sys.argv[1], every=1000) as run:
    for step in run.steps(50):
        if step == 20:
            break
"""


def test_a_loop_that_was_left_closed_with_steps_that_nothing_holds(tmp_path):
    assert program.run(program.python(LEFT, tmp_path / "run"))[0] == 0
    assert "the last 19 of its steps are in no checkpoint" in doctor(tmp_path / "run")[1]["last_end"]["why"]


CRASHES = """
import os, signal, sys, unbroken
class Touchy:
    n = 0
    def state_dict(self):
        return {"n": self.n}
    def load_state_dict(self, state):
        self.n = state["n"]
        if self.n == 4:
            os.kill(os.getpid(), int(sys.argv[3]))
touchy = Touchy()
with unbroken.Run(sys.argv[1], every=2, resume=sys.argv[4]) as run:
    run.attach(touchy=touchy)
    for step in run.steps(int(sys.argv[2])):
        touchy.n += 1
"""


def crashing(directory, steps, signal, resume="newest"):
    return program.run(program.python(CRASHES, directory, steps, int(signal), resume))


def test_a_checkpoint_that_crashes_its_loader_twice_is_not_taken_a_third_time(tmp_path):
    run = tmp_path / "run"
    assert crashing(run, 4, signal.SIGSEGV)[0] == 0
    for _ in range(2):
        assert crashing(run, 8, signal.SIGSEGV)[0] == -signal.SIGSEGV
    status, found = doctor(run)
    assert status == 0 and any("crashed of signal 11 while they loaded 4.a1" in one["what"] for one in found["findings"])
    assert "nothing is wrong" not in unbroken("doctor", run)[1]
    status, _, err = crashing(run, 8, signal.SIGSEGV)
    said = r"the last 2 attempts crashed of signal 11 while they loaded 4\.a1: going on from [1-3]\.a1 instead"
    assert status == 0 and re.search(said, err), err
    assert max(one["step"] for one in unbroken_json("ls", run)[1]["checkpoints"]) == 8
    assert "nothing is wrong" in unbroken("doctor", run)[1]
    assert crashing(run, 12, signal.SIGSEGV, "4.a1")[0] == -signal.SIGSEGV  # it is there, for who asks for it


def test_who_was_killed_from_outside_leaves_its_checkpoint_to_the_next_one(tmp_path):
    run = tmp_path / "run"
    assert crashing(run, 4, signal.SIGKILL)[0] == 0
    for _ in range(3):
        status, _, err = crashing(run, 8, signal.SIGKILL)
        assert status == -signal.SIGKILL and "resumed from 4.a1" in err
    found = doctor(run)[1]["findings"]
    assert any("the last 3 attempts resumed from 4.a1 and ended before they saved anything" in one["what"] for one in found)
