"""A result as text: one row an entrant, for a terminal, and for a page."""

MIB = 1 << 20


def spread(figure, digits=2):
    low, high = figure
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def _parts(result):
    """The cases of each race: of one shape, saved or loaded."""
    out = {}
    for case in result["cases"]:
        out.setdefault((case["shape"], case["race"]), []).append(case)
    return out


def _entrants(cases):
    return [case for case in cases if case["name"].split(".")[0] != "raw"]


COLUMNS = [
    ("entrant", lambda case: case["name"].rpartition(".")[0]),
    ("of raw", lambda case: f"{case['ratio']:.2f} {spread(case['ratio_ci95'])}"),
    ("seconds", lambda case: f"{case['median']:.3f}"),
    ("ours is faster by", lambda case: f"{case['ours_is_faster']:.2f} {spread(case['ours_is_faster_ci95'])}"
     if "ours_is_faster" in case else ""),
    ("cpu s/GiB", lambda case: f"{case['cpu_s_per_gib']:.2f}"),
    ("written", lambda case: f"{case['written_per_byte']:.3f}" if "written_per_byte" in case else ""),
    ("durable", lambda case: {"us": "synced by us"}.get(case.get("durable"), case.get("durable", ""))),
    ("same bytes", lambda case: {None: "", True: "yes", False: "NO"}[case["equal"]]),
]


def rows(cases, columns=COLUMNS):
    """Cells of the entrants of one race, those that failed with their error."""
    out = [[title for title, _ in columns]]
    for case in _entrants(cases):
        name = case["name"].rpartition(".")[0]
        out.append([name, case["error"]] if "error" in case else [cell(case) for _, cell in columns])
    return out


def raw_line(cases):
    return ", ".join(f"{case['name'].replace('.', ' ')} {case['bytes'] / case['median'] / 1e9:.2f} GB/s" for case in cases
                     if case["name"].split(".")[0] == "raw" and case["unit"] == "s")


def heading(cases):
    tensors = next((f"{case['tensors']} tensors, " for case in cases if "tensors" in case), "")
    return f"{cases[0]['race']}: {tensors}{cases[0]['bytes'] / MIB:.0f} MiB, {cases[0]['repeats']} rounds"


def aligned(cells):
    """Columns as wide as they need; an error may be longer than its column."""
    whole = [row for row in cells if len(row) == len(cells[0])]
    widths = [max(len(row[i]) for row in whole) for i in range(len(cells[0]))]
    widths[0] = max(len(row[0]) for row in cells)
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)


def markdown(cells):
    lines = ["| " + " | ".join(row) + " |" + " |" * (len(cells[0]) - len(row)) for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def machine_line(result):
    m = result["machine"]
    return (f"{m['date']}, commit {m['commit']}{' with changes' if m['changed'] else ''}; {m['cpu']}, {m['cores']} cores, "
            f"{m['memory_gib']} GiB, Linux {m['kernel']}, {m['file_system']}; load {m['load']} when it began")


def text(result):
    out = [machine_line(result), *result["notes"]]
    for cases in _parts(result).values():
        out += ["", heading(cases), raw_line(cases), "", aligned(rows(cases))]
    return "\n".join(out)
