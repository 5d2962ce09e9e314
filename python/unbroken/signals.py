"""SIGTERM as a flag. Handlers are put back by `close`, in a forked child, and never taken from somebody else."""

from __future__ import annotations

import os
import signal
import threading

from unbroken.errors import say


class StopSignal:
    """Watches SIGTERM: the first one sets `is_set`, a second one goes to the previous handler."""

    def __init__(self):
        self.is_set = False
        self._previous = None
        self._is_watching = False

    def watch(self) -> None:
        """Replaces the handler. From another thread than the main one it only says that it cannot."""
        if self._is_watching:
            return
        if threading.current_thread() is not threading.main_thread():
            say("signals cannot be watched outside the main thread: SIGTERM will not save before it ends the process")
            return
        try:
            self._previous = signal.signal(signal.SIGTERM, self._handle)
            self._is_watching = True
        except (ValueError, OSError) as error:
            say(f"SIGTERM cannot be watched: {error}")

    def _handle(self, number, frame) -> None:
        if not self.is_set:
            self.is_set = True
            return
        previous = self._previous
        self.close()
        if callable(previous):
            previous(number, frame)
        elif previous in (signal.SIG_DFL, None):
            os.kill(os.getpid(), number)

    def close(self) -> None:
        """Puts the previous handler back, unless somebody else has replaced ours since."""
        if not self._is_watching:
            return
        self._is_watching = False
        try:
            if signal.getsignal(signal.SIGTERM) == self._handle:
                signal.signal(signal.SIGTERM, signal.SIG_DFL if self._previous is None else self._previous)
        except (ValueError, OSError):
            pass
