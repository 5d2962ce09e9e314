"""SIGTERM as a flag, for any number of open runs.

The process has one handler of ours at most. A first SIGTERM is told to everyone who watches; one that all of them
have heard goes to the handler that was there before. The last one who leaves puts that handler back, in whatever
order they leave, unless somebody else has replaced ours since: his is never taken away, and where he calls ours,
ours still does what it did.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref

from unbroken.errors import say

_watching: weakref.WeakSet = weakref.WeakSet()


class _Handler:
    """Ours, in its place; `previous` is what was there before."""

    def __init__(self, previous):
        self.previous = previous

    def __call__(self, number, frame) -> None:
        news_for = [watcher for watcher in _watching if not watcher.has_come]
        for watcher in news_for:
            watcher.has_come = watcher.is_pending = True
        if news_for:
            return
        if callable(self.previous):
            self.previous(number, frame)
        elif self.previous == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def _install() -> None:
    """Errors: ValueError, OSError where that cannot be done."""
    there = signal.getsignal(signal.SIGTERM)
    if isinstance(there, _Handler):
        return
    if there is None:
        raise ValueError("a handler was there before Python began, and could not be put back")
    signal.signal(signal.SIGTERM, _Handler(there))


def _put_back() -> None:
    """Undoes _install() where nobody watches any more. From another thread than the main one ours stays; with
    nobody to tell it does what the previous one did."""
    if any(True for _ in _watching) or threading.current_thread() is not threading.main_thread():
        return
    while isinstance(there := signal.getsignal(signal.SIGTERM), _Handler):
        signal.signal(signal.SIGTERM, there.previous)


def beneath(handler):
    """For somebody who will put `handler` back later: what to put back instead, where nobody watches any more."""
    while isinstance(handler, _Handler) and not any(True for _ in _watching):
        handler = handler.previous
    return handler


class StopSignal:
    """`is_pending`: SIGTERM came and was not obeyed yet. Threads: watch and close from one; read from any."""

    def __init__(self):
        self.has_come = self.is_pending = False

    def watch(self) -> None:
        """From now on. From another thread than the main one it may only say that it cannot."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main and not isinstance(signal.getsignal(signal.SIGTERM), _Handler):
            say("signals cannot be watched outside the main thread: SIGTERM will not save before it ends the process")
            return
        if any(watcher.is_pending for watcher in _watching):  # the whole process was asked to end
            self.has_come = self.is_pending = True
        _watching.add(self)  # first: a dropped run may be collected at any moment, and must find us here
        try:
            _install()
        except (ValueError, OSError) as error:
            _watching.discard(self)
            say(f"SIGTERM cannot be watched: {error}")
            return
        weakref.finalize(self, _put_back).atexit = False

    def close(self) -> None:
        """Watches no longer."""
        _watching.discard(self)
        _put_back()


def after_fork() -> None:
    """In the child: nobody watches."""
    _watching.clear()
    _put_back()
