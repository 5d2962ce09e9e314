"""The live campaign's comparison, on campaigns whose truth is known: they are made up, event by event, from chance."""

import argparse
import json
import math
import random
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("bench", "tests/cli")]
import ettr  # noqa: E402
import ettr_log  # noqa: E402
import program  # noqa: E402

MTTI_S, STEP_S = 8.0, 0.02


class Made:
    """A training that is killed again and again. Its stalls, lags and intervals are all drawn; the machine is busy."""

    def __init__(self, kills, seed):
        self.chance = random.Random(seed)
        self.lives, self.stands, self.work_s, self.now_s = [], 0, {0: 0.0}, 0.0
        for _ in range(kills):
            self.live()

    def around(self, mean):
        return self.chance.lognormvariate(math.log(mean) - 0.32, 0.8)

    def live(self):
        begins, self.now_s = self.now_s, self.now_s + self.chance.expovariate(1 / MTTI_S)
        killed, exit_s = self.now_s, 0.005
        at, step, notes = begins + self.around(0.6), self.stands, []
        work_s = self.work_s[step]
        on_its_way, last, saves, aimed, due = None, (0, 0.0, 0.0), 0, self.around(0.4), 0.0
        while at <= killed:
            notes.append((step, at if not notes else boundary_at, at, bool(notes) and is_saved, saves, *last, aimed))
            boundary_at = at + STEP_S * self.chance.uniform(1, 1.6)
            if on_its_way and on_its_way[0] <= min(boundary_at, killed):
                saves, last, self.stands = saves + 1, on_its_way[1], on_its_way[1][0]
                aimed, on_its_way = self.around(0.4), None
            step += 1
            is_saved = len(notes) == 1 or (on_its_way is None and boundary_at - due >= aimed)
            slow = self.chance.random() < 0.02  # somebody else's turn on this core, which is no save
            boundary_s = self.around(0.015) if is_saved or slow else 0.0003
            work_s += boundary_at - at + (0 if is_saved else boundary_s)
            at = boundary_at + boundary_s
            if is_saved:
                lag_s = self.around(0.08)
                on_its_way, due = (at + lag_s, (step, boundary_s, lag_s)), at
                self.work_s[step] = work_s
        raw = b"".join(ettr_log.NOTE.pack(*note) for note in notes)
        self.lives.append(ettr_log.life_of(begins, killed, killed + exit_s, raw))
        self.now_s += exit_s


@pytest.fixture(scope="module")
def made():
    return Made(kills=400, seed=5)


def follow(made, folder, **changed):
    options = argparse.Namespace(program=str(program.PROGRAM), mtti=MTTI_S, seed=1, **changed)
    works = ettr_log.works(made.lives, made.stands)
    return works, *ettr.follow(options, folder, made.lives, works, blocks=8, draws=2)


def test_the_account_gives_the_work_that_stands(made):
    assert math.isclose(sum(ettr_log.works(made.lives, made.stands)), made.work_s[made.stands], rel_tol=1e-9)
    spent = ettr_log.account(made.lives, made.stands)
    assert math.isclose(spent["work"], made.work_s[made.stands], rel_tol=1e-9)
    assert math.isclose(sum(spent.values()), made.now_s - 0.005, rel_tol=1e-9)


def test_the_simulator_agrees_with_a_training_of_that_kind(made, tmp_path):
    works, simulated_s, apart_s, skipped = follow(made, tmp_path)
    assert apart_s / simulated_s < ettr.AGREES / 2, "else the comparison below means nothing"
    assert abs(sum(works) / simulated_s - 1) <= ettr.AGREES
    assert skipped == 0


@pytest.mark.parametrize("cost", ["stall_s", "persist_s", "first_stall_s"])
def test_and_differs_where_a_cost_is_wrong(made, tmp_path, monkeypatch, cost):
    true = ettr_log.costs(made.lives)
    monkeypatch.setattr(ettr_log, "costs", lambda lives: {**true, cost: 0.0 if cost == "persist_s" else true[cost] + 0.2})
    works, simulated_s, *_ = follow(made, tmp_path)
    assert abs(sum(works) / simulated_s - 1) > ettr.AGREES


def test_a_campaign_in_slices_is_the_same_campaign(tmp_path, monkeypatch):
    asked = []

    def live(folder, number, for_s, options):
        asked.append((number, for_s))
        with open(folder / "lives.jsonl", "a") as out:
            out.write(json.dumps({"begins": 0.0, "killed": for_s, "ended": for_s}) + "\n")

    monkeypatch.setattr(ettr, "live", live)
    options = argparse.Namespace(kills=5, mtti=2.0, step=0.02, mib=8, seed=3, slice=2)
    assert [len(ettr.campaign(options, tmp_path)) for _ in range(4)] == [2, 4, 5, 5]
    assert asked == list(enumerate(ettr.kill_times(options)))
    options.seed = 4
    with pytest.raises(SystemExit, match="other flags"):
        ettr.campaign(options, tmp_path)
