"""rename=: a saved state whose names are other ones. Parameters that are renamed are renamed in optimizers, too."""

from __future__ import annotations

import re

from unbroken._state.names import join, segment_of_node
from unbroken._state.tree import items_of, pairs_of, tensor_name
from unbroken.errors import Misconfigured

_FIRST = re.compile(r"(?:[^.\\]|\\.)*", re.DOTALL)


class Renames:
    """Saved names to names here, with as many `*` on both sides. What lies below a name goes with it."""

    def __init__(self, rename=None):
        if rename is not None and not (
            isinstance(rename, dict) and all(isinstance(t, str) and t for pair in rename.items() for t in pair)
        ):
            raise Misconfigured(
                f'rename={rename!r}: a dict of saved names and names here, such as rename={{"model.old.*": "model.new.*"}}'
            )
        self._pairs = []
        for old, new in (rename or {}).items():
            if old.count("*") != new.count("*"):
                raise Misconfigured(f"rename={{{old!r}: {new!r}}}: as many * on both sides")
            is_below = old.endswith(".*") and new.endswith(".*")  # all that is below a name: the same as that name
            short, here = (old[:-2], new[:-2]) if is_below else (old, new)
            pattern = "(.*)".join(map(re.escape, short.split("*")))
            self._pairs.append((old, new, re.compile(pattern + r"((?:\..*)?)\Z", re.DOTALL), here))

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def texts(self) -> list[str]:
        return [text for _, text in self.sources()]

    def sources(self):
        """(saved name, text as checkpoints record it) of each."""
        return [(old, f"rename={old}={new}") for old, new, *_ in self._pairs]

    def without(self, done) -> Renames:
        """Those whose texts are not in `done`."""
        return Renames({old: new for old, new, *_ in self._pairs if f"rename={old}={new}" not in done})

    def is_used(self, old: str, names) -> bool:
        """True where one of `names` is renamed because of `old`."""
        patterns = [pattern for one, _, pattern, _ in self._pairs if one == old]
        return any(pattern.match(name) for pattern in patterns for name in names)

    def of(self, name: str) -> str:
        """The name here."""
        for _, _, pattern, new in self._pairs:
            found = pattern.match(name)
            if found:
                *parts, below = found.groups()
                pieces = new.split("*")
                return "".join(a + b for a, b in zip(pieces, [*parts, ""], strict=True)) + below
        return name


class Renamed:
    """Rewrites the roots of a checkpoint; `aliases` become name here -> name of the bytes."""

    def __init__(self, renames: Renames, saved):
        self._renames, self._saved = renames, saved
        self._of = renames.of
        self.aliases = {}
        self.roots: dict = {}
        self.changed: dict[str, str] = {}  # saved name -> name here
        self._parameters = {}  # saved name of each tensor directly below a root -> that root
        for root, node in saved.roots.items():
            for key, item in pairs_of(node) or ():
                if tensor_name(item) is not None:
                    self._parameters[tensor_name(item)] = root
        for root, node in saved.roots.items():
            self._root(root, node)

    def _root(self, root, node):
        path = segment_of_node(root)
        keys = {key for key, _ in node["dict"] if isinstance(key, str)} if isinstance(node, dict) and "dict" in node else set()
        if keys and not {"state", "param_groups"} <= keys:
            self._dict_root(root, node, path)
            return
        here = self._of(path)
        new, rest = _split(here)
        if rest:
            raise _unclear(path, here)
        self._put(new, self._optimizer(node, path, here) if keys else self._node(node, path, here))

    def _dict_root(self, root, node, path):
        is_flat = any(tensor_name(item) == f"{path}.{key}" and "." in str(key) for key, item in node["dict"])
        for key, item in node["dict"]:
            name = tensor_name(item) or (f"{path}.{key}" if is_flat else join(path, segment_of_node(key)))
            new = self._of(name)
            if new == name:
                target, new_key = root, key
            else:
                target, rest = _split(new)
                new_key = _key(rest, key, is_flat)
                if new_key is None:
                    raise _unclear(name, new)
            node_here = self._node(item, name, new)
            self._put(target, {"dict": [[new_key, node_here]]})

    def _put(self, root, node):
        if root in self.roots:
            mine = self.roots[root]
            both = isinstance(mine, dict) and isinstance(node, dict) and "dict" in mine and "dict" in node
            keys = {str(key) for key, _ in mine["dict"]} & {str(key) for key, _ in node["dict"]} if both else {""}
            if keys:
                raise Misconfigured(f"rename: two parts of the checkpoint would be named {join(root, min(keys))}")
            mine["dict"] += node["dict"]
        else:
            self.roots[root] = node

    def _node(self, node, old, new, is_fixed=False):
        """A node whose name was `old` and is `new`. `is_fixed`: nothing below is renamed by itself."""
        if tensor_name(node) is not None:
            tag = "tensor" if "tensor" in node else "array"
            mine = tensor_name(node)
            here = new + mine[len(old) :] if mine.startswith(old) else self._of(mine)
            if here != mine:
                self.aliases[here] = self._saved.canon(mine)
                self.changed[mine] = here
            return {tag: here}
        pairs = pairs_of(node)
        if pairs is not None:
            fresh = []
            for key, item in pairs:
                name = join(old, segment_of_node(key))
                here = join(new, segment_of_node(key))
                wanted = self._of(name)
                if not is_fixed and wanted not in (name, here):
                    parent, _, last = wanted.rpartition(".")
                    if parent != new or _key(last, key, False) is None:
                        raise _unclear(name, wanted)
                    key, here = _key(last, key, False), wanted
                fresh.append([key, self._node(item, name, here, is_fixed)])
            return {**node, "dict": fresh} if "dict" in node else {**node, "items": fresh}
        items = items_of(node)
        if not items:
            return node
        fresh = [self._node(item, f"{old}.{i}", f"{new}.{i}", is_fixed) for i, item in enumerate(items)]
        if isinstance(node, list):
            return fresh
        return {**node, ("tuple" if "tuple" in node else "items"): fresh}

    # -- optimizers

    def _optimizer(self, node, path, here):
        """With the names that parameters have here, in its states and groups."""
        pairs = []
        for key, item in node["dict"]:
            if key == "state" and pairs_of(item) is not None:
                states = []
                for own, state in pairs_of(item):
                    new = self._parameter(own, path)
                    states.append([new, self._node(state, f"{path}.state.{own}", f"{here}.state.{new}", True)])
                item = {"dict": states}
            elif key == "param_groups":
                groups = enumerate(items_of(item) or ())
                item = [self._group(group, f"{path}.{key}.{i}", f"{here}.{key}.{i}", path) for i, group in groups]
            else:
                item = self._node(item, f"{path}.{key}", f"{here}.{key}")
            pairs.append([key, item])
        return {"dict": pairs}

    def _group(self, group, old, new, path):
        pairs = [[key, item] for key, item in pairs_of(group) or () if key != "params"]
        node = self._node({"dict": pairs}, old, new)
        params = dict(pairs_of(group) or ()).get("params")
        return {"dict": [["params", [self._parameter(own, path) for own in items_of(params) or ()]], *node["dict"]]}

    def _parameter(self, own, path):
        if not isinstance(own, str):
            return own
        mine = f"{path}.state.{own}"
        if self._of(mine) != mine and self._of(mine).startswith(f"{path}.state."):
            return self._of(mine)[len(path) + 7 :]
        if own in self._parameters:  # the optimizer spans several objects: the attach name stands in front
            return self._of(own)
        for root in self._saved.roots:
            name = join(segment_of_node(root), own)
            if self._parameters.get(name) == root and self._of(name) != name:
                return _split(self._of(name))[1]
        return own


def _split(name: str):
    """The first segment as a key, and the rest."""
    first = _FIRST.match(name)[0]
    return _unescaped(first), name[len(first) + 1 :]


def _unescaped(segment: str) -> str:
    return re.sub(r"\\(.)", r"\1", segment)


def _key(rest: str, old, is_flat: bool):
    """The key that a segment stands for, of the sort of the old one; None where there is none."""
    if not rest or (not is_flat and _FIRST.match(rest)[0] != rest):
        return None
    if isinstance(old, int) and not isinstance(old, bool):
        return int(rest) if rest.lstrip("-").isdigit() else None
    return rest if is_flat else _unescaped(rest)


def _unclear(old, new) -> Misconfigured:
    return Misconfigured(
        f"rename: {old!r} cannot become {new!r}: the attach name and the part right below it can change, and deeper in "
        "a dict the last part"
    )
