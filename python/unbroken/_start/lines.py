"""What the first lines of a life say: what it goes on from, or why it starts from nothing."""

from __future__ import annotations


def start_lines(report: dict, attempt: int, path: str) -> list[str]:
    """Lines for stderr from the core's report of a restore; `path` is absolute."""
    name = report.get("name")
    lines = [
        f"checkpoint {fallen['name']} is damaged ({fallen['object']}: {fallen['what']}): using {name or 'none'} instead"
        for fallen in report.get("fell_back", ())
    ]
    if not report["fresh"]:
        what = f"resumed from {name}: step {report['step']}, attempt {attempt}"
        age, survives = report.get("resumed_age_s"), report.get("survives")
        what += "" if age is None else f", saved {_duration(age)} ago"
        what += f", survives: {survives}" if survives else ""
        lines.append(f"{what}, in {path}")
    elif report["is_never_committed"]:
        lines.append(f"no checkpoint was ever committed by the earlier attempts: starting from step 0, in {path}")
    elif attempt <= 1:
        lines.append(f"fresh start: no run in {path}")
    else:
        lines.append(f"fresh start: no checkpoint is left in {path} (attempt {attempt})")
    return lines + list(report.get("notes", ()))


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
