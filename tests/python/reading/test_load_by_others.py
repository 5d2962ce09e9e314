"""A run that another user wrote: what may be read is read, and what may not says where the permission ends."""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy
import pytest

import unbroken
from helpers import child, finish

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")

ASK = """
import os, numpy, unbroken
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    {}
except unbroken.Error as error:
    print(error.kind, error.exit_code, error, "try", error.next_command)
"""


def as_nobody(code):
    status, out, err = finish(child(ASK.format(code.replace("\n", "\n    "))))
    assert status == 0, err
    return out.strip()


@pytest.fixture
def shared():
    """A run of ours that everybody may read, in a folder that everybody may enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        run_dir = Path(folder) / "run"
        with unbroken.Run(run_dir, every=2) as run:
            run.attach(x=numpy.arange(3.0))
            for step in run.steps(4):
                if step == 1:
                    run.save(tag="first")
        subprocess.run(["chmod", "-R", "u=rwX,go=rX", run_dir], check=True)
        yield run_dir


def tree(path):
    return {p.relative_to(path): (p.stat().st_mtime_ns, p.stat().st_mode) for p in path.rglob("*")}


def test_what_everybody_may_read_is_loaded(shared):
    before = tree(shared)
    load = f"unbroken.load({str(shared)!r}"
    assert as_nobody(f"print({load}).name, *{load}, at='tag:first')['x'])") == "4.a1 0.0 1.0 2.0"
    assert as_nobody(f"x = numpy.zeros(3); {load}, into={{'x': x}}); print(*x)") == "0.0 1.0 2.0"
    assert tree(shared) == before


def test_a_run_of_another_user_cannot_be_trained_in(shared):
    before = tree(shared)
    says = as_nobody(f"with unbroken.Run({str(shared)!r}) as run:\n    run.attach(x=numpy.zeros(3))\n    run.restore()")
    assert says.startswith("StorageUnavailable 74 ") and "EACCES" in says
    assert f"try namei -l {shared}/journal/" in says and tree(shared) == before


@pytest.mark.parametrize("closed", ["", "journal", "data", "journal/00000000000000000002"])
def test_the_next_command_is_about_what_may_not_be_read(shared, closed):
    (shared / closed).chmod(0)
    says = as_nobody(f"unbroken.load({str(shared)!r})")
    assert says.startswith("StorageUnavailable 74 ") and "EACCES" in says
    assert f"try namei -l {shared / (closed or 'journal')}" in says


@pytest.mark.parametrize("kind", ["file", "below a file", "link to itself"])
def test_what_is_no_directory_is_looked_at_part_by_part(tmp_path, kind):
    path = tmp_path / "run"
    path.symlink_to("run") if kind == "link to itself" else path.write_text("")
    path = path / "below" if kind == "below a file" else path
    for call, error in ((unbroken.load, unbroken.NothingToResume), (unbroken.Run, unbroken.Misconfigured)):
        with pytest.raises(error) as caught:
            call(path)
        assert caught.value.next_command == f"namei -l {path}"
