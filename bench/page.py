"""Puts kept results of this bench into docs/concepts/speed.md: tables there, a picture of each beside it.

    ./dev bench page FILE...      (what --keep wrote; in the order of the page)
"""

import argparse
import json
from pathlib import Path

from race import chart, table

PAGE = Path(__file__).resolve().parent.parent / "docs/concepts/speed.md"
BEGINS, ENDS = "<!-- measured -->\n", "<!-- end of measured -->\n"


def command(result):
    options = "".join(f" --{name} {value}" for name, value in result["options"].items())
    only = result.get("only") or []
    return f"./dev bench {result['bench']}{options}" + "".join(f' --only "{name}"' for name in only)


def section(result, picture):
    """Of one result: the machine, the command, a picture and a table for each race."""
    out = [f"`{command(result)}`", f"{table.machine_line(result)}. " + ". ".join(result["notes"]) + ".",
           f"![{result['bench']}: bars of the table's ratios]({picture})"]
    for cases in table.parts(result).values():
        out += [f"{table.heading(cases)}; {table.raw_line(cases)}.", table.markdown(table.rows(cases))]
    return "\n\n".join(out) + "\n"


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev bench page", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    sections = []
    for path in parser.parse_args(argv).files:
        result = json.loads(path.read_text())
        picture = PAGE.with_name(f"speed-{result['bench']}.svg")
        picture.write_text(chart.svg(result))
        sections.append(f"## {result['bench'].capitalize()}\n\n{section(result, picture.name)}")
    before, _, rest = PAGE.read_text().partition(BEGINS)
    PAGE.write_text(before + BEGINS + "\n" + "\n".join(sections) + "\n" + ENDS + rest.partition(ENDS)[2])
    return 0
