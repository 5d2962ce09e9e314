"""What a checkpoint says that it holds, before its bytes are read."""

from __future__ import annotations

from copy import copy as copy_of

from unbroken._state.compare.classes import name_of
from unbroken._state.dtypes import describe
from unbroken._state.names import segment_of_node
from unbroken._state.permits.rename import Renamed
from unbroken._state.tree import decode, flatten, pairs_of, tensor_name, text


class Saved:
    """A checkpoint as the core describes it: `.specs` name -> (dtype, shape, nbytes, digest), `.roots` in order."""

    def __init__(self, state, tree):
        self.step, self.attempt, self.name, self.uuid = state.step, state.attempt, state.name, state.run
        self.specs = {
            name: (dtype, tuple(shape), nbytes, digest) for name, dtype, shape, nbytes, digest in state.tensors
        }
        self.aliases = dict(state.alias)
        self.roots = {key: node for key, node in pairs_of(tree) or ()}
        recorded = [item for key, item in pairs_of(self.roots.get("run")) or () if key == "classes"]
        pairs = [pair for item in recorded for pair in pairs_of(item) or () if all(isinstance(one, str) for one in pair)]
        self.classes = dict(pairs)  # compare/classes.py
        self.changed_names: dict[str, str] = {}  # saved name -> name here, of tensors that rename= concerns

    @property
    def run(self) -> dict:
        """What the checkpoint says of the run itself: epochs, what lives before carried out."""
        node = self.roots.get("run")
        return decode(node) if pairs_of(node) is not None else {}

    def renamed(self, renames) -> Saved:
        """The same state under other names."""
        new = Renamed(renames, self)
        saved = copy_of(self)
        saved.roots, saved.aliases = new.roots, {**self.aliases, **new.aliases}
        saved.classes = {renames.of(path): kind for path, kind in self.classes.items()}
        saved.changed_names = new.changed
        return saved

    def names(self) -> list[str]:
        """Of every leaf, tensors by their own, and of the classes."""
        return [*map(name_of, self.classes)] + [
            tensor_name(leaf) or path for root, node in self.roots.items() for path, leaf in flatten(node, segment_of_node(root))
        ]

    def canon(self, name: str) -> str:
        """The name under which the bytes of `name` are stored."""
        return self.aliases.get(name, name)

    def spec(self, name: str):
        """(dtype, shape, nbytes, digest) of a tensor or an alias."""
        return self.specs[self.canon(name)]

    def describe(self, node) -> str:
        """A node as one side of a difference: F32[3,4], or a value."""
        name = tensor_name(node)
        if name is None:
            return text(node)
        dtype, shape, _, _ = self.spec(name)
        return describe(dtype, shape)
