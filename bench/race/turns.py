"""What every race is: who takes part, who is open at one time, turns in rounds, and those who fall out."""

import shutil
import time

import rivals
from race import figures, state
from race.field import MIB, Child, Failed, Yardstick, note
from race.machine import available_bytes

GIB = 1 << 30
STATES_MAX = 2.5  # memory of one entrant, in states
SHARE = 0.6  # of the memory that is there, for a group


def groups(names, nbytes, available):
    """Those who are open at one time, ours in each of them: as many as memory holds."""
    others = [name for name in names if name != rivals.OURS]
    many = max(1, int(available * SHARE / (STATES_MAX * max(nbytes, 64 * MIB))) - 1)
    ours = [rivals.OURS] if rivals.OURS in names else []
    return [ours + others[at:at + many] for at in range(0, len(others), many)] or [ours]


class Entry:
    """An entrant in one group."""

    def __init__(self, child, opened, group):
        self.child, self.version, self.tensors, self.group = child, opened["version"], opened["tensors"], group
        self.raw_s, self.equal, self.at, self.number = [], None, None, 0

    def next_folder(self):
        """Where the next save goes: new and empty."""
        self.number += 1
        folder = self.child.folder / f"save-{self.number:04}"
        folder.mkdir()
        return folder

    def saved_at(self, folder):
        """That save took the place of the one before it, which is removed."""
        old, self.at = self.at, folder
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)

    def check(self):
        """Whether what was loaded is what was saved."""
        equal = self.child.order("check")["equal"]
        self.equal = equal if self.equal is None else self.equal and equal


class Turns:
    """One case of one shape. `turns`: every clocked turn in its order. Another class says what a turn is."""

    case = ""
    first = "raw"  # of the machine's own, whose turn is among the entrants'

    def __init__(self, shape, mib, repeats, folder, names):
        self.shape, self.mib, self.repeats, self.folder, self.names = shape, mib, repeats, folder, names
        self.nbytes = sum(state.sizes(shape, mib))
        self.turns, self.entries, self.raw, self.extra = [], {}, [], {}
        self.errors, self.words, self.wall_s, self.groups = {}, {}, 0.0, []

    # -- of another class

    def prepare(self, stick):
        """Before anybody is open."""

    def entry(self, child, opened, group):
        """One who takes part, warm. Errors: Failed."""
        raise NotImplementedError

    def own_turn(self, stick):
        """The machine's: seconds."""
        raise NotImplementedError

    def turn(self, entry):
        """An entrant's: seconds. Errors: Failed."""
        raise NotImplementedError

    def beside(self, stick):
        """At the end of a round."""

    def finish(self, entry):
        """After all rounds. Errors: Failed."""

    def row(self, name):
        """What is told of one entrant: ratio, ratio_ci95 and more."""
        raise NotImplementedError

    # -- the rounds

    def run(self):
        self.groups = groups(self.names, self.nbytes, available_bytes())
        for number, group in enumerate(self.groups):
            note(f"{self.case}, {state.SHAPES.get(self.shape, self.shape + ' tensors')}: {', '.join([self.first, *group])}")
            self._run_group(self.folder / f"group-{number}", group)
        return self

    def _run_group(self, folder, group):
        opened, stick = [], Yardstick(folder / "raw")
        try:
            self.prepare(stick)
            entries = self._open(folder, group, opened)
            began = time.perf_counter()
            for number in range(self.repeats):
                self._round(number, stick, entries)
            self.wall_s += time.perf_counter() - began
            for name, entry in list(entries.items()):
                self._or_out(name, entries, self.finish, entry)
            for name, entry in entries.items():
                self.entries.setdefault(name, []).append(entry)
        finally:
            for child in opened:
                child.close()
            stick.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _open(self, folder, group, opened):
        entries = {}
        for name in group:
            self._or_out(name, entries, self._open_one, name, folder / name.replace(" ", "-"), tuple(group), opened, entries)
        return entries

    def _open_one(self, name, folder, group, opened, entries):
        child = Child(name, folder, self.folder / f"{folder.name}.log")
        opened.append(child)
        answer = child.order("open", name=name, folder=folder / "own", shape=self.shape, mib=self.mib)
        entries[name] = self.entry(child, answer, group)

    def _or_out(self, name, entries, do, *arguments):
        """What `do` gives; whoever fails falls out, and is listed with the error."""
        try:
            return do(*arguments)
        except Failed as why:
            note(f"  {name}: {why}")
            self.errors[name] = str(why)
            entries.pop(name, None)
            return None

    def _round(self, number, stick, entries):
        taken = {}
        for name in figures.turns([self.first, *entries], number):
            if name == self.first:
                taken[name] = self.own_turn(stick)
            else:
                taken[name] = self._or_out(name, entries, self.turn, entries[name])
            if taken[name] is not None:
                self.turns.append([name, taken[name]])
        self.raw.append(taken[self.first])
        for entry in entries.values():
            entry.raw_s.append(taken[self.first])
        self.beside(stick)

    # -- what it comes to

    def case_of(self, name, values, unit, **more):
        shown = figures.figure(values)
        return {"name": name, "race": self.case, "shape": self.shape, "bytes": self.nbytes, "repeats": len(values),
                "unit": unit, **shown, **more}

    def plain(self, name, unit, values):
        ratio = figures.figure(self.raw)["median"] / figures.figure(values)["median"] if unit == "s" else None
        return self.case_of(name, values, unit, ratio=figures.figure(values)["median"] if ratio is None else ratio)

    def yardstick(self):
        """The machine's own cases."""
        return [self.plain(self.first, "s", self.raw)] + [
            self.plain(f"{self.first}.{verb}", "s", [taken[0] for taken in values]) for verb, values in self.extra.items()]

    def about(self, name):
        entry = self.entries[name][0]
        return {"tensors": entry.tensors, "version": entry.version, "about": rivals.ENTRANTS[name].about}

    def result(self):
        """{"cases", "spent_s", "wall_s", "turns", "yardstick", "groups"}."""
        rows = [{**self.row(name), **self.about(name)} for name in self.names if name in self.entries]
        failed = [{"name": f"{name}.{self.case}", "race": self.case, "shape": self.shape, "bytes": self.nbytes, "repeats": 0,
                   "unit": "s", "median": None, "ci95": None, "ratio": None, "error": why}
                  for name, why in self.errors.items() if name not in self.entries]
        return {"cases": [*self.yardstick(), *rows, *failed], "turns": self.turns, "wall_s": self.wall_s,
                "spent_s": figures.spent(self.turns, self.wall_s), "yardstick": self.words, "groups": self.groups}
