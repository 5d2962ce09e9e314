"""Saves beside a training: how long it waits for them, and how much slower its steps are while they are written.

A turn: quiet steps, a step that ends with a save, steps until nothing of it goes on, quiet steps.
"""

import shutil
import statistics
import subprocess

import rivals
from race import figures
from race.turns import GIB, Entry, Turns


class Trainee(Entry):
    """What one entrant did beside its training, save by save."""

    def __init__(self, child, opened, group, compute_s, every, quiet):
        super().__init__(child, opened, group)
        self.quiet, self.saves = quiet, []
        self.warm_saves = child.order("train", compute_s=compute_s, every=every)["saves"]
        child.order("steps", count=2)

    def save(self, remembers=False):
        """A save between quiet steps: what it cost."""
        self.child.order("until_due", left=self.quiet)
        steps = self._quiet_steps()
        folder, before = self.next_folder(), self.child.spent()
        seen = self.child.order("save_beside", folder=folder, remembers=remembers)
        self.child.order("settle")
        after = self.child.spent()
        self.saved_at(folder)
        steps += self._quiet_steps()
        step_s, cpu_s = statistics.median(step["s"] for step in steps), statistics.fmean(step["cpu_s"] for step in steps)
        count = len(seen["steps_s"])
        return {"blocked_s": seen["blocked_s"], "wall_s": seen["wall_s"], "step_s": step_s,
                "excess_s": seen["call_s"] + sum(seen["steps_s"]) - count * step_s,
                "inflation": statistics.median(seen["steps_s"][:max(1, seen["busy"])]) / step_s,
                "cpu_s": after["cpu_s"] - before["cpu_s"] - (count + 1) * cpu_s,
                "written": after["written_bytes"] - before["written_bytes"]}

    def _quiet_steps(self):
        before = self.child.spent()["cpu_s"]
        taken = self.child.order("steps", count=self.quiet)["s"]
        cpu_s = (self.child.spent()["cpu_s"] - before) / self.quiet
        return [{"s": s, "cpu_s": cpu_s} for s in taken]

    def check_last(self):
        """One more save, then a load of it."""
        self.save(remembers=True)
        self.child.order("remember")
        self.child.order("load", folder=self.at)
        self.check()


class Trainings(Turns):
    compute_s, every, quiet = 0.5, 16, 3

    def entry(self, child, opened, group):
        entry = Trainee(child, opened, group, self.compute_s, self.every, self.quiet)
        entry.first = [entry.save() for _ in range(entry.warm_saves)][0]  # buffers are made, imports are done
        return entry

    def turn(self, entry):
        entry.saves.append(entry.save())
        return entry.saves[-1]["wall_s"]

    def finish(self, entry):
        if entry.child.name != rivals.CONTROL:
            entry.check_last()

    def of(self, name, key):
        return [save[key] for entry in self.entries[name] for save in entry.saves]

    def row_of(self, name, values, unit, over):
        """With what every race beside a training tells. `over`: what the values are shares of."""
        share, entries = figures.ratio(values, over), self.entries[name]
        checked = [entry.equal for entry in entries if entry.equal is not None]
        return self.case_of(f"{name}.{self.case}", values, unit, ratio=share["median"], ratio_ci95=share["ci95"],
                            step_s=statistics.median(self.of(name, "step_s")), save_s=statistics.median(self.of(name, "wall_s")),
                            cpu_s_per_gib=statistics.median(self.of(name, "cpu_s")) * GIB / self.nbytes,
                            written_per_byte=statistics.median(self.of(name, "written")) / self.nbytes,
                            equal=all(checked) if checked else None)


class Stalls(Trainings):
    """What training waits: in calls and for copies, and in all, in warm copies of the state by one thread."""

    case, first = "stall", "raw.memcpy"

    def own_turn(self, stick):
        return stick.memory("memcpy", self.nbytes)[0]

    def row(self, name):
        memcpy_s = [value for entry in self.entries[name] for value in entry.raw_s]
        excess = figures.ratio(self.of(name, "excess_s"), memcpy_s)
        return self.row_of(name, self.of(name, "blocked_s"), "s", memcpy_s) | {
            "excess": excess["median"], "excess_ci95": excess["ci95"],
            "excess_s": statistics.median(self.of(name, "excess_s")),
            "first_s": statistics.median(entry.first["blocked_s"] for entry in self.entries[name])}


class Interference(Trainings):
    """How much longer a step is while a save is written, beside fio that writes as many bytes at the same rate."""

    case, first = "interference", "raw.copy_hash"
    compute_s, every, quiet = 0.1, 48, 5

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.copy_hash_cpu = []

    def _open(self, folder, group, opened):
        self.paced = super()._open(folder, [rivals.PACED], opened).get(rivals.PACED)
        if self.paced is None:
            raise SystemExit(f"error: {self.errors[rivals.PACED]}")
        return super()._open(folder, group, opened)

    def entry(self, child, opened, group):
        if child.name == rivals.PACED:
            return Trainee(child, opened, group, self.compute_s, self.every, self.quiet)
        return super().entry(child, opened, group)

    def turn(self, entry):
        taken = super().turn(entry)
        self.paced.child.order("pace", bytes_per_s=self.nbytes / taken, nbytes=self.nbytes)
        paced = self.paced.save()
        entry.saves[-1] |= {"paced": paced["inflation"], "paced_cpu_s": paced["cpu_s"]}
        return taken + paced["wall_s"]

    def own_turn(self, stick):
        taken, cpu_s = stick.memory("copy_hash", self.nbytes)
        self.copy_hash_cpu.append(cpu_s * GIB / self.nbytes)
        return taken

    def row(self, name):
        paced = self.of(name, "paced")
        return self.row_of(name, self.of(name, "inflation"), "x", paced) | {
            "paced": statistics.median(paced), "paced_cpu_s_per_gib": statistics.median(self.of(name, "paced_cpu_s"))
            * GIB / self.nbytes}

    def yardstick(self):
        return [*super().yardstick(), self.plain(f"{self.first}.cpu", "s/GiB", self.copy_hash_cpu)]


def need_fio():
    """Installs fio where it is not there. Errors: SystemExit."""
    command = ["apt-get", "install", "-y", "--no-install-recommends", "fio"]
    if shutil.which("fio") is None and (subprocess.run(command, stdout=subprocess.DEVNULL).returncode or not shutil.which("fio")):
        raise SystemExit(f"error: fio is not there: {' '.join(command)}")
