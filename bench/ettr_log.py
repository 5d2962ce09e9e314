"""What the lives of a killed training came to: every second of them in exactly one place."""

import struct
from dataclasses import dataclass, field

# step, begin and end of its boundary (monotonic; the first note: of the restore), whether a save was taken in it, saves
# that committed so far, of the last of them the step, the time for which the loop waited and that until it was durable,
# and the interval aimed at.
NOTE = struct.Struct("<QddQQQddd")


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
    aimed_s: float = 0.0  # the interval that the run chose last

    @property
    def recovery_s(self):
        """Until the first step; until the kill where there was none."""
        return (self.killed if self.restored is None else self.restored) - self.begins

    def intervals(self):
        """Work between one save and the next, each in seconds; not that before the first. The one that the kill cut
        short counts as long as it would have become: left out, it would make long intervals rarer than they are."""
        out, work_s = [], 0.0
        for step in self.steps:
            work_s += step.work_s
            if step.is_saved:
                out.append(work_s)
                work_s = 0.0
            else:
                work_s += step.boundary_s
        return [*out[1:], max(work_s + self.tail_s, self.aimed_s)] if out else []


def life_of(begins, killed, ended, notes):
    rows = [NOTE.unpack_from(notes, at) for at in range(0, len(notes) - NOTE.size + 1, NOTE.size)]
    rows = [row for row in rows if row[2] <= killed]
    life = Life(begins, killed, ended)
    if not rows:
        return life
    life.start, life.restored = rows[0][0], rows[0][2]
    life.tail_s, life.aimed_s = killed - rows[-1][2], rows[-1][8]
    persists = {row[5]: row[7] for row in rows if row[4]}
    for before, (number, begin, end, is_saved, *_) in zip(rows, rows[1:]):
        life.steps.append(Step(number, begin - before[2], end - begin, end, bool(is_saved), persists.get(number)))
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
    if cut and cut[-1] > last:
        total += surviving * (cut[-1] - last)
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


def works(lives, stands_at):
    """Of each life the seconds of work that stand at the end. ValueError: a life is missing between these."""
    out, stands = [], stands_at
    for life in reversed(lives):
        work_s = 0.0
        if life.restored is not None:
            seen = {life.start, *(step.number for step in life.steps if step.is_saved)}
            newest = life.steps[-1].number if life.steps else life.start
            if stands not in seen and stands <= newest:
                raise ValueError(f"step {stands} was gone on from, and no save of it was seen")
            work_s = sum(step.work_s + (0.0 if step.is_saved else step.boundary_s)
                         for step in life.steps if step.number <= stands)
            if stands > newest:  # its save committed, and the kill came before the note
                work_s += life.tail_s
            stands = life.start
        out.append(work_s)
    return out[::-1]


def account(lives, stands_at):
    """Seconds: work that stands, and everything else, by what it went to; the sum is the wall clock."""
    out = dict.fromkeys(("work", "stall", "lost_work", "persist_lag", "start", "exit"), 0.0)
    for i, (life, work_s) in enumerate(zip(lives, works(lives, stands_at))):
        if i + 1 < len(lives):
            out["exit"] += life.ended - life.killed  # of the last one nobody waits for
        out["start"] += life.recovery_s
        if life.restored is None:
            continue
        newest = max((step.number for step in life.steps if step.is_saved), default=0)
        stall_s = sum(step.boundary_s for step in life.steps if step.is_saved)
        saved_s = sum(step.work_s + (0.0 if step.is_saved else step.boundary_s)
                      for step in life.steps if step.number <= newest)
        out["work"] += work_s
        out["stall"] += stall_s
        out["persist_lag"] += max(0.0, saved_s - work_s)
        out["lost_work"] += life.killed - life.restored - stall_s - max(saved_s, work_s)
    return out
