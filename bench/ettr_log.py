"""What the lives of a killed training came to: every second of them in exactly one place."""

import math
import struct
from dataclasses import dataclass, field

# step, begin and end of its boundary (monotonic; the first note: of the restore), saves that committed so far, of the
# last of them the step, the time for which the loop waited and that until it was durable, and the interval aimed at.
NOTE = struct.Struct("<QddQQddd")


@dataclass
class Step:
    number: int
    work_s: float
    boundary_s: float
    end: float
    is_saved: bool
    persist_s: float | None  # none: the life ended before that was known


@dataclass
class Life:
    """From the start of a process (`begins`) over the kill (`killed`) until it is gone (`ended`)."""
    begins: float
    killed: float
    ended: float
    restored: float | None = None  # none: killed before
    start: int = 0  # completed steps that it went on from
    steps: list[Step] = field(default_factory=list)
    tail_s: float = 0.0  # from the end of the last boundary to the kill

    @property
    def recovery_s(self):
        """Until the first step; until the kill where there was none."""
        return (self.killed if self.restored is None else self.restored) - self.begins

    def intervals(self):
        """Work between one save and the next, each in seconds; not that before the first."""
        out, work_s = [], 0.0
        for step in self.steps:
            work_s += step.work_s
            if step.is_saved:
                out.append(work_s)
                work_s = 0.0
            else:
                work_s += step.boundary_s
        return out[1:]


def life_of(begins, killed, ended, notes):
    rows = [NOTE.unpack_from(notes, at) for at in range(0, len(notes) - NOTE.size + 1, NOTE.size)]
    rows = [row for row in rows if row[2] <= killed]
    life = Life(begins, killed, ended)
    if not rows:
        return life
    life.start, life.restored = rows[0][0], rows[0][2]
    life.tail_s = killed - rows[-1][2]
    # What committed is known by its step. After that at most one save was taken, as nothing falls due while one is
    # on its way: the longest boundary, if it took as long as a save does.
    saves = {row[4]: (row[5], row[6]) for row in rows if row[3]}
    newest = max(saves, default=life.start)
    stall_min_s = min((wait_s for wait_s, _ in saves.values()), default=math.inf) / 2
    last = max((row for row in rows[1:] if row[0] > newest), key=lambda row: row[2] - row[1], default=None)
    cut = last[0] if last is not None and last[2] - last[1] > stall_min_s else None
    if not saves and len(rows) > 1:
        cut = life.start + 1  # the first step is always saved
    for before, (number, begin, end, *_) in zip(rows, rows[1:]):
        persist_s = saves[number][1] if number in saves else None
        is_saved = number in saves or number == cut
        life.steps.append(Step(number, begin - before[2], end - begin, end, is_saved, persist_s))
    return life


def mean(values, cut=()):
    """The mean of times, of which some were cut short and are only known to be longer (Kaplan and Meier)."""
    values, cut = sorted(values), sorted(cut)
    total = last = 0.0
    surviving = 1.0
    for i, value in enumerate(values):
        total += surviving * (value - last)
        last = value
        at_risk = len(values) - i + sum(1 for one in cut if one >= value)
        surviving *= 1 - 1 / at_risk
    return total


def costs(lives):
    """What each phase takes, in seconds. `intervals` are all that there were."""
    firsts = [life.steps[0] for life in lives if life.steps]
    later = [step for life in lives for step in life.steps[1:] if step.is_saved]
    saves = [(life, step) for life in lives for step in life.steps if step.is_saved]
    intervals = [one for life in lives for one in life.intervals()]
    exits = [0.0, *(life.ended - life.killed for life in lives[:-1])]
    recoveries = [(life, exit_s + life.recovery_s) for exit_s, life in zip(exits, lives)]
    return {"step_s": mean(step.work_s for life in lives for step in life.steps),
            "first_step_s": mean(step.work_s for step in firsts),
            "first_stall_s": mean(step.boundary_s for step in firsts),
            "stall_s": mean(step.boundary_s for step in later),
            "persist_s": mean((step.persist_s for _, step in saves if step.persist_s is not None),
                              (life.killed - step.end for life, step in saves if step.persist_s is None)),
            "recovery_s": mean((s for life, s in recoveries if life.restored is not None),
                               (s for life, s in recoveries if life.restored is None)),
            "interval_s": mean(intervals), "intervals": intervals, "saves": len(saves)}


def account(lives, stands_at):
    """Seconds: work that stands, and everything else, by what it went to; the sum is the wall clock."""
    out = dict.fromkeys(("work", "stall", "lost_work", "persist_lag", "start", "exit"), 0.0)
    stands = stands_at
    for life, following in zip(reversed(lives), [None, *reversed(lives)]):
        if following is not None:
            out["exit"] += life.ended - life.killed  # of the last one nobody waits for
        out["start"] += life.recovery_s
        if life.restored is None:
            continue
        newest = max((step.number for step in life.steps if step.is_saved), default=0)
        for step in life.steps:
            place = "work" if step.number <= stands else "persist_lag" if step.number <= newest else "lost_work"
            out[place] += step.work_s + (0.0 if step.is_saved else step.boundary_s)
            if step.is_saved:
                out["stall"] += step.boundary_s
        out["lost_work"] += life.tail_s
        stands = life.start
    return out
