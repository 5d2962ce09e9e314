"""Writes the pages that are stale."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import reference  # noqa: E402


def main():
    pages, program = reference.from_sources(ROOT), reference.program_of(ROOT)
    if program is None:
        print("note: options.md was left as it is: the program is not built (`./dev build`)", file=sys.stderr)
    else:
        pages["options.md"] = reference.options_page(program)
    for path in reference.stale(ROOT, pages):
        (ROOT / path).write_text(pages[path.rsplit("/", 1)[1]])
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
