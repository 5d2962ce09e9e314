"""What our own adapters and measurements see of a Run beside its public face, and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from unbroken._state.generators import GlobalGenerators
from unbroken._state.saved import Saved


class Inside(NamedTuple):
    """A Run at one moment. `Run._inside` makes it."""

    step: int  # completed ones
    is_restored: bool
    has_label: bool  # `step` names a state that was completed or restored
    has_completed: bool  # a step, in this life
    is_stopping: bool  # SIGTERM came and was not obeyed yet
    generators: GlobalGenerators
    saved: Saved | None  # what was restored; None after the first completed step
    is_due: Callable[[int], bool]  # the core's decision alone
    set_begun: Callable[[bool], None]  # a step was begun: until the next call of `step` saves wait
