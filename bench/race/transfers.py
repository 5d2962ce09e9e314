"""Saves and loads: entrants take turns beside the yardstick, in one directory."""

import shutil
import time

import rivals
from race import figures, machine, state
from race.field import MIB, Child, Failed, Yardstick, note

GIB = 1 << 30
RAW = "raw"
STATES_MAX = 2.5  # memory of one entrant, in states
UNSYNCED_MAX = 0.01  # of the state
SHARE = 0.6  # of the memory that is there, for a group


def groups(names, nbytes, available):
    """Those who are open at one time, ours in each of them: as many as memory holds."""
    others = [name for name in names if name != rivals.OURS]
    many = max(1, int(available * SHARE / (STATES_MAX * max(nbytes, 64 * MIB))) - 1)
    ours = [rivals.OURS] if rivals.OURS in names else []
    return [ours + others[at:at + many] for at in range(0, len(others), many)] or [ours]


def durability(synced_by, unsynced, nbytes):
    """Who synced the saves, or "not durable" where a part of the state was in memory alone when a clock stopped.
    `unsynced`: bytes after each save, None where the kernel does not say. Logs beside a checkpoint may be there."""
    is_caught = any(left is not None and left > UNSYNCED_MAX * nbytes for left in unsynced)
    return "not durable" if is_caught or synced_by == "nobody" else synced_by


class Entry:
    """What one entrant did in one group."""

    def __init__(self, child, opened, group, drops_all):
        self.drops_all, self.cached = drops_all, []
        self.child, self.version, self.tensors, self.group = child, opened["version"], opened["tensors"], group
        self.s, self.raw_s, self.cpu_s, self.after_cpu_s, self.written = [], [], [], [], []
        self.unsynced, self.equal, self.error, self.at, self.number = [], None, None, None, 0

    def next_folder(self):
        """Where the next save goes: new and empty."""
        self.number += 1
        folder = self.child.folder / f"save-{self.number:04}"
        folder.mkdir()
        return folder

    def save(self, is_measured=True):
        """Seconds of a save; whatever it replaces is removed when the clock has stopped."""
        self.child.order("change")
        folder, before = self.next_folder(), self.child.spent()
        taken = self.child.timed("save", folder=folder)
        unsynced, middle = machine.unsynced_bytes(self.child.folder), self.child.spent()
        self.child.order("settle")
        after = self.child.spent()
        old, self.at = self.at, folder
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
        if is_measured:
            self.s.append(taken)
            self.cpu_s.append(middle["cpu_s"] - before["cpu_s"])
            self.after_cpu_s.append(after["cpu_s"] - middle["cpu_s"])
            self.written.append(after["written_bytes"] - before["written_bytes"])
            self.unsynced.append(unsynced)
        return taken

    def load(self, is_measured=True):
        self.child.order("remember")
        left = machine.make_cold(self.child.folder, self.drops_all)
        before = self.child.spent()
        taken = self.child.timed("load", folder=self.at)
        if is_measured:
            self.s.append(taken)
            self.cpu_s.append(self.child.spent()["cpu_s"] - before["cpu_s"])
            self.cached.append(left)
        equal = self.child.order("check")["equal"]
        self.equal = equal if self.equal is None else self.equal and equal
        return taken


class Race:
    """One case of one shape. `rows` are the results by name, `turns` every clocked turn in its order."""

    def __init__(self, case, shape, mib, repeats, folder, names, drops_all=False):
        self.drops_all = drops_all
        self.case, self.shape, self.mib, self.repeats, self.folder = case, shape, mib, repeats, folder
        self.names, self.turns, self.entries, self.raw, self.extra = names, [], {}, [], {}
        self.nbytes = sum(state.sizes(shape, mib))
        self.errors, self.words, self.wall_s, self.groups = {}, {}, 0.0, []

    def run(self):
        self.groups = groups(self.names, self.nbytes, machine.available_bytes())
        for number, group in enumerate(self.groups):
            note(f"{self.case}, {state.SHAPES.get(self.shape, self.shape + ' tensors')}: {', '.join([RAW, *group])}")
            self._run_group(self.folder / f"group-{number}", group)
        return self

    def _open(self, folder, group, opened):
        entries = {}
        for name in group:
            try:
                child = Child(name, folder / name.replace(" ", "-"), self.folder / f"{name.replace(' ', '-')}.log")
                opened.append(child)
                answer = child.order("open", name=name, folder=child.folder / "own", shape=self.shape, mib=self.mib)
                entries[name] = Entry(child, answer, tuple(group), self.drops_all)
                entries[name].save(is_measured=False)  # buffers are made, imports are done
                if self.case == "load":
                    entries[name].load(is_measured=False)
            except Failed as why:
                self._out(name, why, entries)
        return entries

    def _out(self, name, why, entries):
        note(f"  {name}: {why}")
        self.errors[name] = str(why)
        entries.pop(name, None)

    def _run_group(self, folder, group):
        opened, stick = [], Yardstick(folder / RAW)
        try:
            stick.probe(self.nbytes)
            self.words = self.words or stick.words()
            if self.case == "load":
                stick.direct("write", self.nbytes)
            entries = self._open(folder, group, opened)
            began = time.perf_counter()
            for round_number in range(self.repeats):
                self._round(round_number, stick, entries)
            self.wall_s += time.perf_counter() - began
            self._finish(entries)
            for name, entry in entries.items():
                self.entries.setdefault(name, []).append(entry)
        finally:
            for child in opened:
                child.close()
            stick.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _round(self, round_number, stick, entries):
        taken = {}
        for name in figures.turns([RAW, *entries], round_number):
            try:
                taken[name] = self._raw(stick) if name == RAW else getattr(entries[name], self.case)()
                self.turns.append([name, taken[name]])
            except Failed as why:
                self._out(name, why, entries)
        self.raw.append(taken[RAW])
        for name in entries:
            entries[name].raw_s.append(taken[RAW])
        for verb in ("memcpy", "copy_hash"):
            self.extra.setdefault(verb, []).append(stick.memory(verb, self.nbytes))
        if self.case == "save":
            self.extra.setdefault("buffered", []).append(stick.buffered("write", self.nbytes))
            stick.remove_file()
        else:
            machine.make_cold(stick.folder, self.drops_all)
            self.extra.setdefault("buffered", []).append(stick.buffered("read", self.nbytes))

    def _raw(self, stick):
        if self.case == "load":
            machine.make_cold(stick.folder, self.drops_all)
        taken = stick.direct("write" if self.case == "save" else "read", self.nbytes)[0]
        if self.case == "save":
            stick.remove_file()
        return taken

    def _finish(self, entries):
        """A save that cannot be loaded again is none."""
        if self.case == "save":
            for name, entry in list(entries.items()):
                if "load" in rivals.ENTRANTS[name].cases.split():
                    try:
                        entry.load(is_measured=False)
                    except Failed as why:
                        self._out(name, f"load: {why}", entries)

    # -- what it comes to


    def row(self, name):
        """One case of the result: seconds, and the share of the device that they come to."""
        entries = self.entries[name]
        every = {key: [value for entry in entries for value in getattr(entry, key)]
                 for key in ("s", "raw_s", "cpu_s", "after_cpu_s", "written", "unsynced")}
        share = figures.ratio(every["raw_s"], every["s"])
        out = {"name": f"{name}.{self.case}", "shape": self.shape, "bytes": self.nbytes, "tensors": entries[0].tensors,
               "repeats": len(every["s"]), "unit": "s", **figures.figure(every["s"]), "ratio": share["median"],
               "ratio_ci95": share["ci95"], "cpu_s_per_gib": figures.figure(every["cpu_s"])["median"] * GIB / self.nbytes,
               "version": entries[0].version, "about": rivals.ENTRANTS[name].about,
               "equal": None if any(entry.equal is None for entry in entries) else all(entry.equal for entry in entries)}
        if self.case == "save":
            out |= {"durable": durability(rivals.ENTRANTS[name].synced_by(), every["unsynced"], self.nbytes),
                    "unsynced_bytes": None if None in every["unsynced"] else max(every["unsynced"]),
                    "cpu_after_s_per_gib": figures.figure(every["after_cpu_s"])["median"] * GIB / self.nbytes,
                    "written_per_byte": figures.figure(every["written"])["median"] / self.nbytes}
        if self.case == "load":
            left = [value for entry in entries for value in entry.cached]
            out["cached_bytes"] = None if None in left else max(left)
        if name != rivals.OURS and rivals.OURS in self.entries:
            beside = {entry.group for entry in entries}
            ours_s = [value for ours in self.entries[rivals.OURS] if ours.group in beside for value in ours.s]
            if len(ours_s) == len(every["s"]):
                faster = figures.ratio(every["s"], ours_s)
                out |= {"ours_is_faster": faster["median"], "ours_is_faster_ci95": faster["ci95"]}
        return out

    def plain(self, name, unit, values):
        shown = figures.figure(values)
        return {"name": name, "shape": self.shape, "bytes": self.nbytes, "repeats": len(values), "unit": unit, **shown,
                "ratio": figures.figure(self.raw)["median"] / shown["median"] if unit == "s" else shown["median"]}

    def result(self):
        """{"cases", "spent_s", "wall_s", "turns", "yardstick", "groups"}."""
        yardstick = [self.plain(RAW, "s", self.raw)]
        yardstick += [self.plain(f"{RAW}.{verb}", "s", [taken[0] for taken in values]) for verb, values in self.extra.items()]
        yardstick.append({**self.plain(f"{RAW}.copy_hash.cpu", "s/GiB", [taken[1] * GIB / self.nbytes
                                                                       for taken in self.extra["copy_hash"]])})
        rows = [self.row(name) for name in self.names if name in self.entries]
        failed = [{"name": f"{name}.{self.case}", "shape": self.shape, "bytes": self.nbytes, "repeats": 0, "unit": "s",
                   "median": None, "ci95": None, "ratio": None, "error": why}
                  for name, why in self.errors.items() if name not in self.entries]
        cases = [{"race": self.case, **case} for case in yardstick + rows + failed]
        return {"cases": cases, "turns": self.turns, "wall_s": self.wall_s,
                "spent_s": figures.spent(self.turns, self.wall_s), "yardstick": self.words, "groups": self.groups}
