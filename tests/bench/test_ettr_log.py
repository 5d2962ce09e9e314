"""The accounts of a live campaign: every second of its lives in exactly one place, whatever was cut short."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import ettr_log  # noqa: E402


def notes(restored, start, steps):
    """Steps as (work, boundary, was saved, commit seen at its end: (step, stall, persist) or None); 2.2 s are aimed at."""
    at, saves, last = restored, 0, (0, 0.0, 0.0)
    out = [ettr_log.NOTE.pack(start, restored, restored, False, 0, 0, 0.0, 0.0, 0.0)]
    for i, (work, boundary, is_saved, committed) in enumerate(steps, start + 1):
        if committed is not None:
            saves, last = saves + 1, committed
        out.append(ettr_log.NOTE.pack(i, at + work, at + work + boundary, is_saved, saves, *last, 2.2))
        at += work + boundary
    return b"".join(out)


FIRST = ettr_log.life_of(100.0, 107.0, 107.5, notes(101.0, 0, [
    (1.0, 0.2, True, None), (1.0, 0.01, False, (1, 0.2, 0.5)), (1.0, 0.1, True, None), (1.0, 0.01, False, (3, 0.1, 0.4)),
    (1.0, 0.1, True, None)]))
UNBORN = ettr_log.life_of(200.0, 200.4, 200.5, b"")
LAST = ettr_log.life_of(300.0, 303.0, 303.1, notes(301.0, 3, [(1.0, 0.3, True, None)]))


def test_a_save_is_known_whatever_its_boundary_took():
    busy = ettr_log.life_of(0.0, 9.0, 9.0, notes(1.0, 0, [
        (1.0, 0.2, True, None), (1.0, 0.01, False, (1, 0.2, 0.5)), (1.0, 0.01, True, None), (1.0, 0.9, False, None)]))
    assert [step.is_saved for step in busy.steps] == [True, False, True, False], "the machine was busy at the last"
    assert [step.persist_s for step in busy.steps] == [0.5, None, None, None]
    assert [step.persist_s for step in FIRST.steps] == [0.5, None, 0.4, None, None]


def test_an_interval_that_was_cut_short_counts_as_long_as_it_would_have_become():
    assert FIRST.intervals() == pytest.approx([2.01, 2.01, 2.2])
    assert LAST.intervals() == pytest.approx([2.2])
    late = ettr_log.life_of(0.0, 9.0, 9.0, notes(1.0, 0, [(1.0, 0.2, True, None), (1.0, 0.01, False, (1, 0.2, 0.5))]))
    assert late.intervals() == pytest.approx([9 - 2.2]), "the kill came after it was due"
    assert UNBORN.intervals() == []


def test_every_second_is_in_one_place():
    spent = ettr_log.account([FIRST, UNBORN, LAST], stands_at=4)
    assert spent == pytest.approx({
        "work": 1 + 1.01 + 1 + 1, "stall": 0.2 + 0.1 + 0.1 + 0.3, "persist_lag": 1.01 + 1, "lost_work": 7 - 6.42 + 0.7,
        "start": 1 + 0.4 + 1, "exit": 0.5 + 0.1})
    assert sum(spent.values()) == pytest.approx(7.5 + 0.5 + 3)
    assert ettr_log.works([FIRST, UNBORN, LAST], stands_at=4) == pytest.approx([3.01, 0, 1])


def test_a_save_that_committed_before_its_note_counts():
    assert ettr_log.works([LAST], stands_at=5) == pytest.approx([1 + 0.7])
    spent = ettr_log.account([LAST], stands_at=5)
    assert spent["lost_work"] == spent["persist_lag"] == pytest.approx(0)
    assert sum(spent.values()) == pytest.approx(3)


@pytest.mark.parametrize("stands_at", [2, 4])
def test_a_life_that_is_missing_is_noticed(stands_at):
    with pytest.raises(ValueError, match=f"step {stands_at} was gone on from"):
        ettr_log.works([FIRST], stands_at)


def test_what_a_kill_cut_short_counts_as_longer():
    assert ettr_log.mean([1, 3]) == 2
    assert ettr_log.mean([1, 3], cut=[0.5]) == 2
    assert ettr_log.mean([1, 3], cut=[2]) == pytest.approx(1 + 2 / 3 * 2)
    assert ettr_log.mean([1, 3], cut=[9]) == pytest.approx(1 + 2 / 3 * 2 + 1 / 3 * 6)
    assert ettr_log.mean([]) == 0
    costs = ettr_log.costs([FIRST, UNBORN, LAST])
    assert costs["recovery_s"] == pytest.approx(1 + 1 / 2 * 0.1), "1 s, 1.1 s with the exit before, and one of at least 0.9 s"
    assert costs["first_stall_s"] == pytest.approx(0.25)
    assert costs["stall_s"] == pytest.approx(0.1)
    assert costs["saves"] == 4
