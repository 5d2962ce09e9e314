"""What `pip install` builds is what a wheel brings: the extension and the program."""

import shutil
import subprocess
import sys
import tomllib

import pytest
from program import ROOT


@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("ninja"), reason="needs CMake and Ninja")
def test_no_more_is_built_than_a_wheel_brings(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    defined = {**project["cmake"]["define"], "Python_EXECUTABLE": sys.executable, "SKBUILD": "2", "SKBUILD_SCRIPTS_DIR": "scripts"}
    options = [f"-D{name}={value}" for name, value in defined.items()]
    subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", *options], check=True, stdout=subprocess.DEVNULL)

    def steps(*targets):
        told = subprocess.run(["ninja", "-C", tmp_path, "-t", "commands", *targets], check=True, capture_output=True, text=True).stdout
        return told.splitlines()

    named = steps(*project["build"]["targets"])
    assert any("_core" in line and " -shared " in line for line in named) and any("-o bin/unbroken " in f"{line} " for line in named)
    assert not [line for line in named if "mlp" in line or "unbroken_sim" in line or "/src/sim" in line]
    assert len(named) < len(steps("all"))
    installed = (tmp_path / "cmake_install.cmake").read_text() + (tmp_path / "bindings/cmake_install.cmake").read_text()
    assert 'bin/unbroken"' in installed and "_core" in installed
