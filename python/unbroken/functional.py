"""`save` and `async_save`: any state, without a training loop, into a directory that is a run like any other.

The first save into a directory opens it as a Run does: a new attempt, which fences earlier ones. It stays open for
the saves that follow, so that these cost no more than their bytes; this process owns the directory meanwhile, and
another one that saves there is refused. Saving into a third directory closes the one that was idle longest, a Run
of this process on the same directory takes it over, and the end of the process waits for saves in flight. A forked
child owns nothing.
"""

from __future__ import annotations

import os
import threading

from unbroken import _native, options
from unbroken._process import ending
from unbroken._native import call
from unbroken._state.containers import root_adapter
from unbroken._state.attached import OURS, owners_of
from unbroken._state.taking.capture import Capture
from unbroken._state.names import segment_of_node
from unbroken._state.taking.crossing import crossing
from unbroken._state.taking.memory import Memory
from unbroken._state.view import HOST
from unbroken.errors import Misconfigured, naming, say
from unbroken.opened import RUNS
from unbroken.saving import Saving

_KEPT_OPEN = 2  # directories; each holds memory for the snapshots of its state
_SLICE_S = 0.2

_lock = threading.RLock()
_books: dict[str, _Book] = {}  # by path, the one used last at the end


def save(state, path, *, step=None) -> str:
    """Saves `state`, a dict of names and values, into the run directory `path`; the checkpoint's name, "1200.a3".

    Values are whatever a run can attach, and numbers, texts, None, lists and dicts of all these. It returns when the
    checkpoint is durable. `step`: its label; None is that of the newest checkpoint plus one, from 0. The newest
    checkpoint is always the one saved last, and as in a Run the newest three are kept. Errors: Misconfigured (what
    cannot be saved, by path; a directory that another process owns), StorageUnavailable, StorageFull,
    NothingToResume (a damaged journal), Superseded. Threads: any, one after the other.
    """
    saving = save_with(state, path, step=step, waits=True)
    with naming(os.path.abspath(path)):
        saving.wait("durable")
    return saving.name


def async_save(state, path, *, step=None) -> Saving:
    """As save(), but it returns when `state` has been copied and may change again. See the futures of `Saving`.

    The end of the process waits for what is being saved. Errors: those of save() that come before the copy; later
    ones are in the futures.
    """
    return save_with(state, path, step=step)


def save_with(state, path, *, step=None, keep_last=3, group=None, takeover=False, waits=False) -> Saving:
    """async_save() with options of a Run; they count when the directory is opened. `waits`: the caller will, until it is durable."""
    path = os.path.realpath(options.checked_path(path))
    options.checked_step("save", step)
    settings = options.session_options(
        every=1, keep_last=keep_last, resume="newest", fresh=True, takeover=takeover, on_save_error="warn", group=group
    )  # fresh: it never goes on from nothing, it brings the state
    with _lock:
        memory = _books[path].memory if path in _books else Memory(by_id=False)
        capture = _capture(state, HOST, memory)
        with naming(path):
            book = _book(path, settings)
            book.memory = memory
            if capture.arriving and book.is_tapped:
                capture = _capture(state, True, Memory())
            return book.save(capture, step, waits)


def _book(path, settings) -> _Book:
    if any(os.path.realpath(run.path) == path for run in list(RUNS)):
        raise Misconfigured(f"save: a Run of this process is open in {path}: run.save() saves there")
    book = _books.pop(path, None)
    if book is None:
        while len(_books) >= _KEPT_OPEN:
            release(next(iter(_books)))
        book = _Book(path, settings)
        ending.install()
    _books[path] = book
    return book


def release(path=None) -> None:
    """Waits for the saves in flight and lets go of a directory, or of all. What goes wrong is said."""
    with _lock:
        for one in list(_books) if path is None else [os.path.realpath(path)]:
            book = _books.pop(one, None)
            if book is not None:
                book.close()


def _capture(state, reads, memory) -> Capture:
    if not isinstance(state, dict) or any(not isinstance(name, str) for name in state):
        raise Misconfigured('save: the state is a dict of names and values, such as {"model": model}')
    for name in OURS:
        if name in state:
            raise Misconfigured(f"save: the name {name!r} is taken by Unbroken itself: name that part otherwise")
    capture = Capture(owners_of(state.items()), reads=reads)
    adapters = {name: root_adapter(value) or _Value(value) for name, value in state.items()}
    memory.begin(capture, {segment_of_node(name): adapter for name, adapter in adapters.items()})
    for name, adapter in adapters.items():
        capture.root(name, adapter)
    return capture


class _Value:
    """What cannot be attached, because nothing could be restored in place, can be saved all the same."""

    is_exact = False

    def __init__(self, value):
        self.value = value

    def capture(self, capture, name):
        return capture.value(self.value, name)


class _Nothing:
    """Opens a directory without reading a checkpoint: what is saved comes from elsewhere."""

    def check(self, state):
        pass

    def targets(self, state):
        return []


class _Book:
    """An open directory."""

    def __init__(self, path, settings):
        self._path, self._settings = path, settings
        self.memory: Memory | None = None  # what the last save found
        self._open()

    def _open(self):
        self._session = call(_native.core.Session, self._path, self._settings)
        report = call(self._session.restore, _Nothing())
        self._before = -1 if report["fresh"] else report["step"]  # the newest step of earlier attempts
        self._done = -1  # the greatest durable one of this attempt
        self._in_flight: list[Saving] = []

    def save(self, capture, step, waits) -> Saving:
        last = self._last()
        if step is None:
            step = (self._before if last < 0 else last) + 1
        elif step <= last:  # within an attempt steps ascend: begin another
            self.close()
            self._open()
        if self.is_tapped:
            call(self._session.tap, step, [], capture.tensors, capture.scalars(), [])
        saving = Saving()
        saving._begin(call(self._session.save, step, *crossing(capture), [], [], None, False, [],
                           capture.arriving, capture.arrivals(), waits))  # fmt: skip
        self._in_flight.append(saving)
        return saving

    @property
    def is_tapped(self) -> bool:
        return self._session.wants_tap()

    def _last(self) -> int:
        """The greatest step of this attempt that is durable or may become so; a failed save leaves its step."""
        for line in call(self._session.take_messages, False):
            say(line)
        for saving in self._in_flight:
            if saving.is_durable:
                self._done = max(self._done, saving.step)
        self._in_flight = [saving for saving in self._in_flight if not saving.durable.done()]
        return max([self._done, *(saving.step for saving in self._in_flight)])

    def close(self) -> None:
        """Waits for what is in flight."""
        try:
            while call(self._session.drain, _SLICE_S) is False:
                pass
            call(self._session.close)
            self._last()
        except (Exception, SystemExit) as error:
            say(f"close: {error}")


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    _books.clear()


os.register_at_fork(after_in_child=_after_fork)
ending.at_exit(release)
