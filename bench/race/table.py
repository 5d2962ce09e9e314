"""A result as text: one row an entrant, for a terminal, and for a page."""

import rivals

MIB = 1 << 20


def spread(figure, digits=2):
    low, high = figure
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def parts(result):
    """The cases of each race: of one shape, saved or loaded."""
    out = {}
    for case in result["cases"]:
        out.setdefault((case["shape"], case["race"]), []).append(case)
    return out


def entrants(cases):
    return [case for case in cases if case["name"].split(".")[0] != "raw"]


def _share(key):
    return lambda case: f"{case[key]:.2f} {spread(case[key + '_ci95'])}" if key in case else ""


def _plain(key, digits):
    return lambda case: f"{case[key]:.{digits}f}" if key in case else ""


NAME = ("entrant", lambda case: case["name"].rpartition(".")[0])
SAME = ("same bytes", lambda case: {None: "", True: "yes", False: "NO"}[case["equal"]])
COST = [("cpu s/GiB", _plain("cpu_s_per_gib", 2)), ("written", _plain("written_per_byte", 3))]
TRANSFERS = [NAME, ("of raw", _share("ratio")), ("seconds", _plain("median", 3)), ("ours is faster by", _share("ours_is_faster")),
             *COST, ("durable", lambda case: {"us": "synced by us"}.get(case.get("durable"), case.get("durable", ""))), SAME]
TRAININGS = [*COST, ("step s", _plain("step_s", 3)), ("save s", _plain("save_s", 2)), SAME]
COLUMNS = {
    "save": TRANSFERS, "load": TRANSFERS,
    "stall": [NAME, ("waits, in memcpys", _share("ratio")), ("waits, s", _plain("median", 3)),
              ("excess, in memcpys", _share("excess")), ("first waits, s", _plain("first_s", 3)), *TRAININGS],
    "interference": [NAME, ("step inflation", _plain("median", 3)), ("fio's", _plain("paced", 3)), ("to fio's", _share("ratio")),
                     ("fio cpu s/GiB", _plain("paced_cpu_s_per_gib", 2)), *TRAININGS],
}


def rows(cases):
    """Cells of the entrants of one race, those that failed with their error."""
    columns = COLUMNS[cases[0]["race"]]
    out = [[title for title, _ in columns]]
    for case in entrants(cases):
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
    for cases in parts(result).values():
        out += ["", heading(cases), raw_line(cases), "", aligned(rows(cases))]
    return "\n".join(out)
