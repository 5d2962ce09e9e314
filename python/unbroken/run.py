"""`Run`: a training run that can be killed at any instant and continues bit for bit.

The life of a Run: attach, restore (by the first call of steps), then one *boundary* after each completed step, at
which the metrics are noted, a due save is taken, and a stop is obeyed. Nothing is ever saved between boundaries:
there the state is whole.
"""

from __future__ import annotations

import contextlib
import os

from unbroken import _native, audit, functional, options
from unbroken._process import ending, signals
from unbroken._native import call
from unbroken._start.lines import start_lines
from unbroken._start.origin import Origin
from unbroken._state.attached import Attached, Restoring
from unbroken._state.torch.bypassed import BypassWatch
from unbroken._state.permits.ways import Ways
from unbroken._state.watch import OptimizerWatch
from unbroken.audit import Unattached
from unbroken.errors import Bug, Interrupted, Misconfigured, naming, say
from unbroken.feeds import Feed
from unbroken.inside import Inside
from unbroken.metrics import Metrics, is_late, read
from unbroken.opened import RUNS
from unbroken.saver import Saver
from unbroken.saving import Saving
from unbroken._process.signals import StopSignal

_SLICE_S = 0.2


class Run:
    """A run in the directory `path`, or in that of UNBROKEN_DIR.

    `every`: completed steps (an int, or its digits as a text), a duration ("10min"), or "auto". `keep_last`: good
    checkpoints that stay, and at least two that were read back. Kept besides, and saved whatever `every` says:
    with `keep_best=("val_loss", "min")`
    (or "max") the best by a logged metric, with `keep_every=N` those of every N-th step. `resume`: "newest", 1200,
    "1200.a3", "best:val_loss", "tag:NAME".
    `fresh=True` permits a start from nothing where nothing valid is left; never beside a damaged or missing journal.
    `takeover=True` takes the run from an owner that is alive. `on_save_error`: "warn" or "raise" for saves in the
    background; the last save raises always. `group`: files are readable and writable by this group.

    As a context manager: the end of the block closes the run; an exception or `break` saves nothing of the broken
    step, and what is being saved is finished. Durability: what `newest` names survives the end of the process at any
    instant, and a loss of power where the storage keeps what was synced.

    For every="auto", durations: `mtti`, how often you expect the run to die; `rpo`, never lose more; `every_min`,
    `every_max`, bounds. Errors: Misconfigured, at once.

    `busy`: a save that falls due while one is in flight is skipped and counted ("skip"), or the step waits for the other
    one ("wait"), for at most `max_wait` ("30s"), and is skipped and counted then.

    `arena`: at most so much memory for snapshots ("8GiB"); by default one or two times the state. A save that finds less
    than it takes, there or in the machine or the cgroup, goes through a window of at least 32 MiB, and the training waits
    until the storage has taken it; where there is not even that, it fails, and the training goes on.
    `max_bandwidth`: a save is written at no more than this ("200MB/s"), so that others have their share of the storage.

    `check=True`: what is copied while the training goes on (see `fence`) is proved unchanged byte by byte at each save, not by
    a 64th of every MiB in turn; a boundary then costs as much as to hash all of it.

    Ways out of a mismatch, each used only where a checkpoint does not fit, and said: `missing`, globs over names that
    may be absent from it; `unread`, of what need not be read; `cast`, of tensors that may be converted (True: all);
    `rename`, {saved name: name here}. `only`: nothing else is taken. `init_from="DIR@AT"`: a run that begins, at step
    0, with a checkpoint of another one, in the attached objects that `only` names. The last three are carried out once.

    Threads: everything from the thread that trains.
    """

    def __init__(self, path, *, every="auto", keep_last=3, keep_best=None, keep_every=None, resume="newest", fresh=False, takeover=False,
                 on_save_error="warn", group=None, mtti=None, rpo=None, every_min=None, every_max=None,
                 missing=None, unread=None, rename=None, cast=None, only=None, init_from=None, check=False,
                 busy="skip", max_wait=None, arena=None, max_bandwidth=None):  # fmt: skip
        settings = options.session_options(
            every=every, keep_last=keep_last, keep_best=keep_best, keep_every=keep_every, resume=resume, fresh=fresh, takeover=takeover,
            on_save_error=on_save_error, group=group, mtti=mtti, rpo=rpo, every_min=every_min, every_max=every_max,
            busy=busy, max_wait=max_wait, arena=arena, max_bandwidth=max_bandwidth,
        )  # fmt: skip
        is_proved_whole = options.checked_bool("check", check)
        ways = Ways(missing, unread, rename, cast, only)
        self._origin = None if init_from is None else Origin(init_from)
        options.steps_limit(0)
        path = options.directory(path)
        functional.release(path)
        if self._origin is not None:
            self._origin.look(path)
        self._is_new = not os.path.lexists(path)
        with naming(path):
            self._session = call(_native.core.Session, path, settings)
        self._attached = Attached(self._session.digests, ways)
        self._metrics = Metrics()
        self._noted: dict = {}  # the metrics of the last completed step
        self._late = None  # (step, metrics) that were not handed over yet: some are still on a device
        self._best = None if keep_best is None else keep_best[0]
        self._raises = on_save_error == "raise"
        self._watch = OptimizerWatch(self._session, is_proved_whole or self._session.wants_tap())
        self._bypass = BypassWatch()
        self._stop = StopSignal()
        self._restoring: Restoring | Origin | None = None  # gives late attaches their part, until the first completed step
        self._suspects = audit.Suspects()
        self._feeds: list[Feed] = []
        self._saver = Saver(self._session, self._attached, self._watch, self._raises)
        self._step = 0
        self._has_label = False  # `_step` names a state that was completed or restored
        self._has_completed = False
        self._is_undefined = False  # live objects were partly filled
        self._is_restored = self._in_body = self._is_broken = self._is_closed = self._is_inert = False
        self._micro = 0  # calls of step(accumulate=N) since the last boundary
        RUNS.add(self)
        ending.install()
        self._stop.watch()

    # -- what a user looks at

    @property
    def path(self) -> str:
        """The run's directory, absolute."""
        return self._session.path

    @property
    def attempt(self) -> int:
        """Which life of the run this is, from 1; known after restore."""
        return self._session.attempt

    @property
    def state(self) -> dict:
        """A dict that is part of the state: restore replaces its content."""
        return self._attached.state

    @property
    def epoch(self) -> int:
        """That of the batch handed out last, from 0."""
        return self._attached.epoch

    @property
    def newest(self) -> str | None:
        """Name of the newest acknowledged checkpoint, or None."""
        return self._session.newest

    @property
    def health(self) -> dict:
        """{"state": "green" | "yellow" | "red", "why": [...], "saves_failed", "saves_skipped"}.

        Red: the last save failed, or a newer attempt owns the run. Yellow: a promise (`rpo`) is not kept, or work in
        the background failed: reading back, clearing away, writing metrics.
        """
        return call(self._session.health)

    def audit(self, *roots) -> list[Unattached]:
        """What has a state, can be reached from `roots` (without: the caller's variables), and is not attached.

        Functions are looked into: what they close over, their defaults, what a method is bound to, the arguments of a
        partial, globals that a function of yours names; a variable of the function `f` is called `f.{name}`.
        No code of what is looked at is run. Tensors, arrays, and numbers of your own objects, which have no state_dict,
        are named once they have changed in place since the restore. What can be reached at restore, or where steps is
        called, and is still not attached when the first step is complete, is said then, a line for each.
        """
        return audit.audit(self._attached, self._suspects, roots, audit.callers_frame())

    def stats(self) -> dict:
        """What this life measured: saves, saves_skipped, saves_failed, wait_s (the loop waited for all saves together),
        engine ("threads", "io_uring" or "buffered") with its depth and block_bytes, step_s, interval_s, decide_ns,
        arena_bytes, and of the last save {step, wait_s, staged_s, durable_s, verified_s, bytes, cpu_s, streamed}, or None
        before one is durable. streamed: the loop waited until all was written. cpu_s: of processors, for copying,
        hashing, writing and committing it, on our threads and in the loop; not of what Python gathers before, and of what
        the kernel does on threads of its own."""
        return call(self._session.stats)

    # -- before the first step

    def attach(self, /, **named) -> None:
        """Makes objects part of the state, each under its name. After restore, an object is given its part at once;
        what nobody took when the first step is complete, or the state is saved, is a StateMismatch of that step or save.

        Modules, optimizers, schedulers, scalers, generators of Python, NumPy and torch, and whatever else has
        state_dict and load_state_dict; dicts, lists and tuples of tensors, arrays and plain values. The global
        generators are saved without being asked. The names `rng`, `run` and `state` are ours. Errors: Misconfigured
        (a name twice, an object that cannot be attached), StateMismatch (after restore).
        """
        self._check_usable("attach")
        for name, value in named.items():
            self._attached.add(name, value)
            try:
                if self._restoring is not None:
                    with naming(self.path):
                        self._give_part(name, value)
            except BaseException as error:
                self._attached.remove(name)
                self._is_undefined = getattr(error, "live_is_undefined", not isinstance(error, Exception))
                raise
            if self._is_restored:
                self._attached.late.add(name)
            self._watch.add(value)
            self._bypass.add(name, value)

    def _give_part(self, name, value):
        for note in self._restoring.late(name, value, any(feed.loader is value for feed in self._feeds)):
            say(note)

    def restore(self) -> int:
        """Finds the checkpoint to go on from, and puts it into everything attached. The number of completed steps.

        Called by `steps`; again, it does nothing. It ends what an earlier process was doing in this run: that one can
        commit no more. Past damage the next older checkpoint is used, and it is said; one that was named by `resume`
        is never replaced by another. Errors: StateMismatch (nothing changed, and nothing was written but damage that was
        met, unless it says so), NothingToResume, CorruptCheckpoint, StorageUnavailable, StorageFull, Misconfigured,
        Superseded; Interrupted, where SIGTERM came.
        """
        return self._restore(is_complete=False)

    def _restore(self, is_complete: bool) -> int:
        self._check_usable("restore")
        if not self._has_completed:
            self._suspects.look(self._attached, audit.callers_frame(is_own=True))
        if self._is_restored:
            return self._step
        self._attached.check_owners()
        self._obey_stop()
        restoring = Restoring(self._attached, is_complete)
        try:
            with naming(self.path):
                if self._origin is not None:
                    self._origin.compare(self._attached, self.path, [feed.loader for feed in self._feeds])
                with restoring.filling:
                    report = call(self._session.restore, restoring)
                for line in start_lines(report, self.attempt, self.path):
                    say(line)
                notes = self._begin_fresh(restoring) if report["fresh"] else restoring.finish()
                if self._origin is not None and not report["fresh"]:
                    notes.append(f"init_from={self._origin.text} was carried out before: going on from {report['name']}")
                if self._attached.parent is not None:
                    self._session.describe("parent", self._attached.parent)
        except BaseException:
            self._is_undefined = restoring.filling.has_begun
            raise
        for note in notes:
            say(note)
        self._saver.memory.expect(self._attached)
        self._step = report["step"]
        self._restoring = self._origin if report["fresh"] else restoring
        if not report["fresh"]:
            self._has_label = True
            for feed in self._feeds:
                feed.epoch = self._attached.epochs.get(self._attached.name_of(feed.loader), feed.epoch)
        self._is_restored = True
        self._say_messages()
        self._obey_stop()
        return self._step

    def _begin_fresh(self, restoring) -> list[str]:
        self._attached.begin_fresh()
        if self._origin is None:
            return []
        restoring.filling.begin(self._origin.text)
        return [self._origin.carry_out(self._attached)]

    # -- the loop

    def steps(self, n: int, loader=None):
        """Yields `step`, or `(step, batch)` with a loader, from the restored step to n - 1; epochs roll on.

        The body counts as completed when it ends. A last checkpoint is durable before the loop ends normally.
        May be called again, with a larger n and another loader. Errors: those of restore and of a boundary. What is
        in the checkpoint and not attached now is StateMismatch before anything is written, unless it was attached late
        by the life that saved it.
        """
        self._check_usable("steps")
        n = options.steps_limit(n)
        if self._in_body:
            raise Misconfigured("steps: called within the body of another steps loop")
        feed = None if loader is None else self._feed_of(loader)
        loaders = [one.loader for one in self._feeds]
        has_objects = any(all(value is not loader for loader in loaders) for value in self._attached.objects.values())
        self._restore(is_complete=has_objects)  # else everything is attached in the first body
        return self._iterate(n, feed)

    def _feed_of(self, loader) -> Feed:
        for feed in self._feeds:
            if feed.loader is loader:
                return feed
        feed = Feed(loader, self._attached.generators.guard)
        self._feeds.append(feed)
        try:
            if self._attached.name_of(loader) is None:
                k = len(self._feeds)
                self.attach(**{"loader" if k == 1 else f"loader{k}": loader})
        except BaseException:
            self._feeds.remove(feed)
            raise
        feed.epoch = self._attached.epochs.get(self._attached.name_of(loader), 0)
        return feed

    def _iterate(self, n, feed):
        if self._step < n:  # a life that restores only takes no memory for a save
            self._check_usable("steps")
            self._saver.memory.take_ahead(self._session)
        while self._step < n:
            self._check_usable("steps")
            if feed is None:
                item = self._step
            else:
                batch = feed.next()
                self._attached.epoch = self._attached.epochs[self._attached.name_of(feed.loader)] = feed.epoch
                item = self._step, batch
                del batch
            self._in_body, self._is_broken = True, False
            try:
                yield item
            except GeneratorExit:
                self._is_broken = True
                raise
            finally:
                self._in_body = False
                del item
            with naming(self.path):
                self._boundary(is_last=self._step + 1 >= n)

    def step(self, /, *, accumulate: int = 1, **metrics) -> int:
        """Says that a step is complete, in loops that are not `steps`. The number of completed steps.

        With `accumulate=N` it is called after each micro-batch, and every N-th call completes a step. Errors:
        Misconfigured (no attached optimizer stepped, not restored yet), StateMismatch (the first N of this life is not that of
        the lives before, and `unread="run.accumulate"` does not permit it), Superseded, Interrupted.
        """
        self._check_usable("step")
        if self._in_body:
            raise Misconfigured("step: the body of a steps loop is completed by its end")
        if not self._is_restored:
            raise Misconfigured("step: call restore() first")
        if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
            raise Misconfigured(f"step: accumulate={accumulate!r} is not a number of micro-batches")
        with naming(self.path):
            self._attached.accumulation.use(accumulate, self._attached.ways)
        self.log(**metrics)
        self._micro += 1
        if self._micro >= accumulate:
            self._micro = 0
            with naming(self.path):
                self._boundary(is_last=False)
        return self._step

    def log(self, /, **metrics) -> None:
        """Metrics of the step at hand: numbers, or tensors of one element. The last value of a name counts.

        They stand, a second later and without a sync, in the run's metrics folder, and in the checkpoint of this step, as far as they fit
        there: the metric of `keep_best` first, then the alphabet, up to about 1 KB. A line says once what does not fit. Errors:
        Misconfigured for what is not one number, and for the names `step` and `attempt`, which each line has.
        """
        if not self._is_inert:
            self._metrics.add(metrics)

    # -- a boundary

    def _boundary(self, is_last: bool) -> None:
        self._check_usable("steps")
        self._is_broken = True  # until the boundary is passed, this state has no name
        self._watch.check()
        self._bypass.check()
        self._check_all_taken()
        is_first, self._has_completed = not self._has_completed, True
        for line in self._suspects.lines(self._attached) if is_first else ():
            say(line)
        self._step += 1
        self._has_label = True
        self._is_broken = False
        self._hand_over_metrics()
        self._noted = self._metrics.take()
        self._late = self._step, self._noted
        if not is_late(self._noted):
            self._hand_over_metrics()
        self._ask(self._session.boundary, self._step)
        capture = None
        if self._session.wants_tap():
            capture = self._saver.capture()
            left = audit.states(self._attached, audit.callers_frame(is_own=True), self._session.digests)
            self._ask(self._session.tap, self._step, read(self._noted), capture.tensors, capture.scalars(), left)
        kind = self._why_save(is_last, is_first)
        if kind is not None:
            self._hand_over_metrics()
            self._saver.at_boundary(self._step, kind, read(self._noted), capture)
        self._say_messages(goes_on=not is_last)
        self._obey_stop()

    def _check_all_taken(self):
        if self._restoring is None:
            return
        with naming(self.path):
            notes = self._restoring.end()
        self._restoring = None
        for note in notes:
            say(note)

    def _hand_over_metrics(self):
        """To the core, in order of steps; waits for devices."""
        if self._late is not None:
            (step, values), self._late = self._late, None
            self._ask(self._session.log, step, read(values))

    def _why_save(self, is_last, is_first) -> str | None:
        if is_last:
            return "last"
        if self._stop.is_pending:
            return "emergency"
        if self._saver.is_asked:
            return "explicit"
        if is_first:
            return "first"
        if self._best in self._noted and self._ask(self._session.is_best, read({self._best: self._noted[self._best]})):
            return "best"
        return "due" if self._ask(self._session.is_due, self._step) else None

    def _ask(self, function, *arguments):
        """call(), but a failed check of ours is said, and raised only where failed saves are to be."""
        try:
            return call(function, *arguments)
        except Bug as error:
            if self._raises:
                raise
            say(f"error: an internal check failed, please report it: {error}; training goes on")
            return None

    @property
    def _is_whole(self) -> bool:
        """True where the state at hand is that of `_step`."""
        return not (self._is_broken or self._in_body or self._micro)

    def _obey_stop(self) -> None:
        """Errors: Interrupted, where SIGTERM came: 75 where what is durable is the state at hand."""
        if not self._stop.is_pending:
            return
        self._stop.is_pending = False
        where = f"after step {self._step}" if self._is_restored else "before anything was restored"
        if not self._is_whole:
            is_durable, how = False, f"a step that was begun is lost; {self.newest or 'no checkpoint'} stands"
        elif self._has_completed:
            if not self._is_closed and self._saver.lacks(self._step):  # it came after this boundary had chosen not to save
                self._save_for_stop()
            is_durable, how = self._saver.settle(self._step)
        else:  # nothing was done since then
            stands = f"{self.newest} stands" if self.newest else "no step was done"
            is_durable, how = True, f"{stands} and nothing is lost"
        message = f"stopped by SIGTERM {where}: {how}"
        say(message)
        raise Interrupted(message, 75 if is_durable else 76)

    def _save_for_stop(self) -> None:
        self._saver.at_boundary(self._step, "emergency", read(self._noted), None)

    # -- saving on demand

    def save(self, *, tag=None, wait: bool = True) -> Saving:
        """Saves the state. In a `steps` body at the boundary that ends it, else at once.

        A `tag` (letters, digits, `.`, `_`, `-`) keeps the checkpoint until `unbroken unkeep`; several may have the same.
        With `wait` the boundary (or this call) returns when the checkpoint is durable. Errors: Misconfigured
        where no completed or restored step names the state; with `wait`, those of the save.
        """
        self._check_usable("save")
        tags = options.checked_tag(tag)
        options.checked_bool("wait", wait)
        if self._in_body or self._micro:
            return self._saver.ask(wait, tags)
        if self._is_broken:
            raise Misconfigured("save: the last body did not complete, so its state has no step")
        if not self._has_label:
            raise Misconfigured("save: no step was completed or restored yet")
        with naming(self.path):
            if self._restoring is not None:
                self._restoring.check_taken()
            saving = self._saver.now(self._step, read(self._noted), wait, tags)
        self._say_messages()
        return saving

    def fence(self) -> None:
        """Returns when everything that was saved is copied; what is on an accelerator is before its current stream goes on.
        To be called before parameters or the state of an optimizer are written by anything but the optimizer's own step,
        in a loop that does so between two steps: a save copies them until then. What was written meanwhile is found, and
        that save fails; without this call a later one is due."""
        if not self._is_inert:
            self._watch.fence()

    # -- the end

    def drain(self, timeout: float | None = None) -> bool:
        """Waits until nothing is being written, verified or deleted any more; False at the timeout (seconds)."""
        if self._is_inert or self._is_closed:
            return True
        left = options.checked_timeout("timeout", timeout)
        while left is None or left > 0:
            part = _SLICE_S if left is None else min(_SLICE_S, left)
            if call(self._session.drain, part) is not False:
                self._say_messages()
                return True
            left = None if left is None else left - part
        return False

    def close(self) -> None:
        """Waits for saves in flight, ends the attempt, puts signal handlers back. Twice is once.

        Errors: Superseded; Interrupted, where SIGTERM came after the last boundary.
        """
        self._close(is_quiet=False, code=0)

    def _close(self, is_quiet: bool, code: int | None = None) -> None:
        if self._is_closed or self._is_inert:
            return
        self._is_closed = True
        RUNS.discard(self)
        self._saver.give_up()
        try:
            self._hand_over_metrics()
            for _ in ("before", "while all was waited for"):  # when SIGTERM may come
                if self._stop.is_pending and not is_quiet and self._has_completed and self._is_whole:
                    if not self._saver.has(self._step):
                        self._save_for_stop()
                while call(self._session.drain, _SLICE_S) is False:
                    pass
            if self._stop.is_pending and not is_quiet:
                is_saved = self._is_whole and (not self._has_completed or self._saver.settle(self._step)[0])
                code = 75 if is_saved else 76
            call(self._session.close, code)
            self._say_messages()
        except (Exception, SystemExit) as error:
            if not is_quiet:
                raise
            say(f"close: {error}")
        finally:
            self._stop.close()
            self._watch.close()
            self._bypass.close()
            self._attached.generators.close()
            if self._is_new and not self._is_restored:  # nothing was begun in it
                with contextlib.suppress(OSError):
                    os.rmdir(self.path)
        if not is_quiet:
            self._obey_stop()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind, value, trace) -> None:
        if kind is None:
            self.close()
        else:
            self._close(is_quiet=True, code=ending.status_of(value))

    # -- small things

    @property
    def _inside(self) -> Inside:
        """For our adapters and measurements."""
        return Inside(
            step=self._step, is_restored=self._is_restored, has_label=self._has_label,
            has_completed=self._has_completed, is_stopping=self._stop.is_pending, generators=self._attached.generators,
            saved=None if self._restoring is None else self._restoring.saved, is_due=self._session.is_due,
            set_begun=self._set_begun,
        )  # fmt: skip

    def _set_begun(self, is_begun: bool) -> None:
        self._micro = int(is_begun)

    def _check_usable(self, what) -> None:
        if self._is_inert:
            raise Misconfigured(f"{what}: this process was forked from the one that owns the run")
        if self._is_closed:
            raise Misconfigured(f"{what}: the run is closed")
        if self._is_undefined:
            with naming(self.path):
                raise Misconfigured(
                    f"{what}: a restore failed when the live objects were partly filled, so that their state is "
                    "undefined: start this program again",
                    "unbroken ls DIR",
                )

    def _say_messages(self, goes_on: bool = True) -> None:
        goes_on = goes_on and not (self._stop.is_pending or self._is_closed or self._raises)
        for line in call(self._session.take_messages, goes_on):
            say(line)

    def _become_inert(self) -> None:
        self._is_inert = True


def _after_fork() -> None:
    signals.after_fork()
    for run in list(RUNS):
        run._become_inert()


def _at_exit() -> None:
    for run in list(RUNS):
        run._close(is_quiet=True)


os.register_at_fork(after_in_child=_after_fork)
ending.at_exit(_at_exit)
