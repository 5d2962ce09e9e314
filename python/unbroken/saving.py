"""One save as a user sees it: three futures that native threads complete."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from unbroken.errors import Misconfigured, from_core

_STAGES = ("staged", "durable", "verified")
_SLICE_S = 0.2  # a wait in native code is cut into these, so that Ctrl-C and SIGTERM are heard


class _StageFuture(Future):
    """A future that refuses to wait for itself: what a save waits for may be the end of the waiting body."""

    def __init__(self, saving):
        super().__init__()
        self._saving = saving

    def result(self, timeout=None):
        if timeout is None and self._saving._is_deferred and self._saving._thread is threading.current_thread():
            raise Misconfigured(
                "this save is taken at the boundary that ends the body of the loop: do not wait for it before"
            )
        return super().result(timeout)


class Saving:
    """One save, on its way. `.staged .durable .verified` are futures of concurrent.futures, done in this order; the
    result of each is the checkpoint's name, "1200.a3".

    `.staged`: the state was copied, and may change again. `.durable`: the checkpoint exists, synced and read back by
    name. `.verified`: all of its bytes were read back. A failed save sets its exception on those that are not done.
    `.step` is its label and `.name` its name, None until it is taken. A save that was asked for in a `steps` body is
    taken at the end of this body: waiting for it before is Misconfigured. Threads: any.
    """

    def __init__(self, is_deferred: bool = False):
        self._is_deferred, self._thread = is_deferred, threading.current_thread()
        self.step: int | None = None  # its label, once it was taken
        self.name: str | None = None
        self.staged, self.durable, self.verified = (_StageFuture(self) for _ in _STAGES)
        self._core = None
        self._lock = threading.Lock()

    @property
    def staging_completion(self) -> Future:
        """`.staged`, by the name that torch.distributed.checkpoint has for it."""
        return self.staged

    @property
    def upload_completion(self) -> Future:
        """`.durable`, by the name that torch.distributed.checkpoint has for it."""
        return self.durable

    def _begin(self, core_saving) -> None:
        """The save was taken: `core_saving` is the core's handle."""
        self._core, self.name, self.step, self._is_deferred = (
            core_saving,
            core_saving.name,
            core_saving.step,
            False,
        )
        core_saving.on_change(self._update)

    def _fail(self, error: BaseException) -> None:
        """Nothing more will come."""
        with self._lock:
            for future in (self.staged, self.durable, self.verified):
                if not future.done():
                    future.set_exception(error)
        self._is_deferred = False

    def _update(self) -> None:
        error = self._core.error()
        with self._lock:
            for stage in _STAGES:
                future = getattr(self, stage)
                if not future.done() and getattr(self._core, stage)():
                    future.set_result(self.name)
        if error is not None:
            self._fail(from_core(*error))

    def _follow(self, leader: Saving) -> None:
        """This is the same save as `leader`, which was taken or has failed."""
        if leader._core is not None:
            self._begin(leader._core)
        else:
            self._fail(leader.durable.exception())

    @property
    def is_durable(self) -> bool:
        return self.durable.done() and self.durable.exception() is None

    def wait(self, stage: str = "durable") -> None:
        """Waits, without a limit, until the stage is reached: "staged", "durable" or "verified". Errors: that of the save."""
        if self._core is not None:
            while not self._core.wait(stage, _SLICE_S):
                pass
            self._update()
        getattr(self, stage).result()
