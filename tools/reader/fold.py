"""The fold of a prefix as a value, and the objects that hold one: docs/format/journal.md, "fold"."""

from __future__ import annotations

from pathlib import Path

from .text import Damage, Save, number, open_sealed

OWNER = ("job", "host", "boot", "pid_namespace", "pid", "start_ticks", "device", "inode")
MEMBERS = {
    "GENESIS": ("run", "format", "features"),
    "OPEN": ("attempt", "world", "resume", "life", "asked", "owner"),
    "COMMIT": ("save", "manifest", "manifest_bytes", "state_bytes", "metrics", "health", "tier"),
    "QUARANTINE": ("save", "tier", "object", "expected", "seen", "host", "life"),
    "POLICY": ("keep_last", "verified_min"),
    "SUMMARY": ("form", "fold", "fold_bytes"),
}
WHERE_SAID = {"COMMIT": ("tags",), "POLICY": ("keep_every", "best")}
SAVE = ("step", "attempt", "try")


def _only(value: dict, names) -> dict:
    return {name: value[name] for name in names}


def _body(kind: str, body: dict) -> dict:
    """The members of the table of records and no others."""
    out = _only(body, MEMBERS[kind]) | {n: body[n] for n in WHERE_SAID.get(kind, ()) if body.get(n)}
    for name in ("save", "resume"):
        if out.get(name):
            out[name] = _only(out[name], SAVE)
    if kind == "OPEN":
        out["owner"] = _only(body["owner"], OWNER)
    if "best" in out:
        out["best"] = _only(out["best"], ("metric", "mode"))
    return out


class Fold:
    """Takes the records one by one; `value()` is what the object of the next slot says."""

    def __init__(self):
        self.genesis, self.policy, self.is_sealed, self.voids = None, {"keep_last": 3, "verified_min": 2}, False, 0
        self.attempts, self.checkpoints, self.aborted, self.summaries = [], {}, set(), []
        self.slot, self.previous = 0, "0" * 64

    def add(self, record: dict, digest: str):
        kind, body = record["type"], record["body"]
        method = getattr(self, f"_{kind.lower()}", None)
        if method:
            method(body, record, digest)
        self.slot, self.previous = record["slot"] + 1, digest

    def _genesis(self, body, record, digest):
        self.genesis = _body("GENESIS", body)

    def _policy(self, body, record, digest):
        self.policy = _body("POLICY", body)

    def _seal(self, body, record, digest):
        self.is_sealed = True

    def _void(self, body, record, digest):
        self.voids += 1

    def _open(self, body, record, digest):
        row = {"open": _body("OPEN", body), "slot": record["slot"], "record": digest, "at": record["at"]}
        self.attempts.append(row | {"commits": 0, "last_commit": None, "last_sign": record["at"]})
        self.aborted, self.voids = set(), 0

    def _commit(self, body, record, digest):
        body = _body("COMMIT", body)
        row = {"commit": body, "slot": record["slot"], "at": record["at"], "condemned": False, "quarantine": None}
        self.checkpoints[Save.of_body(body["save"])] = row | {
            "verified": set(),
            "pins": set(),
            "tags": set(body.get("tags", ())),
        }
        attempt = self.attempts[-1]
        attempt["commits"] += 1
        attempt["last_commit"] = body["save"]
        attempt["last_sign"] = max(attempt["last_sign"], record["at"])

    def _abort(self, body, record, digest):
        self.aborted.add(Save.of_body(body["save"]))

    def _deleted(self, body, record, digest):
        for save in body["saves"]:
            self.checkpoints.pop(Save.of_body(save), None)

    def _summary(self, body, record, digest):
        # Of another form nothing more is known.
        known = _body("SUMMARY", body) if body["form"] == 1 else {"form": body["form"], "fold": "0" * 64, "fold_bytes": 0}
        self.summaries = (self.summaries + [{"slot": record["slot"], "summary": known}])[-2:]

    def _row(self, body):
        return self.checkpoints.get(Save.of_body(body["save"]), {"pins": set(), "tags": set()})

    def _intent(self, body, record, digest):
        self._row(body)["condemned"] = True

    def _pin(self, body, record, digest):
        self._row(body)["pins"].add(body["pin"])

    def _unpin(self, body, record, digest):
        self._row(body)["pins"].discard(body["pin"])

    def _tag(self, body, record, digest):
        self._row(body)["tags"].add(body["tag"])

    def _untag(self, body, record, digest):
        self._row(body)["tags"].discard(body["tag"])

    def _quarantine(self, body, record, digest):
        row = self._row(body)
        row["quarantine"] = _body("QUARANTINE", body)
        row["verified"].discard(body["tier"])

    def _verified(self, body, record, digest):
        row = self._row(body)
        found = row["quarantine"]
        if found and found["tier"] == body["tier"]:
            if body["host"] in ("", found["host"]):
                return
            row["quarantine"] = None
        row["verified"].add(body["tier"])

    def value(self) -> dict:
        lists = ("verified", "pins", "tags")
        return {
            "magic": "unbroken-fold-1",
            "slot": self.slot,
            "previous": self.previous,
            "genesis": self.genesis,
            "policy": self.policy,
            "sealed": self.is_sealed,
            "voids": self.voids,
            "attempts": self.attempts,
            "checkpoints": [
                row | {name: sorted(row[name], key=str.encode) for name in lists} for row in self.checkpoints.values()
            ],
            "aborted": [{"step": s.step, "attempt": s.attempt, "try": s.try_index} for s in sorted(self.aborted)],
            "folds": self.summaries,
        }


def fold_key(slot: int, summary: dict) -> str:
    return f"fold/{slot:020}-{summary['fold'][:16]}"


def read_fold(root: Path, slot: int, summary: dict) -> dict:
    """What the object says that a SUMMARY names. Damage where it is not that object."""
    try:
        data = (root / fold_key(slot, summary)).read_bytes()
    except FileNotFoundError:
        raise Damage("missing") from None
    value, digest = open_sealed(data, 16 << 20, 16)
    if len(data) != number(summary, "fold_bytes") or digest != summary["fold"]:
        raise Damage("not the fold that its SUMMARY names")
    return value
