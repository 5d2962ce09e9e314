"""The files of this tree that are ours, and what a check finds in them."""

import pathlib
import subprocess
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (".h", ".cc", ".py", ".md", ".cmake", ".in", ".txt", ".toml", ".pml", ".sh", ".yml", ".yaml", ".pyi")
# Bytes kept for their own sake: golden and malformed files, vectors.
DATA = ("tests/golden/", "tests/hostile/", "tests/vectors/")


class Finding(typing.NamedTuple):
    path: str
    line: int
    rule: str
    what: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


def tracked(root):
    """Paths of the tree that are ours: what git tracks or would track."""
    done = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
                           "--exclude-standard"], cwd=root, stdout=subprocess.PIPE, check=True)
    return sorted(path for path in set(done.stdout.decode().split("\0"))
                  if path and (root / path).is_file() and not (root / path).is_symlink())


def is_text(path):
    return not path.startswith(DATA) and (path.endswith(TEXT) or path in ("dev", ".ci/run", ".clang-format"))
