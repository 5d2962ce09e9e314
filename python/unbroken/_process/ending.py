"""How a process ends that uses this package: what it closes, what it prints last, and its status.

Importing changes nothing of the process. The hooks come with the first thing that needs them: a Run, a save, or the
first error or stop of ours. Each of them does what the one before it did, first.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading


class EndsProcess(Exception):
    """An exception that ends the process, where nobody catches it, with `.exit_code` and `last_line` on stderr."""

    exit_code = 1

    def last_line(self) -> str:
        """The last line a person sees."""
        return f"error: {self}"


def status_of(error: BaseException) -> int:
    """With what the process ends where nobody catches this one."""
    if isinstance(error, EndsProcess):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 1


_closers: list = []  # what is to be called at the end of the process
_status: int | None = None  # the process must not end with 0: an error or a stop ended a thread
_owner: int | None = None  # the process that has our hooks; children that it forks inherit them


def at_exit(closer) -> None:
    """`closer()` is called when the process ends, where the hooks are there; the one named last is called first."""
    _closers.append(closer)


def must_end_with(code: int) -> None:
    """The process must not end with 0: with this, or an earlier one."""
    global _status
    _status = _status or code


def install() -> None:
    """Sets the hooks of this process, once. Threads: any."""
    global _owner
    if _owner is not None:
        return
    _owner = os.getpid()
    previous, previous_thread = sys.excepthook, threading.excepthook

    def hook(kind, value, trace):
        previous(kind, value, trace)
        if isinstance(value, EndsProcess):
            _write(value.last_line())
            raise SystemExit(value.exit_code)

    def thread_hook(args):
        previous_thread(args)
        if isinstance(args.exc_value, EndsProcess):
            _write(args.exc_value.last_line())
            must_end_with(args.exc_value.exit_code)

    sys.excepthook, threading.excepthook = hook, thread_hook
    atexit.register(_end)


def _end() -> None:
    with contextlib.ExitStack() as stack:
        stack.callback(_end_with_status)
        for closer in _closers:
            stack.callback(closer)


def _end_with_status() -> None:
    # The status of the interpreter cannot be changed here any more, and the main thread may be about to end with 0
    # although a thread was stopped.
    if _status and os.getpid() == _owner:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(_status)


def _write(line: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
