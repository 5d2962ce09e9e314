"""For torch.distributed.checkpoint, in one process: a StorageWriter and a StorageReader of run directories.

    dcp.save(state, storage_writer=unbroken.dcp.Writer("runs/mine"))
    dcp.load(state, storage_reader=unbroken.dcp.Reader("runs/mine"))

Errors that come while dcp saves or loads it reports as a CheckpointException, with ours in its `.failures`.
"""

from __future__ import annotations

import io
import os
import shlex

import torch
from torch.distributed.checkpoint import StorageReader, StorageWriter
from torch.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from unbroken import _native, functional, options
from unbroken._native import call
from unbroken._state import tensors
from unbroken._state.attached import OURS
from unbroken.errors import Misconfigured, NothingToResume, StateMismatch, naming
from unbroken.loading import load

_WRAP = "dcp"  # holds a whole state dict that has a key which is ours


class _Alone:
    """What both sides do with plans: they are taken as they are, and there is one."""

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        _check_alone(plans)
        return plans


class Writer(_Alone, StorageWriter):
    """Saves into the run directory `path`, or into the one that `checkpoint_id` names where there is no path.

    With a path, `checkpoint_id` is the step ("1200"); without one the step is that of the newest checkpoint plus
    one. Options are those of a Run that concern saving. dcp.save returns when the checkpoint is durable, and the
    future of dcp.async_save is done then; `saving` is the last one. Tensors are kept by their bytes, other values if
    they are of the kinds that a run can keep: nothing is pickled. Errors: those of unbroken.save.
    """

    def __init__(self, path=None, *, keep_last=3, group=None, takeover=False):
        super().__init__()
        self._place = _Place(path)
        self._options = {"keep_last": keep_last, "group": group, "takeover": takeover}
        self._state: dict = {}
        self.saving = None

    def reset(self, checkpoint_id=None) -> None:
        self._place.choose(checkpoint_id)
        if self._place.at is not None and not self._place.at.isdigit():
            raise Misconfigured(f"Writer: checkpoint_id={checkpoint_id!r} is not a step: the directory was given already")

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs) -> None:
        pass

    def write_data(self, plan, planner) -> Future:
        flat = {item.index.fqn: _value(item, planner) for item in plan.items}
        nested = unflatten_state_dict(flat, plan.planner_data) if plan.planner_data else flat
        self._state = {_WRAP: nested} if {*nested} == {_WRAP} or {*nested} & {*OURS} else nested
        done = Future()
        done.set_result([WriteResult(item.index, item.tensor_storage_size() or 0, item.index.fqn) for item in plan.items])
        return done

    def finish(self, metadata, results) -> None:
        step = None if self._place.at is None else int(self._place.at)
        state, self._state, self._place.at = self._state, {}, None
        self.saving = functional.save_with(state, self._place.directory, step=step, **self._options)
        with naming(os.path.abspath(self._place.directory)):
            self.saving.wait("durable")
        metadata.storage_data = {result.index: result.storage_data for of_rank in results for result in of_rank}
        metadata.storage_meta = self.storage_meta()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=self._place.directory)


def _refuse_foreign(path: str) -> None:
    """A directory that dcp.save has written by itself is no run."""
    if os.path.isfile(os.path.join(path, ".metadata")) and not os.path.isfile(os.path.join(path, "RUN")):
        raise NothingToResume(
            f"{path} is a directory of torch.distributed.checkpoint's own, not a run: import it, or load it without this reader",
            shlex.join(["unbroken", "import", path, "--to", "DIR"]),
        )


class Reader(_Alone, StorageReader):
    """Loads from the run directory `path`, or from the one that `checkpoint_id` names where there is no path.

    With a path, `checkpoint_id` is the checkpoint: "1200", "1200.a3"; without one the newest is taken, and past
    damage the next older one. It may have been saved by Writer, by unbroken.save or by a Run. All of it is read and
    checked before the first live tensor changes; `name` and `step` say which it was. Errors: NothingToResume where the
    path holds nothing, at once; by way of dcp, StateMismatch for another dtype (nothing is cast), and those of
    unbroken.load, of which dcp keeps the text alone.
    """

    def __init__(self, path=None):
        super().__init__()
        self._place = _Place(path)
        self._flat: dict = {}
        self._paths: dict = {}
        self.name: str | None = None
        self.step: int | None = None
        if path is not None:
            _refuse_foreign(options.checked_path(path))
            call(_native.core.Reader, options.checked_path(path), "newest")  # is there anything?

    def reset(self, checkpoint_id=None) -> None:
        self._place.choose(checkpoint_id)

    def read_metadata(self, *args, **kwargs) -> Metadata:
        checkpoint = load(self._place.directory, at=self._place.at or "newest", torch=True)
        self.name, self.step = checkpoint.name, checkpoint.step
        content = {name: value for name, value in checkpoint.items() if name not in OURS}
        self._flat, self._paths = flatten_state_dict(content[_WRAP] if {*content} == {_WRAP} else content)
        described = {fqn: _described(value) for fqn, value in self._flat.items()}
        places = {_index(fqn, value): fqn for fqn, value in self._flat.items()}
        return Metadata(described, planner_data=self._paths, storage_data=places)

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs) -> None:
        pass

    def read_data(self, plan, planner) -> Future:
        pairs, changed = [], []
        for item in plan.items:
            if item.type == LoadItemType.TENSOR:
                saved, live = self._flat[item.storage_index.fqn], planner.resolve_tensor(item).detach()
                if saved.dtype != live.dtype:
                    texts = (tensors.view(value, "", reads=False).text for value in (saved, live))
                    changed.append((item.dest_index.fqn, *texts))
                pairs.append((item, saved, live))
        if changed:
            raise StateMismatch(f"checkpoint {self.name} does not fit the state dict", changed=changed)
        for item, saved, live in pairs:
            for axis, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
                saved = saved.narrow(axis, offset, length)
            live.copy_(saved)
            planner.commit_tensor(item, live)
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, _as_dcp_wants(self._flat[item.storage_index.fqn]))
        self._flat = {}
        self._place.at = None
        done = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))


class _Place:
    """Which directory, and which checkpoint in it."""

    def __init__(self, path):
        self._path = path if path is None else os.fspath(path)
        self.directory, self.at = self._path, None

    def choose(self, checkpoint_id) -> None:
        given = None if checkpoint_id is None else str(checkpoint_id)
        self.directory, self.at = (given, None) if self._path is None else (self._path, given)
        if not self.directory:
            raise Misconfigured("unbroken.dcp: no directory: give a path, or a checkpoint_id")


def _check_alone(plans) -> None:
    if len(plans) > 1:
        raise Misconfigured("unbroken.dcp: more than one process comes later")


def _value(item, planner):
    """The object that a WriteItem stands for."""
    if item.type != WriteItemType.BYTE_IO:
        data = item.tensor_data
        if any(data.chunk.offsets) or data.chunk.sizes != data.size:
            raise Misconfigured(f"{item.index.fqn}: a shard of a tensor: more than one process comes later")
        return planner.resolve_data(item).detach()
    if not hasattr(planner, "lookup_object"):
        raise Misconfigured(f"{type(planner).__qualname__} has no lookup_object, by which values are found unpickled")
    return planner.lookup_object(item.index)


def _described(value):
    if not isinstance(value, torch.Tensor):
        return BytesStorageMetadata()
    chunk = ChunkStorageMetadata(torch.Size([0] * value.dim()), value.size())
    return TensorStorageMetadata(TensorProperties.create_from_tensor(value), value.size(), [chunk])


def _index(fqn, value) -> MetadataIndex:
    return MetadataIndex(fqn, torch.Size([0] * value.dim()) if isinstance(value, torch.Tensor) else None)


def _as_dcp_wants(value) -> io.BytesIO:
    """Planners unpickle: so what was read and checked is pickled for them here, in memory."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer
