"""What training depends on beside tensors: which parameters are frozen, which modules evaluate, what is in the buffers
that no checkpoint holds. It is recorded with each checkpoint; what differs at a restore, or changes, is named once.

The record of a module is {"frozen": [names], "evaluating": [names], "buffers": {name: [dtype and shape, digest]}}, each
part only where there is something; of a checkpoint {attach name: record}.
"""

from __future__ import annotations

import sys

from unbroken._native import call
from unbroken._state import tensors
from unbroken._state.adapters import placed
from unbroken._state.names import join, segment, segment_of_node
from unbroken._state.tree import encode
from unbroken._state.permits.ways import some
from unbroken.errors import Misconfigured, say

_PARTS = {
    "frozen": ("does not require a gradient", "requires a gradient"),
    "evaluating": ("evaluates (eval())", "trains (train())"),
}


class Exactness:
    """The records of one life. `digests` makes those of tensors, as the core does. Threads: the trainer's."""

    def __init__(self, digests):
        self._digests = digests
        self._before: dict = {}  # (attach name, buffer) -> digest at the last save
        self._said: set = set()

    def take(self, objects: dict):
        """The node of all attached objects, or None; says once which buffers changed since the last save."""
        records = self._records(objects)
        changed = []
        for name, record in records.items():
            for buffer, digest in record.get("buffers", {}).items():
                key = name, buffer
                if self._before.setdefault(key, digest) != digest and key not in self._said:
                    self._said.add(key)
                    changed.append(join(segment(name), buffer))
                self._before[key] = digest
        if changed:
            say(
                f"{some(changed)}: registered with persistent=False, and changed between two saves: checkpoints do not "
                "hold it, so a resumed run may not be exact"
            )
        return encode(records) if records else None

    def differences(self, saved, objects: dict, names, skips):
        """Lines about what differs from the record of a checkpoint; `names`: of these only (None: of all)."""
        if not isinstance(saved, dict):
            saved = {}
        objects = {name: value for name, value in objects.items() if names is None or name in names}
        here, lines = self._records(objects), []
        for name in objects:
            before, now = saved.get(name, {}), here.get(name, {})
            path = segment_of_node(name)
            if name not in saved and name not in here or skips(path):
                continue
            for part, (is_so, is_not) in _PARTS.items():
                was, found = set(before.get(part, ())), set(now.get(part, ()))
                gone, new = ([join(path, one) if one else path for one in sorted(names_)] for names_ in (was - found, found - was))
                lines += [f"{some(gone)}: {is_so} in the checkpoint, and {is_not} here"] if gone else []
                lines += [f"{some(new)}: {is_so} here, and {is_not} in the checkpoint"] if new else []
            was, found = before.get("buffers", {}), now.get("buffers", {})
            other = [join(path, one) for one in was.keys() & found.keys() if was[one] != found[one]]
            if other:
                lines.append(f"{some(other)}: registered with persistent=False, and not what it was in the checkpoint")
            self._before.update({(name, one): digest for one, digest in found.items()})
        return lines

    def _records(self, objects: dict) -> dict:
        if "torch" not in sys.modules:
            return {}
        import torch

        found = {name: self._record(value) for name, value in objects.items() if isinstance(value, torch.nn.Module)}
        return {name: record for name, record in found.items() if record}

    def _record(self, module) -> dict:
        from unbroken._state.torch.modules import is_lazy, submodules

        frozen, evaluating, buffers = [], [], {}
        for prefix, part in submodules(module):
            if not part.training:
                evaluating.append(prefix.removesuffix("."))  # the module itself is ""
            frozen += [prefix + n for n, p in part._parameters.items() if p is not None and not p.requires_grad]
            for name in part._non_persistent_buffers_set:
                value = part._buffers.get(name)
                if value is not None and not is_lazy(value):
                    buffers[prefix + name] = value
        record: dict = {}
        if frozen:
            record["frozen"] = frozen
        if evaluating:
            record["evaluating"] = evaluating
        if buffers:
            record["buffers"] = self._digests_of(buffers)
        return record

    def _digests_of(self, buffers: dict) -> dict:
        """[dtype and shape, digest] of each that can be read."""
        views = {}
        for name, value in sorted(buffers.items()):
            try:
                views[name] = tensors.view(value, name)
            except Misconfigured:
                continue
        entries = [(name, v.dtype, v.shape, v.strides, v.pointer, v.nbytes) for name, v in views.items()]
        digests = call(self._digests, entries)
        return {name: [view.text, digest] for (name, view), digest in zip(views.items(), digests, strict=True)}
