"""A result as a picture: for each race bars with their intervals, one an entrant. One SVG that needs nothing else."""

from html import escape

import rivals
from race import table

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 210, 70, 22, 34
TITLES = {"save": "durable saves, of raw", "load": "cold loads, of raw", "stall": "waits for a save, in copies of the state",
          "interference": "step inflation, to that of fio at the same rate"}
STYLE = """<style>text{font:13px sans-serif;fill:#222}.bar{fill:#9ab}.ours{fill:#c60}.line{stroke:#222;fill:none}
@media(prefers-color-scheme:dark){text{fill:#ddd}.bar{fill:#578}.line{stroke:#ddd}}</style>"""


def _text(x, y, anchor, text):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'


def _bar(case, y, per_unit):
    name = case["name"].rpartition(".")[0]
    if "error" in case:
        return [_text(LEFT - 8, y + 14, "end", name), _text(LEFT, y + 14, "start", case["error"][:80])]
    low, high = (LEFT + max(0.0, end) * per_unit for end in case["ratio_ci95"])
    kind = "bar ours" if name == rivals.OURS else "bar"
    middle = y + ROW / 2 - 2
    return [_text(LEFT - 8, y + 14, "end", name),
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{max(1.0, case["ratio"] * per_unit):.1f}" height="{ROW - 5}"/>',
            f'<path class="line" d="M{low:.1f} {middle:.1f}H{high:.1f}"/>',
            _text(high + 8, y + 14, "start", f"{case['ratio']:.2f}")]


def _race(cases, y):
    """The lines of one race from `y` on, and where it ends. A dashed line stands at 1."""
    shown = table.entrants(cases)
    title = TITLES[cases[0]["race"]]
    out = [_text(LEFT, y - 10, "start", f"{title} ({table.heading(cases).partition(': ')[2]})")]
    per_unit = (WIDTH - LEFT - RIGHT) / max([1.0, *(case["ratio_ci95"][1] for case in shown if "error" not in case)])
    for number, case in enumerate(shown):
        out += _bar(case, y + number * ROW, per_unit)
    bottom, one = y + len(shown) * ROW, LEFT + per_unit
    return [*out, f'<path class="line" stroke-dasharray="3" d="M{one:.1f} {y}V{bottom}"/>'], bottom


def svg(result):
    out, y = [], 0
    for cases in table.parts(result).values():
        lines, y = _race(cases, y + TOP)
        out += lines
    for line in table.machine_line(result).split("; ", 1):
        y += 20
        out.append(_text(8, y, "start", line))
    y += 8
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img">', STYLE, *out, "</svg>", ""])
