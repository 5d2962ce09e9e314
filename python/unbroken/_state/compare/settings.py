"""Settings of the script that differ from those of a checkpoint: the checkpoint's are used, and a line says both values."""

from __future__ import annotations

from unbroken._state.permits.ways import Globs, some


class Settings:
    """Those of one plan, by name. `of` is what a setting is a part of, where it may differ because training moved it.

    unread= keeps the script's own, with all else that the glob means; but where there is an `of`, by a glob only that
    means less than all of that: such a setting differs at every resume, and what else is in `of` fits.
    """

    def __init__(self):
        self._differing: list[tuple] = []  # (name, of, live, saved), values as texts
        self._unknown: list[tuple] = []  # (name, of) of those whose values come with the bytes

    def differ(self, name: str, live: str, saved: str, of: str | None = None) -> None:
        self._differing.append((name, of, live, saved))

    def may_differ(self, name: str, of: str) -> None:
        self._unknown.append((name, of))

    def unread(self, globs: Globs):
        """(name, globs of unread= that count for it) of each."""
        for name, of, *_ in (*self._differing, *self._unknown):
            yield name, globs if of is None else globs.below(of)

    def lines(self, skips, checkpoint: str) -> list[str]:
        """One for each setting, in however many groups of parameters or items of a list it differs."""
        alike: dict[tuple, list] = {}
        for name, _, live, saved in self._differing:
            if not skips(name):
                parts = tuple(part for part in name.split(".") if not part.isdigit())
                alike.setdefault(parts, []).append((name, live, saved))
        lines = []
        for (name, live, saved), *others in alike.values():
            rest = f"; likewise {some(other for other, _, _ in others)}" if others else ""
            lines.append(f"{name} is {live} in the script and {saved} in checkpoint {checkpoint}: {saved} is used{rest}")
        return lines
