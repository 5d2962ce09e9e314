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
INSTALLED, WHY_NOT = ".installed", ".why-not"  # in an environment: its pins, or what pip said last
OURS = "unbroken"
CONTROL, PACED = "no save", "fio"


class Entrant(typing.NamedTuple):
    module: str
    kind: str  # the class in it
    cases: str  # words: save, load, train (a save beside a training)
    venv: str = ""  # empty: the project's own
    options: dict = {}
    about: str = ""

    def made_by(self):
        return getattr(importlib.import_module(f"rivals.{self.module}"), self.kind)

    def make(self, folder, state):
        folder.mkdir(parents=True, exist_ok=True)
        return self.made_by()(folder, state, **self.options)

    def synced_by(self):
        """Who makes a save durable: see Rival."""
        return self.made_by().synced_by


# What is installed into an environment; torch is held at the version that is there.
PINS = {
    "torchsnapshot": ["torchsnapshot-nightly==2024.7.26"],
    "orbax": ["orbax-checkpoint==0.12.8", "jax==0.10.2"],
    "torch_checkpointing": ["torch-checkpointing==0.1.1"],
    "nvrx": ["nvidia-resiliency-ext==0.4.1"],
    "runai": ["runai-model-streamer==0.17.1"],
    "fastsafetensors": ["fastsafetensors==0.5.0"],
}
ENTRANTS = {
    OURS: Entrant("ours", "Unbroken", "save load train", about="loads are verified, and in place"),
    "torch.save": Entrant("torch_save", "TorchSave", "save load", about="no crc32"),
    "torch.load mmap": Entrant("torch_save", "TorchSave", "load", options={"mmap": True}, about="every page touched"),
    "safetensors": Entrant("safe", "SafeTensors", "save load", about="every page touched"),
    "DCP": Entrant("dcp", "Dcp", "save load", about="save and load, one thread, loads in place"),
    "torchsnapshot": Entrant("snapshot", "TorchSnapshot", "save load train", "torchsnapshot", about="loads in place"),
    "Orbax": Entrant("orbax", "Orbax", "save load train", "orbax", about="no zstd; OCDBT for small tensors only"),
    "Orbax defaults": Entrant("orbax", "Orbax", "save load", "orbax", {"defaults": True}),
    "torch_checkpointing": Entrant("torch_checkpointing", "TorchCheckpointing", "save load", "torch_checkpointing",
                                   about="no O_DIRECT: EINVAL on ext4"),
    "torch_checkpointing async": Entrant("torch_checkpointing", "TorchCheckpointing", "train", "torch_checkpointing",
                                         {"background": True}, about="a thread stages, a process writes"),
    "Run:ai streamer": Entrant("streamers", "Runai", "load", "runai", about="of a safetensors file, in place"),
    "fastsafetensors": Entrant("streamers", "FastSafeTensors", "load", "fastsafetensors", about="of a safetensors file"),
    "DCP async": Entrant("dcp", "Dcp", "train", about="async_save as it is"),
    "DCP async cached writer": Entrant("dcp", "Dcp", "train", options={"cached": True}, about="pinned memory that is kept"),
    "DCP async kept stager": Entrant("dcp", "Dcp", "train", options={"stager": [False] * 4}, about="a thread writes"),
    "DCP async process": Entrant("dcp", "Dcp", "train", options={"stager": [False, True, False, False], "process": True},
                                 about="a kept stager in shared memory, a process writes"),
    "by hand": Entrant("by_hand", "ByHand", "train", about="copies into kept buffers, torch.save in a thread"),
    "NVRx queue": Entrant("nvrx", "Nvrx", "train", "nvrx", about="with our copy: its own needs CUDA"),
    CONTROL: Entrant("base", "Nothing", "control", about="what is measured of it is the noise"),
    PACED: Entrant("fio", "Fio", "paced", about="writes as many bytes at the rate of whom it stands beside"),
}


def python_of(entrant):
    """The interpreter of an entrant. Errors: LookupError with the reason where its environment was not made."""
    if not entrant.venv:
        return sys.executable
    folder = VENVS / entrant.venv
    if (folder / INSTALLED).exists():
        return folder / "bin/python"
    why = folder / WHY_NOT
    raise LookupError(" ".join(why.read_text().split())[-200:] if why.exists() else
                      f"not installed: ./dev bench venvs {entrant.venv}")


def of_case(word):
    """Names of those that take part, ours first."""
    return [name for name, entrant in ENTRANTS.items() if word in entrant.cases.split()]
