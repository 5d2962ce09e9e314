"""Ways out of a mismatch, named by globs: missing= unread= rename= cast= only=. Strict is what they leave alone.

`missing`, `unread` and `cast` are used where a checkpoint does not fit, and only there: what fits is read as ever, so
a restart of the same script reads everything that the life before it saved. `rename` and `only` are carried out once:
checkpoints say what the lives before them carried out.
"""

from __future__ import annotations

import difflib
import fnmatch
import re

from unbroken._state.names import upwards
from unbroken._state.permits.rename import Renames
from unbroken.errors import Misconfigured

KEYWORDS = ("missing", "unread", "rename", "cast", "only")


class Globs:
    """Those of one keyword. A glob matches a name, and whatever lies below a name that it matches."""

    def __init__(self, keyword: str, globs=()):
        self.keyword, self.globs = keyword, list(globs)
        self._patterns = [re.compile(f"{fnmatch.translate(glob)[:-2]}(?:\\..*)?\\Z", re.DOTALL) for glob in self.globs]

    def __bool__(self) -> bool:
        return bool(self.globs)

    def match(self, name: str) -> str | None:
        """The first glob that matches, or None."""
        return next((glob for glob, p in zip(self.globs, self._patterns, strict=True) if p.match(name)), None)

    def below(self, name: str) -> Globs:
        """Those that do not mean all that is below `name`."""
        pairs = zip(self.globs, self._patterns, strict=True)
        return Globs(self.keyword, [glob for glob, pattern in pairs if not pattern.match(name + ".")])

    def cover(self, name: str) -> str:
        """The shortest name at or above one that matches, which matches too."""
        end = name.find(".")
        while end >= 0 and not self.match(name[:end]):
            end = name.find(".", end + 1)
        return name if end < 0 else name[:end]


def globs_of(keyword: str, value) -> list[str]:
    """Errors: Misconfigured for anything but a glob or several."""
    globs = [value] if isinstance(value, str) else value
    if globs is None:
        return []
    if not isinstance(globs, (list, tuple, set, frozenset)) or not all(isinstance(glob, str) for glob in globs):
        raise Misconfigured(f'{keyword}={value!r}: a glob over names, such as {keyword}="model.*", or a list of them')
    if not globs or "" in globs:
        raise Misconfigured(f"{keyword}= holds no glob, or an empty one; leave it out to mean nothing by it")
    return list(globs) if isinstance(globs, (list, tuple)) else sorted(globs)


class Ways:
    """What a caller permits. Errors: Misconfigured, naming the keyword."""

    def __init__(self, missing=None, unread=None, rename=None, cast=None, only=None):
        if cast is True:
            cast = "*"
        self.missing = Globs("missing", globs_of("missing", missing))
        self.unread = Globs("unread", globs_of("unread", unread))
        self.cast = Globs("cast", globs_of("cast", None if cast is False else cast))
        self.only = Globs("only", globs_of("only", only))
        self.rename = Renames(rename)

    def __bool__(self) -> bool:
        return any((self.missing, self.unread, self.cast, self.only, self.rename))

    def texts(self) -> list[str]:
        """Each way as checkpoints record it."""
        several = [f"{globs.keyword}={glob}" for globs in (self.missing, self.unread, self.cast) for glob in globs.globs]
        return several + self.rename.texts() + ([self._only_text()] if self.only else [])

    def _only_text(self) -> str:
        return "only=" + ",".join(sorted(self.only.globs))

    def left(self, done) -> Ways:
        """Without what is carried out once and was; `done` are the texts that a checkpoint records."""
        left = Ways()
        left.missing, left.unread, left.cast = self.missing, self.unread, self.cast
        left.rename = self.rename.without(done)
        left.only = Globs("only") if self._only_text() in done else self.only
        return left

    def check(self, names, done, where: str) -> None:
        """Errors: Misconfigured for a glob that matches none of `names`, unless an earlier life was given it."""
        for globs in (self.missing, self.unread, self.cast, self.only):
            for glob in globs.globs:
                is_done = f"{globs.keyword}={glob}" in done or (globs is self.only and self._only_text() in done)
                if not is_done and not any(map(Globs(globs.keyword, [glob]).match, names)):
                    raise matches_nothing(globs.keyword, glob, names, where)
        for old, text in self.rename.sources():
            if text not in done and not self.rename.is_used(old, names):
                raise matches_nothing("rename", old, names, where)


def matches_nothing(keyword: str, glob: str, names, where: str) -> Misconfigured:
    """The error that lists names near to a glob; `where` is a checkpoint."""
    around = dict.fromkeys([*names, *(above for name in names for above in upwards(name))])
    near = difflib.get_close_matches(glob.strip("*?."), around, 5, 0.5)
    near = near or [name for name in around if "." not in name]
    return Misconfigured(
        f"{keyword}={glob!r} matches no name in checkpoint {where}; near ones: {', '.join(near)}",
        f"unbroken show DIR {where}",
    )


def some(names) -> str:
    """The first few of some names."""
    names = sorted(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
