"""The native core, and its errors as ours."""

from __future__ import annotations

from unbroken import _core as core
from unbroken.errors import Superseded, from_core, say

CoreError = core.CoreError


def call(function, *args):
    """function(*args), with an error of the core raised as the class a user knows."""
    try:
        return function(*args)
    except CoreError as error:
        ours = from_core(*error.args)
        if isinstance(ours, Superseded):  # a SystemExit with a number is silent
            say(str(ours))
        raise ours from None
