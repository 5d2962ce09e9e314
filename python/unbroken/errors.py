"""What can go wrong, one class for each thing a caller would do about it.

The classes below `Error` are ordinary exceptions. `Interrupted` and `Superseded` are stops: they derive from
SystemExit, so that `except Exception` catches neither, and `.code` is the status with which the process ends.
Each has `.kind` (the class name), `.exit_code` and `.next_command`: what a person should run next, never empty.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
import threading

from unbroken._process import ending


class _Advice:
    """What all of them have. In a next command, the word DIR stands for the directory of the run."""

    directory: str | None = None  #: of the run; `naming` fills it in
    _default_next = "python -m pydoc unbroken"
    _next = ""

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def next_command(self) -> str:
        words = (self._next or self._default_next).split(" ")
        where = "DIR" if self.directory is None else shell_word(self.directory)
        return " ".join(where if word == "DIR" else word for word in words)


class Error(_Advice, ending.EndsProcess):
    """Base of the errors. Uncaught in the main thread, it ends the process with `.exit_code`, after one `error:` line.

    `except unbroken.Error` catches every error below, and no stop.
    """

    is_vanished = False  #: the checkpoint was collected by retention while it was being read
    live_is_undefined = False  #: it came while live objects were being filled: this process must not train on

    exit_code = 1

    def __init__(self, message: str, next_command: str = ""):
        super().__init__(printable(message, may_have_lines=True))
        self._next = next_command
        ending.install()

    def last_line(self) -> str:
        """Cause and next command."""
        return printable(f"error: {self._cause()}" + (f": try `{self.next_command}`" if self.next_command else ""))

    def _cause(self) -> str:
        return str(self).split("\n", 1)[0]


class NothingToResume(Error):
    """No checkpoint where there has to be one, or a journal that is damaged, cut or missing."""

    exit_code = 66
    _default_next = "unbroken ls DIR"


class CorruptCheckpoint(Error):
    """The bytes of the checkpoint that was asked for are damaged. Another one may be whole."""

    exit_code = 65
    _default_next = "unbroken verify DIR"


class StateMismatch(Error):
    """The checkpoint and the attached objects do not fit each other.

    The live objects are untouched, but where `.live_is_undefined` says otherwise.

    `.missing`: names that are attached and not in the checkpoint. `.unread`: names in the checkpoint that
    nothing attached takes. `.changed`: (name, saved, live), both sides as "F32[3,4]".
    """

    exit_code = 65
    _default_next = "unbroken show DIR"

    def __init__(self, message="", missing=(), unread=(), changed=(), next_command=""):
        self.missing, self.unread, self.changed = sorted(missing), sorted(unread), sorted(changed)
        lines = [message or "the checkpoint does not fit what is attached"]
        lines += [f"  missing  {name}: attached, not in the checkpoint" for name in self.missing]
        lines += [f"  unread   {name}: in the checkpoint, nothing attached takes it" for name in self.unread]
        lines += [f"  changed  {name}: saved {saved}, live {live}" for name, saved, live in self.changed]
        if self.missing or self.unread or self.changed:
            lines.append(
                "make the attached objects agree with the checkpoint, or permit the difference (missing=, unread=, "
                "rename=, cast=: globs over these names), resume from another one with resume=, or start a new run in "
                "another directory"
            )
        super().__init__("\n".join(lines), next_command)

    def _cause(self) -> str:
        names = [*self.missing, *self.unread, *(name for name, _, _ in self.changed)]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return super()._cause() + (": " + ", ".join(names[:5]) + more if names else "")


class StorageUnavailable(Error):
    """The storage did not do what was asked: an I/O error, no permission, a server that does not answer.

    It says nothing about what is stored: nothing is called damaged for it. Worth trying again.
    """

    exit_code = 74
    _default_next = "findmnt -T DIR"


class StorageFull(Error):
    """No space or quota left. Older checkpoints stand. Worth trying again when there is room."""

    exit_code = 74
    _default_next = "df -h DIR"


class Misconfigured(Error):
    """The call or the environment has to be changed first. Trying again as it is leads to the same."""

    exit_code = 78
    _default_next = "python -m pydoc unbroken.Run"


class Bug(Error):
    """An invariant of ours does not hold. It fails the save at hand, as any failure does; training goes on."""

    exit_code = 80
    _default_next = "unbroken verify DIR"


class _Stop(_Advice, SystemExit):
    """A stop of the whole process that is not an error."""

    def __init__(self, message: str, code: int, next_command: str = ""):
        super().__init__(code)
        self.message, self._next = printable(message, may_have_lines=True), next_command
        ending.install()
        if threading.current_thread() is not threading.main_thread():
            ending.must_end_with(code)

    def __str__(self) -> str:
        return self.message

    @property
    def exit_code(self) -> int:
        return self.code


class Interrupted(_Stop):
    """The run was asked to stop, by SIGTERM; raised at the end of the step. A stop, not an Error: a SystemExit.

    `.code` 75: all that was done is durable, nothing is lost; 76: the last save did not commit, and the steps since the
    newest checkpoint will be repeated. The same command, started again, goes on.
    """

    @property
    def _default_next(self) -> str:  # the same command goes on where this process stopped
        return " ".join(map(shell_word, sys.orig_argv))


class Superseded(_Stop):
    """A newer attempt owns the run; this process must not touch it any more. `.code` 82. A stop, not an Error."""

    _default_next = "unbroken ls DIR"

    def __init__(self, message: str, next_command: str = ""):
        super().__init__(message, 82, next_command)


_CLASSES = {
    c.__name__: c
    for c in (
        Bug,
        NothingToResume,
        CorruptCheckpoint,
        StateMismatch,
        StorageUnavailable,
        StorageFull,
        Misconfigured,
        Superseded,
    )
}


def from_core(code: str, kind: str, message: str, next_command: str = "") -> BaseException:
    """The exception for an error of the native core; an unknown kind is a RuntimeError naming the code."""
    if kind == "StateMismatch":
        return StateMismatch(message, next_command=next_command or "")
    if kind in _CLASSES:
        error = _CLASSES[kind](message, next_command or "")
        error.is_vanished = code == "vanished"  # collected by retention while it was being read
        return error
    return RuntimeError(f"{message} ({code})")


_DISTURBS = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_A_LINE, _IN_LINES = re.compile(f"[{_DISTURBS}]"), re.compile(rf"(?!\n)[{_DISTURBS}]")


def printable(text: str, may_have_lines: bool = False) -> str:
    """`text` as it can be shown in one line (or in its lines), whoever wrote it: what moves the cursor or reorders a line is escaped,
    and so are the lone surrogates that stand for undecodable bytes in paths."""
    return (_IN_LINES if may_have_lines else _IN_A_LINE).sub(_escaped, text)


def _escaped(match) -> str:
    point = ord(match[0])
    if 0xDC80 <= point <= 0xDCFF:  # an undecodable byte
        point -= 0xDC00
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"


def shell_word(text: str) -> str:
    """`text` as one word of a command that can be shown in one line and copied from there: in $'...' where it has to be."""
    if printable(text) == text:
        return shlex.quote(text)
    shown = {"'": "\\'", "\\": "\\\\"}
    return "$'" + "".join(shown.get(c, c) if " " <= c <= "~" else _bytes_of(c) for c in text) + "'"


def _bytes_of(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


@contextlib.contextmanager
def naming(directory: str):
    """Errors that pass get to know the directory of the run, for their next command."""
    try:
        yield
    except (Error, _Stop) as error:
        error.directory = error.directory or directory
        raise


START_AGAIN = "start this program again; this run takes no more steps"


class Filling:
    """A checkpoint being put into live objects: an error that passes, once that has begun, says what is undefined now.

    `way_out`: what a person does about it.
    """

    def __init__(self, way_out: str = START_AGAIN):
        self._way_out, self._checkpoint, self.has_begun = way_out, "", False

    def begin(self, checkpoint: str) -> None:
        """From now on live objects may change."""
        self._checkpoint, self.has_begun = checkpoint, True

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, trace) -> None:
        if not self.has_begun or not isinstance(error, Exception) or getattr(error, "live_is_undefined", False):
            return
        warning = f"the live objects are partly filled, so that their state is undefined: {self._way_out}"
        if isinstance(error, Error):
            error.args = (f"{error}\n{warning}",)
            error.live_is_undefined = True
            return
        mine = StateMismatch(
            f"while checkpoint {self._checkpoint} was put into the live objects: "
            f"{type(error).__name__}: {error}\n{warning}",
            next_command=f"unbroken show DIR {self._checkpoint}",
        )
        mine.live_is_undefined = True
        raise mine from error


def say(line: str) -> None:
    """One line on stderr, prefixed `unbroken: `. A line that cannot be written is dropped."""
    try:
        sys.stderr.write(f"unbroken: {printable(line)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
