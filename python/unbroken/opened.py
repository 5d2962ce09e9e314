"""The runs of this process that are not closed."""

import weakref

RUNS: weakref.WeakSet = weakref.WeakSet()
