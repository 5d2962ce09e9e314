"""init_from="DIR@AT": a new run that begins with the state of a checkpoint of another one."""

from __future__ import annotations

import json
import os
import re

from unbroken import _native
from unbroken._native import call
from unbroken._state.attached import Attached
from unbroken._state.saved import Saved
from unbroken._state.permits.ways import Ways
from unbroken.errors import START_AGAIN, Error, Misconfigured, NothingToResume, naming, shell_word
from unbroken.loading import Filled, read_into
from unbroken.options import checked_at, checked_path

_AT = re.compile(r"newest|[0-9]+(\.a[0-9]+(\.t[0-9]+)?)?|(best|tag):.+")


class Origin:
    """Where a run begins. It is carried out once: a directory that holds a checkpoint goes on from that.

    Taken are the attached objects that only= names, without only= all but the loaders; of the other run's generators,
    epochs and run.state only what only= names. Errors: Misconfigured.
    """

    def __init__(self, text):
        text = os.fspath(text) if isinstance(text, os.PathLike) else text
        if not isinstance(text, str) or not text:
            raise Misconfigured(f'init_from={text!r}: the directory of a run and a checkpoint, such as "runs/first@1200"')
        directory, at, name = text.rpartition("@")
        is_split = bool(at) and bool(_AT.fullmatch(name))
        self.text = text
        self._path = checked_path(directory if is_split else text)
        self._at = checked_at("init_from", name if is_split else "newest")
        self._filled: Filled | None = None
        self._name = ""  # of the checkpoint it began with

    def look(self, path: str) -> None:
        """Before `path` is made: is there anything to begin with? Errors: those of opening a checkpoint."""
        if not _holds_checkpoint(path):
            with naming(self._path):
                call(_native.core.Reader, self._path, self._at)

    def compare(self, attached: Attached, path: str, loaders) -> None:
        """Where `path` holds no checkpoint: everything that can be refused is, and nothing was written or changed.

        Errors: StateMismatch, NothingToResume, CorruptCheckpoint, StorageUnavailable, Misconfigured.
        """
        if _holds_checkpoint(path):
            self._check_parent(path)
            return
        objects = attached.objects
        ways: Ways = attached.ways
        if not ways.only:
            objects = {name: value for name, value in objects.items() if not any(value is one for one in loaders)}
        if not objects:
            raise Misconfigured("init_from= fills attached objects, and nothing is attached")
        self._filled = Filled(objects, ways, f"{START_AGAIN}. Where that checkpoint is damaged, name another in init_from=")
        with naming(self._path):
            reader = call(_native.core.Reader, self._path, self._at)
            self._filled.compare(Saved(reader.saved, json.loads(reader.saved.tree)))

    def _check_parent(self, path: str) -> None:
        """A run that did not begin from this one is not silently gone on with. What is gone cannot be asked any more."""
        saved = call(_native.core.Reader, path, "newest").saved
        parent = Saved(saved, json.loads(saved.tree)).run.get("parent")
        if parent is None:
            raise Misconfigured(
                f"init_from={self.text}: {path} holds a run that began by itself, at {saved.name}: leave init_from= out, or "
                "begin in another directory",
                f"unbroken ls {shell_word(path)}",
            )
        try:
            run = call(_native.core.Reader, self._path, "newest").saved.run
        except Error:
            return
        if f" of run {run} in " not in parent:
            raise Misconfigured(
                f"init_from={self.text}: {path} holds a run that began from {parent}", f"unbroken ls {shell_word(path)}"
            )

    def carry_out(self, attached: Attached) -> str:
        """Fills the objects; what is to be said. Errors: those of reading, with the live objects undefined."""
        if self._filled is None:
            raise NothingToResume("init_from=: the directory held a checkpoint a moment ago, and holds none now")
        with naming(self._path):
            checkpoint = read_into(self._path, self._at, self._filled)
        self._name = checkpoint.name
        attached.parent = f"{checkpoint.name} of run {checkpoint.run} in {self._path}"
        return f"began from {attached.parent}"

    # -- what Restoring does for a checkpoint of this run

    def late(self, name: str, value, is_loader: bool) -> list[str]:
        """Gives an object that is attached after it was carried out its part. Errors: as carry_out."""
        filled = self._filled
        if is_loader and not filled.ways.only:
            return []
        filled.add(name, value)
        try:
            with naming(self._path):
                read_into(self._path, self._name, filled)
        except BaseException:
            filled.remove(name)
            raise
        return []

    def check_taken(self) -> None:
        """What nothing takes is left in the other run."""

    def end(self) -> list[str]:
        """The first step is complete."""
        self._filled = None
        return []


def _holds_checkpoint(path: str) -> bool:
    try:
        call(_native.core.Reader, path, "newest")
    except NothingToResume:
        return False
    return True
