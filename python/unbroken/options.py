"""What a Run may be told, and what the environment says instead."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from numbers import Integral

from unbroken import _native
from unbroken.errors import Misconfigured

_MANY = 2**32
_TAG = re.compile(r"[A-Za-z0-9._-]{1,64}")


def checked_path(path) -> str:
    """Absolute. Errors: Misconfigured for what names no directory; an empty path would be the working directory."""
    with contextlib.suppress(TypeError):
        path = os.fspath(path)
    if not isinstance(path, str) or not path or "\0" in path:
        raise Misconfigured(f'{path!r} names no directory: give the path of a run, such as "runs/first"')
    path = os.path.abspath(path)
    for text in (path, os.path.realpath(path)):
        if not _is_text(text):
            name = repr(os.fsencode(text))
            raise Misconfigured(
                f"the path {name} is no UTF-8 text, which records and messages are: rename the directory",
                f"mv ${name[1:]} run",  # the shell reads $'...' as Python reads b'...'
            )
    return path


def directory(path) -> str:
    """Where the run lives: `path`, or what UNBROKEN_DIR makes of it."""
    redirected = os.environ.get("UNBROKEN_DIR")
    if redirected:
        checked_path(redirected)
    return os.path.abspath(_native.core.run_directory(checked_path(path)))


def steps_limit(n: int) -> int:
    """n, or UNBROKEN_STEPS where that is less."""
    if not _is_count(n, 0):
        raise Misconfigured(f"steps: {n!r} is not a number of steps")
    check_environment()
    text = os.environ.get("UNBROKEN_STEPS")
    return min(int(n), int(text)) if text else int(n)


def _is_count(value, least: int) -> bool:
    """True for whole numbers of Python and of NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= least


def _is_text(value) -> bool:
    """True for a text that can be written as UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_step(what: str, value) -> int | None:
    """The label of a checkpoint, or None. Errors: Misconfigured."""
    if value is not None and not (_is_count(value, 0) and value < 2**63):
        raise Misconfigured(f"{what}: step={value!r} is not a number of steps")
    return None if value is None else int(value)


def checked_bool(name: str, value) -> bool:
    """Errors: Misconfigured for anything but True and False: fresh="no" would be true."""
    if not isinstance(value, bool):
        raise Misconfigured(f"{name}={value!r}: True or False")
    return value


def checked_at(name: str, value) -> str:
    """A checkpoint, as text. Errors: Misconfigured."""
    if (_is_text(value) and value) or _is_count(value, 0):
        return str(value)
    raise Misconfigured(f'{name}={value!r}: "newest", a step (1200), a checkpoint ("1200.a3"), "best:METRIC" or "tag:NAME"')


def checked_timeout(name: str, value) -> float | None:
    """Seconds, or None. Errors: Misconfigured."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise Misconfigured(f"{name}={value!r}: a number of seconds, or None")
    return float(value)


def check_environment() -> None:
    """Errors: Misconfigured for a variable UNBROKEN_* with a value that cannot be used."""
    _native.call(_native.core.check_environment)


def versions() -> dict[str, str]:
    """Of Python, and of the libraries that are imported already."""
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy", "jax"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


def checked_unit(name: str, value, example: str) -> str | None:
    """A duration or size as text, or None; the core reads it. Errors: Misconfigured for a number without a unit."""
    if value is not None and not (_is_text(value) and value):
        raise Misconfigured(f"{name}={value!r}: a text with its unit, such as {name}={example!r}")
    return value


def checked_duration(name: str, value) -> str | None:
    return checked_unit(name, value, "10min")


def checked_best(value) -> tuple[str, str] | None:
    """(metric, mode), or None. Errors: Misconfigured."""
    if value is None:
        return None
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    if not is_pair or not _is_text(value[0]) or not value[0] or value[1] not in ("min", "max"):
        raise Misconfigured(f'keep_best={value!r}: a metric and which value is best, as keep_best=("val_loss", "min")')
    return value[0], value[1]


def checked_every(value) -> int:
    """Steps, 0 for none. Errors: Misconfigured."""
    if value is not None and not (_is_count(value, 1) and value < 2**63):
        raise Misconfigured(f"keep_every={value!r}: a number of steps, such as keep_every=1000")
    return int(value or 0)


def checked_tag(value) -> list[str]:
    """The name of a tag in a list, or nothing. Errors: Misconfigured."""
    if value is None:
        return []
    if not isinstance(value, str) or not _TAG.fullmatch(value):
        raise Misconfigured(f"tag={value!r}: 1 to 64 letters, digits, and any of . _ -")
    return [value]


def session_options(*, every, keep_last, resume, fresh, takeover, on_save_error, group, keep_best=None, keep_every=None,
                    mtti=None, rpo=None, every_min=None, every_max=None, busy="skip", max_wait=None,
                    arena=None, max_bandwidth=None) -> dict:  # fmt: skip
    """Options for the core. Errors: Misconfigured, naming the keyword."""
    if not _is_text(every) and not _is_count(every, -_MANY):
        raise Misconfigured(f'every={every!r}: give a number of steps (every=50), a duration (every="10min") or "auto"')
    if isinstance(every, Integral) and every < 1:
        raise Misconfigured(f"every={every}: at least 1 step")
    if not _is_count(keep_last, 1) or keep_last >= _MANY:
        raise Misconfigured(f"keep_last={keep_last!r}: at least 1 checkpoint, and fewer than {_MANY}")
    if not isinstance(on_save_error, str) or on_save_error not in ("warn", "raise"):
        raise Misconfigured(f'on_save_error={on_save_error!r}: "warn" or "raise"')
    if not isinstance(busy, str) or busy not in ("skip", "wait"):
        raise Misconfigured(f'busy={busy!r}: "skip" or "wait"')
    check_environment()  # the core takes what is in it
    if group is not None and not (_is_text(group) and group):
        raise Misconfigured(f"group={group!r}: the name of a group")
    return {
        "every": str(every),
        "keep_last": int(keep_last),
        "keep_best": checked_best(keep_best),
        "keep_every": checked_every(keep_every),
        "resume": checked_at("resume", resume),
        "fresh": checked_bool("fresh", fresh),
        "takeover": checked_bool("takeover", takeover),
        "group": group,
        "mtti": checked_duration("mtti", mtti),
        "rpo": checked_duration("rpo", rpo),
        "every_min": checked_duration("every_min", every_min),
        "every_max": checked_duration("every_max", every_max),
        "busy": busy,
        "max_wait": checked_duration("max_wait", max_wait),
        "arena": checked_unit("arena", arena, "8GiB"),
        "max_bandwidth": checked_unit("max_bandwidth", max_bandwidth, "200MB/s"),
        "raises_on_save_error": on_save_error == "raise",
        "versions": versions(),
    }
