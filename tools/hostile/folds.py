"""Malformed folds, for make_hostile.py."""


def malformed(bodies, bent, broken_seals, sealed):
    """(name, bytes, story) of each; `bodies` of records, and how make_hostile.py bends and seals."""
    def save(step: int, attempt: int, try_: int = 0) -> dict:
        return {"step": step, "attempt": attempt, "try": try_}

    attempts = [
        {
            "open": {**bodies["OPEN"], "attempt": attempt, "resume": resume},
            "slot": slot,
            "record": f"{slot:064}",
            "at": 1_700_000_000_000,
            "commits": commits,
            "last_commit": last,
            "last_sign": 1_700_000_000_007,
        }
        for attempt, resume, slot, commits, last in [(1, None, 1, 2, save(20, 1)), (3, save(10, 1), 9, 1, save(30, 3))]
    ]
    checkpoints = [
        {
            "commit": {**bodies["COMMIT"], "save": of},
            "slot": slot,
            "at": 1_700_000_000_003,
            "condemned": False,
            "verified": ["run"],
            "quarantine": None,
            "pins": ["0000000000000001", "0000000000000002"],
            "tags": ["a", "b"],
        }
        for of, slot in [(save(10, 1), 2), (save(20, 1), 3), (save(30, 3), 10)]
    ]
    checkpoints[1] |= {"verified": [], "quarantine": {**bodies["QUARANTINE"], "save": save(20, 1)}}
    good = {
        "magic": "unbroken-fold-1",
        "slot": 256,
        "previous": "ab" * 32,
        "genesis": bodies["GENESIS"],
        "policy": bodies["POLICY"],
        "sealed": False,
        "voids": 0,
        "attempts": attempts,
        "checkpoints": checkpoints,
        "aborted": [save(35, 3), save(35, 3, 1)],
        "folds": [{"slot": slot, "summary": bodies["SUMMARY"]} for slot in (4, 8)],
    }
    for name, data, story in broken_seals(sealed(good)):
        if name not in ("newer-format", "format-0"):
            yield name, data, story
    yield from bent(
        good,
        [
            ("newer-magic", "magic", "unbroken-fold-2", "another form is passed over, not called damaged"),
            ("magic", "magic", "unbroken-record-1", "a record in place of a fold"),
            ("newer-feature", "genesis.features", ["sharded"], "a flag that is not known"),
            ("slot-0", "slot", 0, "a fold of nothing"),
            ("slot-early", "slot", 5, "knows what comes after it"),
            ("previous-short", "previous", "ab", "a chain that anything fits"),
            ("genesis-missing", "genesis", ..., "a run of no name"),
            ("keep-0", "policy.keep_last", 0, "deletes every checkpoint"),
            ("attempts-object", "attempts", {}, "another kind of value"),
            ("attempts-backward", "attempts", attempts[::-1], "the older one would be the owner"),
            ("attempt-twice", "attempts", attempts + attempts[1:], "which one is the owner?"),
            ("resume-loop", "attempts.0.open.resume", save(30, 3), "a lineage that never ends"),
            ("resume-self", "attempts.1.open.resume", save(30, 3), "the same in one step"),
            ("last-commit-missing", "attempts.0.last_commit", None, "its steps could be committed again"),
            ("last-commit-early", "attempts.0.last_commit.step", 10, "the same for step 20"),
            ("last-commit-foreign", "attempts.0.last_commit.attempt", 3, "of another attempt"),
            ("commits-negative", "attempts.0.commits", -1, "becomes 2^32-1 when cast"),
            ("time-text", "attempts.0.at", "now", "no time"),
            ("checkpoint-twice", "checkpoints", checkpoints + checkpoints[2:], "one save, two fates"),
            ("checkpoint-of-nobody", "checkpoints.0.commit.save.attempt", 2, "an attempt that was never opened"),
            ("checkpoint-early", "checkpoints.0.slot", 1, "before its attempt began"),
            ("checkpoint-fenced", "checkpoints.1.slot", 10, "after its attempt was fenced"),
            ("step-backward", "checkpoints.1.commit.save.step", 5, "the newest is not the last"),
            ("quarantine-foreign", "checkpoints.1.quarantine.save.step", 10, "damage of another checkpoint"),
            ("pin-twice", "checkpoints.0.pins", ["0" * 16] * 2, "let go once, and still held?"),
            ("pin-short", "checkpoints.0.pins", ["1"], "no nonce"),
            ("tag-path", "checkpoints.0.tags", ["../x"], "a path where a name belongs"),
            ("tags-unsorted", "checkpoints.0.tags", ["b", "a"], "two texts, one value"),
            ("aborted-committed", "aborted", [save(30, 3)], "both committed and not"),
            ("aborted-unsorted", "aborted", [save(35, 3, 1), save(35, 3)], "two texts, one value"),
            ("folds-many", "folds", good["folds"] * 2, "more than are kept"),
            ("fold-of-itself", "folds.1.slot", 256, "a fold that names itself"),
        ],
    )
