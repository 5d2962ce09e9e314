"""A Run inside the loop of somebody else: Lightning's, or that of transformers."""

from __future__ import annotations

from unbroken import options
from unbroken.run import Run

_NO_LIMIT = 2**62


class Guest:
    """Opens the run at once; `restore` when the objects that draw random numbers to make themselves are made.

    Threads: the trainer's.
    """

    def __init__(self, directory, run_options: dict):
        self.run = Run(directory, **run_options)
        self._generators = None  # as restored; the framework draws from them before its first batch

    @property
    def is_fresh(self) -> bool:
        """Whether there was nothing to go on from; known after restore."""
        return self._generators is None

    def restore(self) -> int:
        """Run.restore(), once; the number of completed steps."""
        was_restored = self.run._inside.is_restored
        step = self.run.restore()
        if not was_restored and self.run._inside.has_label:
            self._generators = self.run._inside.generators.capture()
        return step

    def rewind(self) -> None:
        """The global generators as they were when the checkpoint was taken."""
        if self._generators is not None:
            self.run._inside.generators.restore(self._generators)

    def mark(self) -> None:
        """The global generators as they are now are those to rewind to."""
        self._generators = self.run._inside.generators.capture()

    def set_begun(self, is_begun: bool) -> None:
        """Whether a step was begun: what the loop holds has no name until it is complete, and saves wait for that."""
        self.run._inside.set_begun(is_begun)

    def save_last(self) -> None:
        """The loop is over: its last step is durable. Errors: those of the save."""
        self.set_begun(False)
        if self.run._inside.has_completed:
            self.run.save()

    def abandon(self, error: BaseException) -> None:
        """The loop ends by an error. What is being saved still is; errors of that are said."""
        self.run.__exit__(type(error), error, error.__traceback__)


def capped(steps: int | None) -> int | None:
    """The end of a loop, UNBROKEN_STEPS where that is less; None is no end."""
    limit = options.steps_limit(_NO_LIMIT if steps is None else steps)
    return None if limit == _NO_LIMIT else limit
