"""`dev wheel`: dist/*.whl for any machine with this glibc or a newer one, dist/*.tar.gz, and a proof that both install."""

import pathlib
import shutil
import sysconfig
import venv

from steps import ROOT

DIST = ROOT / "dist"
RAW = ROOT / "build/dist"


def only(folder, pattern):
    """The one file that a step left behind."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise FileNotFoundError(f"{folder}/{pattern}: {len(found)} files, expected one")
    return found[0]


def make_elsewhere(python):
    """An environment of its own into which a .pth file leads the project's NumPy and torch; its interpreter."""
    shutil.rmtree(elsewhere := RAW / "elsewhere", ignore_errors=True)
    venv.create(elsewhere)
    site = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(elsewhere)}))
    libraries = python.parent.parent / site.relative_to(elsewhere)
    (site / "project.pth").write_text(f"{libraries}\n")  # after its own packages
    return elsewhere / "bin/python"


def try_elsewhere(steps, python, wheel):
    """Installs a wheel where there is no compiler, and trains with it."""
    there = make_elsewhere(python)
    without_compiler = {"PATH": str(there.parent), "PYTHONPATH": ""}
    install = [there, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", wheel]
    if steps.run("wheel: installed elsewhere", install, env=without_compiler):
        steps.run("wheel: used elsewhere", [there, "-I", ROOT / "tests/wheel/used_elsewhere.py", there.parent / "unbroken"],
                  env=without_compiler)


def try_quick_wheel(steps, python):
    """A wheel around what the release build has already, and a first run where it was installed."""
    shutil.rmtree(quick := RAW / "quick", ignore_errors=True)
    build = [python, "-m", "build", "--wheel", "--no-isolation", "--outdir", quick, "-Ccmake.source-dir=tests/wheel",
             f"-Ccmake.define.UNBROKEN_BUILT={ROOT / 'build'}", f"-Cbuild-dir={RAW / 'quick-build'}"]
    if steps.run("wheel: from the build tree", build):
        try_elsewhere(steps, python, only(quick, "*.whl"))


def build_wheel(steps, python):
    """The source archive, the wheel out of that archive, its libraries taken in, and a first run where it was installed."""
    for folder in (DIST, RAW):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    if not steps.run("wheel", [python, "-m", "build", "--no-isolation", "--outdir", RAW], allowed_s=3600):
        return
    repair = [python, "-m", "auditwheel", "repair", "--wheel-dir", DIST, only(RAW, "*.whl")]
    if not steps.run("wheel: libraries", repair):
        return
    shutil.copy(only(RAW, "*.tar.gz"), DIST)
    try_elsewhere(steps, python, only(DIST, "*.whl"))
    for path in sorted(DIST.iterdir()):
        print(path.relative_to(ROOT))
