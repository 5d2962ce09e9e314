"""Who is raced: each entrant is a class of one small file, in an environment of its own, at its best setting that we know.

An entrant that cannot be installed or does not run is listed with its error. `pins` are installed by `./dev bench venvs`,
on top of what the project's own environment has: torch comes from there, and is never replaced.
"""

import importlib
import sys
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENVS = ROOT / "build/bench-venvs"
OURS = "unbroken"


class Entrant(typing.NamedTuple):
    module: str
    kind: str  # the class in it
    cases: str  # words: save, load, train
    venv: str = ""  # empty: the project's own
    options: dict = {}
    about: str = ""

    def made_by(self):
        return getattr(importlib.import_module(f"rivals.{self.module}"), self.kind)

    def make(self, folder, state, loop):
        folder.mkdir(parents=True, exist_ok=True)
        return self.made_by()(folder, state, loop, **self.options)

    def synced_by(self):
        """Who makes a save durable: see Rival."""
        return self.made_by().synced_by


PINS = {}
ENTRANTS = {
    OURS: Entrant("ours", "Unbroken", "save load train", about="verified load, in place"),
    "torch.save": Entrant("torch_save", "TorchSave", "save load", about="weights_only=True"),
    "torch.load mmap": Entrant("torch_save", "TorchSave", "load", options={"mmap": True}, about="every page touched"),
    "safetensors": Entrant("safe", "SafeTensors", "save load", about="every page touched"),
}


def python_of(entrant):
    """The interpreter of an entrant; None where its environment was not made."""
    if not entrant.venv:
        return sys.executable
    python = VENVS / entrant.venv / "bin/python"
    return python if python.exists() else None


def of_case(word):
    """Names of those that take part, ours first."""
    return [name for name, entrant in ENTRANTS.items() if word in entrant.cases.split()]
