"""RUN, the records and their fold: docs/format/journal.md."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from .fold import Fold, fold_key, read_fold
from .text import Damage, Newer, Save, check_version, hexes, member, metric, number, open_sealed, open_twice


@dataclass
class Checkpoint:
    save: Save
    slot: int
    manifest: str
    manifest_bytes: int
    metrics: dict
    is_condemned: bool = False
    quarantine: dict | None = None
    verified: set = field(default_factory=set)


class Journal:
    """The records, folded. Refuses (Damage) a journal that is not whole."""

    def __init__(self, root: Path):
        self.root, self.checkpoints, self.attempts, self.repaired = root, {}, [], []
        self.run = self._read_run()
        self.fold, self.wrong_folds = Fold(), []
        slots = {int(p.name) for p in (root / "journal").glob("*") if re.fullmatch(r"\d{20}", p.name)}
        slot, previous = 0, "0" * 64
        while (path := root / f"journal/{slot:020}").exists():
            record, previous, slot = self._record(path.read_bytes(), slot, previous)
            self._fold(record, previous)
            self._check_fold(record)
            self.fold.add(record, previous)
        if slot == 0 or (slots and max(slots) >= slot):
            raise Damage(f"journal: slot {slot} is missing")
        self.head = slot - 1
        self._check_hint()

    def _read_run(self) -> str:
        value, _, repaired = open_twice((self.root / "RUN").read_bytes(), 65536, 4)
        check_version(value)
        if repaired:
            self.repaired.append("RUN")
        run = member(value, "run", str)
        if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", run):
            raise Damage("RUN: not a UUID")
        return run

    def _decode(self, data: bytes, slot: int, previous: str):
        record, digest, repaired = open_twice(data, 65536, 16)
        magic = member(record, "magic", str)
        if magic != "unbroken-record-1":
            raise (Newer if magic.startswith("unbroken-record-") else Damage)(f"slot {slot}: magic {magic!r}")
        if number(record, "slot") != slot:
            raise Damage(f"slot {slot} holds the record of another")
        if hexes(record.get("previous"), 64) != previous:
            raise Damage(f"slot {slot} does not follow the record before it")
        hexes(record.get("writer"), 16)
        member(record, "body", dict)
        if repaired:
            self.repaired.append(f"journal/{slot:020}")
        return record, digest

    def _record(self, data: bytes, slot: int, previous: str):
        """(record, its digest, next slot); steps over junk that a VOID names."""
        try:
            return (*self._decode(data, slot, previous), slot + 1)
        except Damage as error:
            void = self._void_after(slot, previous, hashlib.sha256(data).hexdigest())
            if void is None:
                raise Damage(f"journal: slot {slot}: {error}") from None
            return (*void, slot + 2)

    def _void_after(self, slot: int, previous: str, seen: str):
        """The record behind junk, if it is the VOID that names it."""
        try:
            record, digest = self._decode((self.root / f"journal/{slot + 1:020}").read_bytes(), slot + 1, previous)
        except (Damage, FileNotFoundError):
            return None
        body = record["body"]
        names_it = record.get("type") == "VOID" and body.get("slot") == slot and body.get("seen") == seen
        return (record, digest) if names_it else None

    def _fold(self, record, digest):
        kind, body, slot = member(record, "type", str), record["body"], record["slot"]
        if (kind == "GENESIS") != (slot == 0):
            raise Damage(f"slot {slot}: {kind}")
        if kind == "GENESIS":
            if number(body, "format") > 1:
                raise Newer(f"format {body['format']}")
            if member(body, "features", list):
                raise Newer(f"feature {body['features'][0]}")
            if body.get("run") != self.run:
                raise Damage("RUN and the journal are of two runs")
        elif kind == "OPEN":
            resume = None if body.get("resume") is None else Save.of_body(body["resume"])
            self.attempts.append({"attempt": number(body, "attempt"), "slot": slot, "sha256": digest, "resume": resume})
        elif kind == "COMMIT":
            self._commit(body, slot)
        elif kind in ("INTENT", "QUARANTINE", "VERIFIED", "PIN", "UNPIN", "TAG", "UNTAG"):
            self._say(kind, self._known(Save.of_body(body.get("save"))), body)
        elif kind == "DELETED":
            for save in member(body, "saves", list):
                self._known(Save.of_body(save)).is_condemned = True
        elif kind not in ("ABORT", "POLICY", "VOID", "SEAL", "SUMMARY") and member(record, "critical", bool):
            raise Newer(f"record type {kind}")

    def _commit(self, body, slot):
        save = Save.of_body(body.get("save"))
        if save in self.checkpoints or not self.attempts or self.attempts[-1]["attempt"] != save.attempt:
            raise Damage(f"slot {slot}: {save.name} may not be committed here")
        self.checkpoints[save] = Checkpoint(
            save,
            slot,
            hexes(body.get("manifest"), 64),
            number(body, "manifest_bytes"),
            {name: metric(value) for name, value in member(body, "metrics", dict).items()},
        )

    def _known(self, save: Save) -> Checkpoint:
        if save not in self.checkpoints:
            raise Damage(f"journal: {save.name} was never committed")
        return self.checkpoints[save]

    @staticmethod
    def _say(kind: str, checkpoint: Checkpoint, body):
        if kind == "INTENT":
            checkpoint.is_condemned = True
        elif kind == "QUARANTINE":
            checkpoint.quarantine = body
            checkpoint.verified.discard(body.get("tier"))
        elif kind == "VERIFIED":
            found = checkpoint.quarantine
            if found and found.get("tier") == body.get("tier"):
                if body.get("host") in ("", found.get("host")):
                    return
                checkpoint.quarantine = None
            checkpoint.verified.add(body.get("tier"))

    def _check_fold(self, record):
        """Keeps what is wrong with a SUMMARY and, while it may still be read, with its object: the records are right."""
        summary, slot = record["body"], record["slot"]
        if record["type"] != "SUMMARY" or summary.get("form") != 1:
            return
        try:
            if read_fold(self.root, slot, summary) != self.fold.value():
                self.wrong_folds.append((slot, f"journal/{slot:020}", "it names another fold"))
        except Damage as error:
            self.wrong_folds.append((slot, fold_key(slot, summary), str(error)))

    def damaged_folds(self) -> list[tuple[str, int, str]]:
        """(object, offset, what); only of the last two SUMMARYs the objects need be there."""
        kept = [fold["slot"] for fold in self.fold.summaries]
        return [(key, 0, what) for slot, key, what in self.wrong_folds if slot in kept or what != "missing"]

    def _check_hint(self):
        try:
            hint, _ = open_sealed((self.root / "hint").read_bytes(), 4096, 4)
        except (OSError, Damage):
            return
        if hint.get("run") == self.run and number(hint, "slot") > self.head:
            raise Damage(f"journal: the hint names slot {hint['slot']}, the head is {self.head}: records were lost")

    def loadable(self) -> list[Checkpoint]:
        """Newest first, in journal order."""
        return [c for c in reversed(self.checkpoints.values()) if not c.is_condemned and c.quarantine is None]

    def lineage(self) -> list[Checkpoint]:
        """Newest first: the newest attempt, what it resumed from, and so on."""
        out, last = [], None
        for attempt in reversed(self.attempts):
            if last is not None and attempt["attempt"] != last.attempt:
                continue
            own = [c for c in self.checkpoints.values() if c.save.attempt == attempt["attempt"]]
            out += [c for c in reversed(own) if last is None or c.save <= last]
            last = attempt["resume"]
            if last is None:
                break
        return out

    def newest(self) -> Checkpoint | None:
        return next((c for c in self.lineage() if not c.is_condemned and c.quarantine is None), None)
