"""Taking saves: what one captures, who waits for it, and what happens when it fails."""

from __future__ import annotations

from unbroken._native import call
from unbroken._start.memory import SnapshotMemory
from unbroken._state.attached import Attached
from unbroken._state.taking.capture import Capture
from unbroken._state.taking.crossing import crossing
from unbroken.errors import Bug, Error, Misconfigured, say
from unbroken._state.view import HOST
from unbroken._state.watch import OptimizerWatch
from unbroken.saving import Saving

_TAGS_MAX = 8
_KEY_MAX = 60  # letters of a key of the provenance, so that any name fits it


class Saver:
    """The saves of one life. `last` is the one taken last. Threads: the trainer's."""

    def __init__(self, session, attached: Attached, watch: OptimizerWatch, raises: bool):
        self._session, self._attached, self._watch, self._raises = session, attached, watch, raises
        self._deferred: list[tuple[Saving, bool]] = []  # asked for within a body, and whether to wait
        self._tags: list[str] = []  # of these
        self.last: Saving | None = None
        self.memory = SnapshotMemory()

    @property
    def is_asked(self) -> bool:
        """True where a save waits for the boundary."""
        return bool(self._deferred)

    def capture(self, reads=True) -> Capture:
        """The state now. Errors: Misconfigured, naming the path of what cannot be kept."""
        self._attached.generators.hand_over()
        later = self._watch.later
        return self._attached.capture(None if later is None else later.choose(), reads)

    def ask(self, wait: bool, tags: list[str]) -> Saving:
        """A save at the next boundary. Errors: Misconfigured (too many tags)."""
        several = list(dict.fromkeys(self._tags + tags))
        if len(several) > _TAGS_MAX:
            raise Misconfigured(f"save: a step can be saved under {_TAGS_MAX} tags")
        self._tags = several
        saving = Saving(is_deferred=True)
        self._deferred.append((saving, wait))
        return saving

    def now(self, step: int, metrics, wait: bool, tags: list[str]) -> Saving:
        """A save of the state after `step` completed steps, at once. Errors: with `wait`, those of the save."""
        saving = self.last = Saving()
        try:
            self._take(saving, step, metrics, None, tags, is_due=False, waits=wait)
        except BaseException as error:
            saving._fail(error)
            raise
        if wait:
            saving.wait("durable")
        return saving

    def at_boundary(self, step: int, kind: str, metrics, capture: Capture | None) -> None:
        """The save of a boundary, which is also every save that was asked for.

        Waits where it is the last one or somebody waits. Errors: those of the save, where it waits or errors in
        the background are to be raised; else it is among the messages of the core, as each failed save is.
        Misconfigured (what cannot be kept) always; a Bug of ours never but in the last save, whoever waits.
        """
        (deferred, tags), self._deferred, self._tags = (self._deferred, self._tags), [], []
        waits = kind == "last" or (kind != "emergency" and any(wait for _, wait in deferred))
        saving = self.last = deferred[0][0] if deferred else Saving()
        try:
            self._take(saving, step, metrics, capture, tags, is_due=kind == "due", waits=waits or kind == "emergency")
            if waits:
                saving.wait("durable")
        except BaseException as error:
            saving._fail(error)
            is_background = isinstance(error, Error | MemoryError) and not isinstance(error, Misconfigured)
            is_awaited = kind == "last" or (waits and not isinstance(error, Bug))
            if is_awaited or not is_background or (self._raises and kind != "emergency"):
                raise
        finally:
            for other, _ in deferred[1:]:
                other._follow(saving)

    def _take(self, saving, step, metrics, capture, tags, is_due, waits) -> None:
        self._session.begin_save()
        self._watch.fence()
        try:
            capture = capture or self.capture(HOST)
            if not is_due:
                capture.later.clear()
            state = crossing(capture)
            for name, value in self._attached.of_type(object, capture.objects):
                said = getattr(type(value), "_unbroken_provenance", None)
                if said is not None:
                    call(self._session.describe, f"data.{name}"[:_KEY_MAX], said(value))
        except Exception as error:  # from here on the core counts and tells failures itself
            self._session.save_failed(step, str(error) or type(error).__name__)
            raise
        arrivals = capture.arrivals()
        is_proved_whole, written = self._watch.later.hold(capture, arrivals) if capture.later else (False, None)
        saving._begin(call(self._session.save, step, *state, metrics, capture.later, written, is_proved_whole, tags,
                           capture.arriving, arrivals, waits))  # fmt: skip
        self.memory.look(self._session)

    def lacks(self, step: int) -> bool:
        """True where the save taken last, whatever became of it, is of another step."""
        return self.last is None or self.last.step not in (step, None)

    def settle(self, step: int) -> tuple[bool, str]:
        """Waits for the last save: whether it is durable and of `step`, and what became of it in words."""
        try:
            if self.lacks(step):
                return False, f"that step was not saved; {self._session.newest or 'no checkpoint'} stands"
            self.last.wait("durable")
            return True, f"saved as {self.last.name}"
        except Error as error:
            return False, f"the last save failed ({error}); {self._session.newest or 'no checkpoint'} stands"

    def has(self, step: int) -> bool:
        """True where the save taken last is of `step` and durable."""
        return self.last is not None and self.last.step == step and self.last.is_durable

    def give_up(self) -> None:
        """The body that asked for saves will not complete."""
        deferred, self._deferred, self._tags = self._deferred, [], []
        if deferred:
            say("warning: the save that was asked for was not taken: the body that asked for it did not complete")
        for saving, _ in deferred:
            saving._fail(Misconfigured("the body that asked for this save did not complete"))
