"""Did an optimizer step between two boundaries? Counted by hooks, so that no gradient is lost unseen."""

from __future__ import annotations

import sys

from unbroken.errors import Misconfigured


def _is_accumulated(optimizers) -> bool:
    """Do their parameters hold gradients that a later step could add to?"""
    gradients = (parameter.grad for one in optimizers for group in one.param_groups for parameter in group["params"])
    held = [gradient for gradient in gradients if gradient is not None]
    values = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in held]
    return all(bool(one.isfinite().all()) for one in values) and any(bool(one.any()) for one in values)


class OptimizerWatch:
    """The attached torch optimizers and scalers. `later`: which of their tensors may be copied later, or None."""

    def __init__(self, session, is_proved_whole=False):
        self.later = None
        self._session, self._is_proved_whole = session, is_proved_whole
        self._stepped = False
        self._handles: dict[int, object] = {}
        self._optimizers: list = []
        self._scalers: list = []  # [scaler, what it held at the last boundary]

    def add(self, value) -> None:
        """Watches an attached object, if it is an optimizer or a gradient scaler."""
        if "torch" not in sys.modules:
            return
        import torch

        from unbroken._state.torch.adapters import SCALERS
        from unbroken._state.adapters import rich_leaves

        for leaf in rich_leaves(value):
            if isinstance(leaf, torch.optim.Optimizer) and id(leaf) not in self._handles:
                self._handles[id(leaf)] = leaf.register_step_post_hook(self._on_step)
                self._optimizers.append(leaf)
                self._later().add(leaf)
            elif isinstance(leaf, SCALERS):
                self._scalers.append([leaf, self._mark(leaf)])

    def _later(self):
        if self.later is None:
            from unbroken._state.torch.later import Later

            self.later = Later(self._session, self._is_proved_whole)
        return self.later

    def _on_step(self, *_):
        self._stepped = True

    @staticmethod
    def _mark(scaler):
        # update() replaces this table, also after a step that it skipped because of an infinite gradient
        return getattr(scaler, "_per_optimizer_states", None)

    def check(self) -> None:
        """Errors: Misconfigured where torch optimizers are attached, none stepped since the last boundary, and their
        parameters hold gradients: those would not be part of a checkpoint. A step that was skipped is none of that:
        its gradients were cleared, or are not finite, so that nothing can be added to them."""
        updated = False
        for entry in self._scalers:
            mark = self._mark(entry[0])
            updated = updated or mark is not entry[1]
            entry[1] = mark
        if self._handles and not self._stepped and not updated and _is_accumulated(self._optimizers):
            raise Misconfigured(
                "no attached optimizer has stepped since the last boundary: gradients that were accumulated would not "
                "be part of a checkpoint; accumulate within one body, or call run.step(accumulate=N) after each "
                "micro-batch; where a step is skipped on purpose, clear its gradients (optimizer.zero_grad())"
            )
        self._stepped = False
        if self.later is not None:
            self.later.on_boundary()

    def fence(self) -> None:
        """Returns when all that was to be copied later is copied."""
        if self.later is not None:
            self.later.fence()

    def close(self) -> None:
        """Removes the hooks."""
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()
        if self.later is not None:
            self.later.close()
        self._optimizers.clear()
