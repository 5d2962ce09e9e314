"""What a Run may be told, and what the environment says instead."""

from __future__ import annotations

import os

from unbroken.errors import Misconfigured, comes_later

#: keywords of later versions and the value that means "not used"
LATER = {
    "keep_best": None, "keep_every": None, "init_from": None, "check": False, "busy": "skip", "max_wait": None,
    "arena": None, "max_bandwidth": None, "mtti": None, "rpo": None, "every_min": None, "every_max": None,
    "missing": None, "unread": None, "rename": None, "cast": False, "only": None,
}  # fmt: skip

_paths: list[str] = []  # of the Runs of this process, in order, each once


def refuse_later(given: dict) -> None:
    """Errors: Misconfigured for a keyword that a later version brings, TypeError for one that nobody knows."""
    for name, value in given.items():
        if name not in LATER:
            raise TypeError(f"Run() got an unexpected keyword argument {name!r}")
        default = LATER[name]
        if not (value is default or (type(value) is type(default) and value == default)):
            raise comes_later(name)


def checked_path(path) -> str:
    """Absolute. Errors: Misconfigured for what names no directory; an empty path would be the working directory."""
    path = os.fspath(path)
    if not isinstance(path, str) or not path or "\0" in path:
        raise Misconfigured(f'{path!r} names no directory: give the path of a run, such as "runs/first"')
    return os.path.abspath(path)


def directory(path) -> str:
    """Where the run lives: UNBROKEN_DIR for the first path of the process, UNBROKEN_DIR.<k>.<name> for the k-th."""
    path = checked_path(path)
    redirected = os.environ.get("UNBROKEN_DIR")
    if not redirected:
        return path
    if path not in _paths:
        _paths.append(path)
    k = _paths.index(path) + 1
    redirected = os.path.abspath(redirected)
    return redirected if k == 1 else f"{redirected}.{k}.{os.path.basename(path)}"


def steps_limit(n: int) -> int:
    """n, or UNBROKEN_STEPS where that is less."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise Misconfigured(f"steps: {n!r} is not a number of steps")
    text = os.environ.get("UNBROKEN_STEPS")
    if not text:
        return n
    if not text.isascii() or not text.isdigit():
        raise Misconfigured(f"UNBROKEN_STEPS is {text!r}, not a number of steps: give it as UNBROKEN_STEPS=100")
    return min(n, int(text))


def session_options(*, every, keep_last, resume, fresh, takeover, on_save_error, group) -> dict:
    """Options for the core. Errors: Misconfigured, naming the keyword."""
    if isinstance(every, bool) or not isinstance(every, (int, str)):
        raise Misconfigured(f'every={every!r}: give a number of steps (every=50), a duration (every="10min") or "auto"')
    if isinstance(every, int) and every < 1:
        raise Misconfigured(f"every={every}: at least 1 step")
    if isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 1:
        raise Misconfigured(f"keep_last={keep_last!r}: at least 1 checkpoint")
    if on_save_error not in ("warn", "raise"):
        raise Misconfigured(f'on_save_error={on_save_error!r}: "warn" or "raise"')
    if isinstance(resume, bool) or not isinstance(resume, (int, str)):
        raise Misconfigured(f'resume={resume!r}: "newest", a step (1200) or a checkpoint ("1200.a3")')
    if group is not None and not isinstance(group, str):
        raise Misconfigured(f"group={group!r}: the name of a group")
    return {
        "every": str(every),
        "keep_last": keep_last,
        "verified_min": min(2, keep_last),
        "resume": str(resume),
        "fresh": bool(fresh),
        "takeover": bool(takeover) or os.environ.get("UNBROKEN_TAKEOVER") == "1",
        "group": group,
        "on_save_error": on_save_error,
    }
