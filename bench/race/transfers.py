"""Saves and loads: entrants take turns beside the yardstick, in one directory."""

import rivals
from race import figures, machine
from race.turns import GIB, Entry, Turns

UNSYNCED_MAX = 0.01  # of the state


def durability(synced_by, unsynced, nbytes):
    """Who synced the saves, or "not durable" where a part of the state was in memory alone when a clock stopped.
    `unsynced`: bytes after each save, None where the kernel does not say. Logs beside a checkpoint may be there."""
    is_caught = any(left is not None and left > UNSYNCED_MAX * nbytes for left in unsynced)
    return "not durable" if is_caught or synced_by == "nobody" else synced_by


class Transfer(Entry):
    """What one entrant saved and loaded in one group."""

    def __init__(self, child, opened, group, drops_all):
        super().__init__(child, opened, group)
        self.drops_all = drops_all
        self.s, self.cpu_s, self.after_cpu_s, self.written, self.unsynced, self.cached = [], [], [], [], [], []

    def save(self, is_measured=True):
        """Seconds of a save; whatever it replaces is removed when the clock has stopped."""
        self.child.order("change")
        folder, before = self.next_folder(), self.child.spent()
        taken = self.child.timed("save", folder=folder)
        unsynced, middle = machine.unsynced_bytes(self.child.folder), self.child.spent()
        self.child.order("settle")
        after = self.child.spent()
        self.saved_at(folder)
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
        self.check()
        return taken


class Transfers(Turns):
    """Saves, or loads."""

    def __init__(self, case, *arguments, drops_all=False):
        super().__init__(*arguments)
        self.case, self.drops_all = case, drops_all

    def prepare(self, stick):
        stick.probe(self.nbytes)
        self.words = self.words or stick.words()
        if self.case == "load":
            stick.direct("write", self.nbytes)

    def entry(self, child, opened, group):
        entry = Transfer(child, opened, group, self.drops_all)
        entry.save(is_measured=False)  # buffers are made, imports are done
        if self.case == "load":
            entry.load(is_measured=False)
        return entry

    def own_turn(self, stick):
        if self.case == "load":
            machine.make_cold(stick.folder, self.drops_all)
        taken = stick.direct("write" if self.case == "save" else "read", self.nbytes)[0]
        if self.case == "save":
            stick.remove_file()
        return taken

    def turn(self, entry):
        return getattr(entry, self.case)()

    def beside(self, stick):
        for verb in ("memcpy", "copy_hash"):
            self.extra.setdefault(verb, []).append(stick.memory(verb, self.nbytes))
        if self.case == "load":
            machine.make_cold(stick.folder, self.drops_all)
        self.extra.setdefault("buffered", []).append(stick.buffered("write" if self.case == "save" else "read", self.nbytes))
        if self.case == "save":
            stick.remove_file()

    def finish(self, entry):
        """A save that cannot be loaded again is none."""
        if self.case == "save" and "load" in rivals.ENTRANTS[entry.child.name].cases.split():
            entry.load(is_measured=False)

    def row(self, name):
        """Seconds, and the share of the device that they come to."""
        entries = self.entries[name]
        every = {key: [value for entry in entries for value in getattr(entry, key)]
                 for key in ("s", "raw_s", "cpu_s", "after_cpu_s", "written", "unsynced", "cached")}
        share = figures.ratio(every["raw_s"], every["s"])
        out = self.case_of(f"{name}.{self.case}", every["s"], "s", ratio=share["median"], ratio_ci95=share["ci95"],
                           cpu_s_per_gib=figures.figure(every["cpu_s"])["median"] * GIB / self.nbytes,
                           equal=None if any(entry.equal is None for entry in entries) else all(entry.equal for entry in entries))
        if self.case == "save":
            out |= {"durable": durability(rivals.ENTRANTS[name].synced_by(), every["unsynced"], self.nbytes),
                    "unsynced_bytes": None if None in every["unsynced"] else max(every["unsynced"]),
                    "cpu_after_s_per_gib": figures.figure(every["after_cpu_s"])["median"] * GIB / self.nbytes,
                    "written_per_byte": figures.figure(every["written"])["median"] / self.nbytes}
        else:
            out["cached_bytes"] = None if None in every["cached"] else max(every["cached"])
        return out | self._beside_ours(name, every["s"])

    def _beside_ours(self, name, taken_s):
        """How much faster ours was, in the same groups."""
        if name == rivals.OURS or rivals.OURS not in self.entries:
            return {}
        beside = {entry.group for entry in self.entries[name]}
        ours_s = [value for ours in self.entries[rivals.OURS] if ours.group in beside for value in ours.s]
        if len(ours_s) != len(taken_s):
            return {}
        faster = figures.ratio(taken_s, ours_s)
        return {"ours_is_faster": faster["median"], "ours_is_faster_ci95": faster["ci95"]}

    def yardstick(self):
        rate = [taken[1] * GIB / self.nbytes for taken in self.extra["copy_hash"]]
        return [*super().yardstick(), self.plain("raw.copy_hash.cpu", "s/GiB", rate)]
