"""`unbroken trace`: the lives and saves of a run in the Trace Event Format."""

import json
import math

import program
from program import train, unbroken, unbroken_json


def spans(said, row):
    """(attempt, name, begin, end) in microseconds of the spans in a row."""
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in said["traceEvents"] if e["name"] == "thread_name"}
    return [(e["pid"], e["name"], e["ts"], e["ts"] + e["dur"]) for e in said["traceEvents"]
            if e["ph"] == "X" and rows[e["pid"], e["tid"]] == row]  # fmt: skip


def test_shows_every_life_and_every_save_in_its_phases(tmp_path):
    directory = tmp_path / "run"
    train(directory, 6, 3, code=program.SAVING)
    train(directory, 12, 3, code=program.SAVING)
    status, said = unbroken_json("trace", directory)
    assert status == 0
    assert [(attempt, name) for attempt, name, *_ in spans(said, "life")] == [(1, "from the beginning"), (2, "from 6.a1")]
    saved = {(attempt, name): (begin, end) for attempt, name, begin, end in spans(said, "until durable")}
    read_back = {(attempt, name): (begin, end) for attempt, name, begin, end in spans(said, "read back")}
    assert {(1, "3.a1"), (1, "6.a1"), (2, "9.a2"), (2, "12.a2")} <= set(saved) == set(read_back)
    for key, (begin, end) in saved.items():
        assert begin < end and math.isclose(read_back[key][0], end, abs_tol=1)
    steps = {name for _, name, *_ in spans(said, "training") if name.startswith("steps")}
    assert "steps 10 to 12" in steps
    lives = {attempt: (begin, end) for attempt, _, begin, end in spans(said, "life")}
    for (attempt, _), (begin, end) in read_back.items():
        assert lives[attempt][0] <= begin <= end <= lives[attempt][1] + 1  # of rounding


def test_shows_what_the_journal_knows_where_the_times_are_torn_or_foreign(copied):
    names = {name for _, name, *_ in spans(unbroken_json("trace", copied)[1], "read back")}
    path = copied / "metrics/a0001.saves"
    lines = path.read_text().splitlines(keepends=True)
    foreign = json.loads(lines[1]) | {"open": 77}
    path.write_text(lines[0] + json.dumps(foreign) + "\n" + '{"no": 1}\n[]\n' + lines[-1][:20])
    status, said = unbroken_json("trace", copied)
    assert status == 0
    assert [name for _, name, *_ in spans(said, "read back")] == [f"{json.loads(lines[0])['step']}.a1"]
    path.unlink()
    said = unbroken_json("trace", copied)[1]
    committed = {e["name"] for e in said["traceEvents"] if e["ph"] == "i"}
    assert committed and committed <= names and not spans(said, "read back")


def test_is_66_where_there_is_no_run(tmp_path):
    assert unbroken("trace", tmp_path / "nothing")[0] == 66
