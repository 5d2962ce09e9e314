"""examples/adapters, as real processes: killed they end with the digest of the straight one, and they are short."""

import difflib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import unbroken

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples/adapters"
PROGRAM = Path(os.environ.get("UNBROKEN_PROGRAM", ROOT / "build/bin/unbroken"))
PACKAGES = {"dcp": "torch", "lightning": "lightning", "hf": "transformers", "accelerate": "accelerate"}
LINES_MAX = 30
is_full = os.environ.get("UNBROKEN_TESTS") == "full"


@pytest.fixture(params=sorted(PACKAGES))
def example(request):
    pytest.importorskip(PACKAGES[request.param], reason=f"{PACKAGES[request.param]} is not installed: ./dev setup --adapters")
    return EXAMPLES / f"{request.param}.py"


def one_life(script, folder, **env):
    done = subprocess.run([sys.executable, script], env={**os.environ, "UNBROKEN_DIR": str(folder), **env},
                          capture_output=True, text=True, timeout=300)  # fmt: skip
    return done.returncode, done.stdout.splitlines()[-1:], done.stderr


def test_killed_it_ends_like_the_straight_one(example, tmp_path):
    status, straight, err = one_life(example, tmp_path / "straight")
    assert status == 0, err
    assert re.fullmatch(r"final step=60 digest=[0-9a-f]{64}", straight[0])
    for kill in ("commit.before_append:2:kill", "commit.before_append:1:kill"):  # how many saves there are depends on the load
        assert one_life(example, tmp_path / "killed", UNBROKEN_KILL=kill)[0] == -signal.SIGKILL
        assert unbroken.load(tmp_path / "killed").step > 0
    status, last, again = one_life(example, tmp_path / "killed")
    assert (status, last) == (0, straight)
    assert "not attached" not in err + again
    assert unbroken.load(tmp_path / "killed").step == 60


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_what_unbroken_needs_is_short(name):
    texts = [(EXAMPLES / file).read_text().splitlines() for file in (f"{name}_plain.py", f"{name}.py")]
    changed = [line for line in difflib.ndiff(*texts) if line[:2] in ("+ ", "- ")]
    assert 0 < len(changed) <= LINES_MAX, "\n".join(changed)
    assert not any("unbroken" in line.replace("UNBROKEN_DIR", "") and "import" in line for line in texts[0])


def test_plain_twins_end_the_same_way(example, tmp_path):
    if example.stem != "dcp" and not is_full:
        pytest.skip("one in dev test, all in dev ci --full")
    status, last, err = one_life(example.with_name(f"{example.stem}_plain.py"), tmp_path / "run")
    assert status == 0 and last[0].startswith("final step=60 digest="), err


def test_drill(example, tmp_path):
    if example.stem != "dcp" and not is_full:
        pytest.skip("one in dev test, all in dev ci --full")
    done = subprocess.run([PROGRAM, "drill", "--kills", "2", "--dir", tmp_path / "drill", "--", sys.executable, example],
                          capture_output=True, text=True, timeout=580)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
