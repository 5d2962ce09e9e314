"""The native core in memory, for tests of the Python side that need faults on demand: a save that fails, a damaged
checkpoint, a run that was taken over. It keeps the shapes of `_core`, not its promises."""

from __future__ import annotations

import ctypes
import enum
import hashlib
import json

import numpy

DISK: dict[str, dict] = {}  # path -> {"checkpoints": [...], "attempt": int, "damaged": set of names}
_BITS = {"BOOL": 8, "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "C64": 64, "C128": 128, "C32": 32,
         "F16": 16, "BF16": 16, "I16": 16, "U16": 16, "BITS16": 16}  # fmt: skip


class CoreError(Exception):
    pass


def _error(kind, message, code="bad_argument"):
    return CoreError(code, kind, message, "")


def _bytes(entry) -> bytes:
    _, dtype, shape, strides, pointer, nbytes = entry
    if nbytes == 0:
        return b""
    size = _BITS.get(dtype, 8) // 8
    span = 1 + sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    buffer = (ctypes.c_char * ((span - low) * size)).from_address(pointer + low * size)
    flat = numpy.frombuffer(buffer, f"V{size}")[-low:]
    out = numpy.lib.stride_tricks.as_strided(flat, shape, [s * size for s in strides]).tobytes()
    assert len(out) == nbytes, entry[0]
    return out


def digests(tensors):
    return [hashlib.md5(_bytes(entry)).hexdigest() for entry in tensors]


class Known:
    def __init__(self, tensors, aliases, parameters, nodes):
        self.tensors, self.alias, self.nodes = list(tensors), list(aliases), list(nodes)


class SavedState:
    def __init__(self, checkpoint):
        self.step, self.attempt, self.name = (checkpoint[k] for k in ("step", "attempt", "name"))
        self.tree, self.alias, self.run, self.provenance = checkpoint["tree"], checkpoint["alias"], "fake", {}
        self.tensors = [entry[:5] for entry in checkpoint["tensors"]]


def _copy(checkpoint, targets):
    wanted = {name: (pointer, nbytes) for name, pointer, nbytes in targets}
    for name, _, _, nbytes, _, data in checkpoint["tensors"]:
        if name in wanted and nbytes:
            assert wanted[name][1] == nbytes, name
            ctypes.memmove(wanted[name][0], data, nbytes)


class Saving:
    def __init__(self, name, step, error=None):
        self.name, self.step, self._error, self._callbacks = name, step, error, []

    def staged(self):
        return True

    def durable(self):
        return self._error is None

    verified = durable

    def error(self):
        return self._error

    def wait(self, stage, timeout_s):
        return True

    def on_change(self, function):
        function()


def check_environment():
    pass


class Session:
    fail_saves: list = []  # errors for the next saves, as CoreError.args; None saves

    def __init__(self, path, options):
        self.path, self.options, self.attempt = path, options, 0
        self.newest, self.messages, self.taps, self.lines, self.is_closed = None, [], [], [], False
        self.superseded, self.tapped, self.failed = False, False, 0
        self.described = {}
        self.fails_at_once = []  # errors of the next saves, raised by save() itself
        self.bug = None  # "boundary" or "save": where a check of ours fails

    @property
    def _disk(self):
        return DISK.setdefault(self.path, {"checkpoints": [], "attempt": 0, "damaged": set()})

    def restore(self, loader):
        disk, fell_back = self._disk, []
        every = list(disk["checkpoints"])
        if self.options["resume"] != "newest":
            every = [c for c in every if self.options["resume"] in (str(c["step"]), c["name"])]
            if not every:
                raise _error("NothingToResume", f"no checkpoint {self.options['resume']}", "not_found")
        while every:
            checkpoint = every.pop()
            saved = SavedState(checkpoint)
            loader.check(saved)
            self.attempt = disk["attempt"] = disk["attempt"] + 1
            targets = loader.targets(saved)
            assert sorted(t[0] for t in targets) == sorted(t[0] for t in saved.tensors)
            if checkpoint["name"] in disk["damaged"]:
                for name, pointer, nbytes in targets:
                    ctypes.memset(pointer, 0xEE, nbytes)
                fell_back.append({"name": checkpoint["name"], "object": "shard-00000", "what": "checksum differs"})
                continue
            _copy(checkpoint, targets)
            self.newest = checkpoint["name"]
            return self._report(checkpoint["step"], checkpoint["name"], fell_back, 1.0)
        if disk["checkpoints"] and not self.options["fresh"]:
            raise _error("NothingToResume", "every checkpoint is damaged", "not_found")
        self.attempt = disk["attempt"] = disk["attempt"] + 1
        return self._report(0, None, fell_back, None)

    def _report(self, step, name, fell_back, age):
        return {"fresh": name is None, "step": step, "attempt": self.attempt, "name": name, "resumed_age_s": age,
                "survives": "node", "is_never_committed": False,
                "fell_back": fell_back, "notes": [], "run": "fake", "lineage_of": None}  # fmt: skip

    def describe(self, key, value):
        self.described[key] = value

    def reserve(self, nbytes, needed_besides):
        pass

    def begin_save(self):
        pass

    def fence(self):
        pass

    def stats(self):
        return {"saves": len(self._disk["checkpoints"]), "last": None, "arena_bytes": 0}

    def is_best(self, metrics):
        return False

    def is_due(self, step):
        every = self.options["every"]
        return every.isdigit() and step % int(every) == 0

    def boundary(self, step):
        if self.superseded:
            raise _error("Superseded", "a newer attempt owns the run", "fenced")
        if self.bug == "boundary":
            raise _error("Bug", "boundary.cc:1: invariant does not hold", "bug")

    def log(self, step, metrics):
        self.lines.append((step, metrics))

    def wants_tap(self):
        return self.tapped

    def tap(self, step, metrics, tensors, scalars, not_attached):
        self.taps.append(
            (
                step,
                dict(metrics),
                dict(zip([t[0] for t in tensors], digests(tensors), strict=True)),
                dict(scalars),
                dict(not_attached),
            )
        )

    def save(self, step, known, places, tensors, alias, tree, parameters, metrics, later, written, is_proved_whole, tags, arriving,
             device, is_waited_for):  # fmt: skip
        assert not arriving and device is None
        tree = json.loads(tree)
        if known is not None:
            tensors, alias = [*known.tensors, *tensors], [*known.alias, *alias]
            for node, items in places:
                at = tree
                for item in items:
                    pair = at["dict"][item]
                    at = pair[1]
                assert at is None
                pair[1] = json.loads(known.nodes[node])
        tree = json.dumps(tree)
        if self.bug == "save":
            self.save_failed(step, "snapshot.cc:1: invariant does not hold")
            raise _error("Bug", "snapshot.cc:1: invariant does not hold", "bug")
        if self.fails_at_once:
            error = self.fails_at_once.pop(0)
            self.save_failed(step, error[2])
            raise CoreError(*error)
        error = Session.fail_saves.pop(0) if Session.fail_saves else None
        name = f"{step}.a{self.attempt}"
        if error is not None:
            self.save_failed(step, error[2])
            return Saving(name, step, error)
        kept = [(t[0], t[1], t[2], t[5], d, _bytes(t)) for t, d in zip(tensors, digests(tensors), strict=True)]
        disk = self._disk["checkpoints"]
        disk[:] = [c for c in disk if c["name"] != name]
        disk.append({"step": step, "attempt": self.attempt, "name": name, "tensors": kept, "alias": list(alias),
                     "tree": tree, "metrics": metrics})  # fmt: skip
        self.newest = name
        return Saving(name, step)

    def save_failed(self, step, why):
        self.failed += 1
        self.messages.append(f"warning: save {step}.a{self.attempt} failed: {why}")

    def digests(self, tensors):
        return digests(tensors)

    def health(self):
        state = "yellow" if self.failed else "green"
        return {"state": state, "why": [], "saves_failed": self.failed, "saves_skipped": 0}

    def drain(self, timeout_s):
        return True

    def close(self, code=None):
        if self.superseded:
            raise _error("Superseded", "a newer attempt owns the run", "fenced")
        self.is_closed = True

    def take_messages(self, goes_on):
        messages, self.messages = self.messages, []
        return [f"{line}; training goes on" if goes_on and " failed: " in line else line for line in messages]


class Hold(enum.Enum):
    nothing, if_alive, pin = range(3)


class Reader:
    def __init__(self, path, at, hold=Hold.nothing):
        self._left = list(DISK.get(path, {"checkpoints": []})["checkpoints"])
        self._damaged = DISK.get(path, {"damaged": set()})["damaged"]
        if at != "newest":
            self._left = [c for c in self._left if at in (str(c["step"]), c["name"])]
        if not self._left:
            raise _error("NothingToResume", f"no checkpoint {at} in {path}", "not_found")
        self.fell_back = []
        self._describe()

    def _describe(self):
        self._checkpoint = self._left.pop()
        self.saved, self.name = SavedState(self._checkpoint), self._checkpoint["name"]

    def next_older(self, found):
        if found:
            self.fell_back.append({"name": self.name, "object": "", "what": found})
        if not self._left:
            raise _error("CorruptCheckpoint", "there is no checkpoint that can be loaded", "corrupt")
        self._describe()

    def close(self):
        pass

    def read(self, targets, are_new=False):
        if self.name in self._damaged:
            raise _error("CorruptCheckpoint", f"checkpoint {self.name}: shard-00000: checksum differs", "corrupt")
        _copy(self._checkpoint, targets)


class Permutation:
    def __init__(self, n, seed, epoch):
        self._order = numpy.random.RandomState([seed % 2**32, epoch]).permutation(n)

    def at(self, i):
        return int(self._order[i])

    def fill(self, start, count):
        return [int(i) for i in self._order[start : start + count]]


def guard_worker(owner, dies_with_owner):
    pass


def run_directory(path):
    return path


def version():
    return {"version": "0", "format": 1, "commit": "fake"}
