"""A body of each type of record, for make_hostile.py."""

RECORD_SAVE = {"step": 1200, "attempt": 3, "try": 1}


def record_bodies():
    save, nonce = RECORD_SAVE, "00000000000000bb"
    numbers = {"pid_namespace": 1, "pid": 2, "start_ticks": 3, "device": 4, "inode": 5}
    owner = {"job": "1", "host": "n1", "boot": "b", **numbers}
    return {
        "GENESIS": {"run": "00000000-0000-4000-8000-000000000001", "format": 1, "features": []},
        "OPEN": {"attempt": 3, "world": 8, "resume": save, "asked": "", "life": nonce, "owner": owner},
        "COMMIT": {
            "save": save,
            "manifest": "cd" * 32,
            "manifest_bytes": 5,
            "state_bytes": 2**64 - 1,
            "metrics": {"loss": 0.1, "x": "NaN", "y": "-Infinity"},
            "health": "ok",
            "tier": "run",
        },
        "ABORT": {"save": save, "why": "rank 3 is late"},
        "INTENT": {"save": save},
        "DELETED": {"saves": [save]},
        "PIN": {"save": save, "pin": nonce},
        "UNPIN": {"save": save, "pin": nonce},
        "QUARANTINE": {
            **{"save": save, "tier": "run", "object": "o", "expected": "e", "seen": "s", "host": "n1", "life": nonce}
        },
        "VERIFIED": {"save": save, "tier": "run", "host": "n1"},
        "POLICY": {"keep_last": 3, "verified_min": 2},
        "SUMMARY": {"form": 1, "fold": "ab" * 32, "fold_bytes": 70000},
        "VOID": {"slot": 6, "seen": "ef" * 32},
        "SEAL": {},
        "LATER": {"a": [{"b": None}]},
    }
