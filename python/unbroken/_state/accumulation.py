"""How many micro-batches a step has: another number is another training, so it is kept and compared."""

from __future__ import annotations

from unbroken._state.permits.ways import Ways
from unbroken.errors import StateMismatch, say

_NAME = "run.accumulate"
_SEVERAL = 0  # it was changed within a life, so that any number may come next


class Accumulation:
    """The number of the life at hand, and of those before it."""

    def __init__(self):
        self._now: int | None = None
        self._saved: int | None = None  # until this life has used one

    def pairs(self) -> list:
        """What a checkpoint says of it; nothing where the loop is not one that counts them."""
        number = self._saved if self._now is None else self._now
        return [] if number is None else [["accumulate", number]]

    def restore(self, run: dict) -> None:
        """What a checkpoint said."""
        self._saved = run.get("accumulate")

    def use(self, number: int, ways: Ways) -> None:
        """A micro-batch of so many is complete. Errors: StateMismatch where lives before had another number."""
        if self._now == number:
            return
        if self._now is None and self._saved not in (None, number, _SEVERAL):
            if not ways.unread.match(_NAME):
                raise StateMismatch(
                    f"step: accumulate={number}, and the checkpoint was made with accumulate={self._saved}: a step would have another "
                    f'number of micro-batches. unread="{_NAME}" permits it',
                    changed=[(_NAME, str(self._saved), str(number))],
                )
            say(f'unread="{_NAME}": a step has {number} micro-batches from here on, and had {self._saved}')
        is_changed = self._now is not None or self._saved == _SEVERAL
        self._now, self._saved = _SEVERAL if is_changed else number, None
