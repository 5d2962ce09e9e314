"""`unbroken explain`: the arithmetic of an interval, in the numbers of a run."""

import json
import os
import re
import signal

import program
from program import train, unbroken, unbroken_json

KEYS = {"interval_s", "stall_s", "persist_s", "mtti_s", "mtti_ci95_s", "failures", "node_days", "prior", "recovery_s",
        "floor_s", "bound_by", "efficiency", "text"}  # fmt: skip


def test_tells_what_the_run_goes_by(trained):
    status, said = unbroken_json("explain", trained)
    assert status == 0 and set(said) >= KEYS
    assert said["bound_by"] == "given" and said["stall_s"] > 0 and said["persist_s"] > 0
    low, high = (float(end) for end in said["mtti_ci95_s"])  # "Infinity" while next to nothing is known
    assert low < said["mtti_s"] < high and 0 < said["efficiency"] <= 1
    status, out, _ = unbroken("explain", trained)
    assert status == 0 and out == said["text"] + "\n" and re.match(r"every \S+.*: given; the optimum is .* with d = ", out)


def test_is_66_where_no_save_was_made(tmp_path, trained, copied):
    for path in (copied / "metrics").glob("*.account"):
        path.unlink()
    assert unbroken("explain", copied)[0] == 66
    assert unbroken("explain", tmp_path / "nothing")[0] == 66
    status, out, _ = unbroken("explain", copied, "--json")
    error = json.loads(out)["error"]
    assert error["exit_code"] == 66 and error["next_command"].startswith("unbroken ls ")


def test_believes_no_account_that_is_damaged(copied):
    for path in (copied / "metrics").glob("*.account"):
        path.write_bytes(path.read_bytes().replace(b"stall_s", b"stall_t", 1))
    status, _, err = unbroken("explain", copied)
    assert status == 66 and "metrics/a0001.account is damaged" in err


def test_says_which_lives_it_cannot_tell_of(tmp_path):
    for steps in (6, 12):
        train(tmp_path / "run", steps, 2)
    (tmp_path / "run/metrics/a0002.account").write_bytes(b"")
    said = unbroken_json("explain", tmp_path / "run")[1]
    assert said["attempt"] == 1 and len(said["passed_over"]) == 1
    assert "attempt 2: metrics/a0002.account is damaged" in said["text"]


def test_says_that_an_end_is_not_counted_yet(tmp_path):
    process = program.start(program.python(program.SAVING, tmp_path / "run", 100000, 1, 0.01))
    try:
        while unbroken("explain", tmp_path / "run")[0] != 0:
            assert process.poll() is None, process.communicate()
        assert "counts from the next start on" not in unbroken("explain", tmp_path / "run")[1]
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert "this life has ended without a close" in unbroken_json("explain", tmp_path / "run")[1]["text"]


def test_a_second_life_goes_by_the_first(tmp_path):
    train(tmp_path / "run", 6, 2)
    train(tmp_path / "run", 12, 2)
    said = unbroken_json("explain", tmp_path / "run")[1]
    assert said["failures"] == 0 and said["node_days"] > 0
