"""The classes of optimizers, schedulers and scalers, recorded with each checkpoint: another one may have the same keys,
and do something else with them. Modules are their tensors, and other objects say themselves what they take.

The record of a checkpoint is {path: module and name of the class}. It is only compared, and never looked up.
"""

from __future__ import annotations

import sys

from unbroken._state.adapters import rich_paths
from unbroken._state.names import join, segment
from unbroken._state.tree import text

_WRAPPERS = ("accelerate", "lightning", "pytorch_lightning", "lightning_fabric")  # what these put around is no other class
_MAIN = ("__main__", "__mp_main__")


def classes_of(objects: dict) -> dict[str, str]:
    """The record of what is attached under some names."""
    if "torch" not in sys.modules:
        return {}
    import torch

    from unbroken._state.torch.adapters import SCALERS, SCHEDULER_KINDS

    found: dict[str, str] = {}

    def note(value, path, kinds, around=()):
        value = _unwrapped(value)
        if isinstance(value, kinds) and id(value) not in around:
            found[path] = f"{type(value).__module__}.{type(value).__qualname__}"
            for name, part in vars(value).items():  # an optimizer around another one, a scheduler of several
                inner, around_it = join(path, segment(name)), (*around, id(value))
                note(part, inner, kinds, around_it)
                for i, one in enumerate(part) if isinstance(part, (list, tuple)) else ():
                    note(one, join(inner, str(i)), kinds, around_it)

    for name, value in objects.items():
        for path, leaf in rich_paths(value, segment(name)):
            for kinds in (torch.optim.Optimizer, SCHEDULER_KINDS, SCALERS):
                note(leaf, path, kinds)
    return found


def _unwrapped(value):
    """Without what a framework puts around an optimizer or a scheduler."""
    while type(value).__module__.split(".")[0] in _WRAPPERS:
        own = getattr(value, "__dict__", {})
        inside = [own[name] for name in ("optimizer", "_optimizer", "scheduler") if name in own]
        if not inside:
            break
        value = inside[0]
    return value


def name_of(path: str) -> str:
    """The name under which the class of what is attached there differs, and can be permitted to."""
    return join(path, "class")


def plan_classes(objects: dict, plan) -> None:
    """Compares those of some objects with the record of a checkpoint; one without a record says nothing."""
    for path, here in classes_of(objects).items():
        there, name = plan.saved.classes.get(path), name_of(path)
        if there is None or there == here or plan.skips(name):
            continue
        if not _has_moved(there, here):
            plan.changed.append((name, text(there), text(here)))
            continue
        plan.notes.append(
            f"{name} is {text(here)} in the script and {text(there)} in checkpoint {plan.saved.name}: taken for the same"
        )


def _has_moved(there: str, here: str) -> bool:
    """True where a class has only gone to another module of the same package, or of or to the script."""
    packages = {side.partition(".")[0] for side in (here, there)}
    is_near = len(packages) == 1 or not packages.isdisjoint(_MAIN)
    return is_near and here.rpartition(".")[2] == there.rpartition(".")[2]
