"""A training is killed again and again, and continues bit for bit; then something is forgotten, and that is caught.

    ./dev demo

Drills examples/gpt.py, or build/bin/mlp where PyTorch is not installed, with `unbroken drill`, and prints the loss of the
undisturbed run beside that of the one that was killed.
"""

import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("UNBROKEN_PROGRAM", ROOT / "build/bin/unbroken"))
STEPS, KILLS = 150, 6


def trainer(folder, *options):
    """The command to drill: the transformer, or the C++ network where there is no PyTorch."""
    if importlib.util.find_spec("torch"):
        return [sys.executable, ROOT / "examples/gpt.py", "--dir", folder / "never-used", *options]
    return [PROGRAM.parent / "mlp", folder / "never-used", *options]


def drill(folder, kills, command):
    """What `unbroken drill --json` says; its lines, one a life, go straight to the terminal."""
    arguments = [PROGRAM, "drill", "--json", "--kills", str(kills), "--dir", folder, "--", *command]
    print("$ unbroken drill --kills", kills, "--", *[Path(command[0]).name, *command[1:]], flush=True)
    done = subprocess.run(list(map(str, arguments)), stdout=subprocess.PIPE, text=True)
    said = json.loads(done.stdout)
    if "error" in said:
        sys.exit(f"the drill could not be held: {said['error']['message']}")
    return said


def losses(tap):
    """Step -> loss, of one life; the tap has the bits of each metric."""
    found = {}
    for line in tap.read_text().splitlines():
        try:
            said = json.loads(line)
        except ValueError:  # a line that a kill cut short
            continue
        found[said["step"]] = struct.unpack(">d", bytes.fromhex(said["metrics"]["loss"]))[0]
    return found


def side_by_side(folder):
    """Every tenth step, and the first one of each life."""
    straight = losses(folder / "straight/life.tap.jsonl")
    lives = {int(tap.name[5:8]): losses(tap) for tap in sorted((folder / "killed").glob("life-*.tap.jsonl"))}
    begins = {min(life) for life in lives.values() if life}
    print(f"\n{'step':>6} {'undisturbed':>14} {'killed':>14}")
    for step in sorted(straight):
        if step % 10 and step not in begins:
            continue
        said = {number: life[step] for number, life in lives.items() if step in life}
        loss = next((value for value in said.values() if value != straight[step]), straight[step])
        mark = "" if loss == straight[step] else "  DIFFERENT"
        who = "life" if len(said) == 1 else "lives"
        print(f"{step:>6} {straight[step]:>14.9f} {loss:>14.9f}  {who} {', '.join(map(str, said))}{mark}")
    print()


def main():
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is not there: run `./dev build`")
    is_torch = importlib.util.find_spec("torch") is not None
    if not is_torch:
        print("PyTorch is not installed here: this is the C++ trainer instead\n")
    folder = Path(tempfile.mkdtemp(prefix="unbroken-demo-"))
    try:
        said = drill(folder / "whole", KILLS, trainer(folder, "--steps", str(STEPS)))
        side_by_side(folder / "whole/drill-0001")
        differences = 0 if said["ok"] else 1
        print(f"{said['steps']} steps, {said['kills']} kills, {differences} differences")
        if not said["ok"]:
            print(f"the first one: {said['first_difference']}")

        forgotten = "optimizer" if is_torch else "adam"
        print("\nNow the same training forgets to attach its optimizer.")
        sabotaged = drill(folder / "sabotaged", 1, trainer(folder, "--steps", "40", "--forget", forgotten))
        first = sabotaged["first_difference"]
        if first:
            print(f"caught: at step {first['step']} {first['name']} is {first['other']},")
            print(f"        without kills it is {first['straight']}")
        else:
            print("NOT caught")
        is_good = said["ok"] and said["kills"] >= KILLS and not sabotaged["ok"] and first and sabotaged["deterministic"]
        return 0 if is_good else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
