"""Makes the environments of those that are raced, on top of the project's own; torch is never replaced.

    ./dev bench venvs [NAME]...      (all of them without names)
"""

import argparse
import importlib.metadata
import subprocess
import sys
import sysconfig

import rivals


def made(name):
    """Installs the pins of one environment; the last lines of what pip said where it failed, else None. They stay there, for
    the table of whoever races."""
    folder = rivals.VENVS / name
    stamp, wanted = folder / rivals.INSTALLED, "\n".join([sys.executable, *rivals.PINS[name]])
    if stamp.exists() and stamp.read_text() == wanted:
        return None
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "base.pth").write_text(sysconfig.get_path("purelib") + "\n")
    held = folder / "constraints.txt"
    held.write_text(f"torch=={importlib.metadata.version('torch').partition('+')[0]}\n")
    done = subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", "-q", "-c", held, *rivals.PINS[name]],
                          text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        why = "\n".join(done.stdout.strip().splitlines()[-4:])
        (folder / rivals.WHY_NOT).write_text(why)
        return why
    stamp.write_text(wanted)
    return None


def main(argv):
    parser = argparse.ArgumentParser(prog="./dev bench venvs", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(rivals.PINS))
    names = parser.parse_args(argv).names or list(rivals.PINS)
    unknown = [name for name in names if name not in rivals.PINS]
    if unknown:
        parser.error(f"no such environment: {unknown[0]}")
    failed = 0
    for name in names:
        print(f"{name}: {' '.join(rivals.PINS[name])}", flush=True)
        why = made(name)
        failed += why is not None
        print(f"  failed: {why}" if why else "  installed", flush=True)
    return 74 if failed else 0
