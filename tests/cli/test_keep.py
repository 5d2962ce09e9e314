"""keep, unkeep, rm, and the ways to name a checkpoint: what they print, and how they end."""

import json
import os
import pwd
import shutil

import pytest
from program import python, run, train, unbroken, unbroken_json

SCORED = """
import sys, numpy as np, unbroken
w = np.zeros(8)
with unbroken.Run(sys.argv[1], every=1, keep_last=2, keep_best=("loss", "min"), keep_every=4) as run:
    run.attach(w=w)
    for step in run.steps(9):
        w += 1
        run.log(loss=abs(step - 2))
        run.save(tag="odd" if step in (1, 4) else None)
"""


@pytest.fixture
def scored(tmp_path):
    train(tmp_path / "run", code=SCORED)
    return tmp_path / "run"


def kept(directory):
    return {c["name"]: c["kept_by"] for c in unbroken_json("ls", directory)[1]["checkpoints"]}


def refused(*arguments):
    status, said = unbroken_json(*arguments)
    assert status == 78, said
    return said["error"]


@pytest.mark.parametrize("command", [["keep", "4", "--tag", "a"], ["unkeep", "2", "--tag", "odd"], ["rm", "4", "--force"]])
def test_what_writes_into_a_run_passes_the_points(scored, tmp_path, command):
    env = {"UNBROKEN_POINT_LOG": str(tmp_path / "log")}
    assert unbroken(command[0], scored, *command[1:], env=env)[0] == 0
    assert "journal.before_create" in (tmp_path / "log").read_text().splitlines()


def test_ls_says_what_keeps_each(scored):
    assert kept(scored) == {
        "9.a1": ["last"],
        "8.a1": ["last", "every:4"],
        "5.a1": ["tag:odd"],
        "4.a1": ["every:4"],
        "3.a1": ["best:loss"],
        "2.a1": ["tag:odd"],
    }
    entries = {c["name"]: c for c in unbroken_json("ls", scored)[1]["checkpoints"]}
    assert entries["5.a1"]["tags"] == ["odd"] and entries["3.a1"]["tags"] == []


def test_a_checkpoint_is_named_by_its_metric_or_its_tag(scored):
    assert unbroken_json("show", scored, "best:loss")[1]["name"] == "3.a1"
    assert unbroken_json("show", scored, "tag:odd")[1]["name"] == "5.a1"
    assert unbroken("verify", scored, "tag:odd")[0] == 0
    assert unbroken("diff", scored, "best:loss", "3")[0] == 0
    status, said = unbroken_json("show", scored, "best:speed")
    assert status == 66 and "loss" in said["error"]["message"]
    status, said = unbroken_json("show", scored, "tag:even")
    assert status == 66 and "odd" in said["error"]["message"]


def test_keep_and_unkeep(scored):
    assert unbroken_json("keep", scored, "9") == (0, {"name": "9.a1", "tags": ["kept"]})
    assert unbroken_json("keep", scored, "9", "--tag", "v1.0") == (0, {"name": "9.a1", "tags": ["kept", "v1.0"]})
    assert kept(scored)["9.a1"] == ["last", "tag:kept", "tag:v1.0"]
    assert unbroken_json("keep", scored, "9") == (0, {"name": "9.a1", "tags": ["kept", "v1.0"]})
    assert unbroken_json("unkeep", scored, "tag:v1.0", "--tag", "kept") == (0, {"name": "9.a1", "tags": ["v1.0"]})
    status, said = unbroken_json("unkeep", scored, "9", "--tag", "kept")
    assert status == 66 and "v1.0" in said["error"]["message"]
    assert unbroken_json("unkeep", scored, "9") == (0, {"name": "9.a1", "tags": []})
    assert unbroken("unkeep", scored, "9")[0] == 66
    assert refused("keep", scored, "9", "--tag", "a b")["kind"] == "Misconfigured"
    assert unbroken("keep", scored, "7")[0] == 66
    assert unbroken("verify", scored)[0] == 0


def test_rm_refuses_what_is_kept_and_changes_nothing(scored):
    before = kept(scored)
    assert "best:loss" in refused("rm", scored, "best:loss")["message"]
    error = refused("rm", scored, "4")
    assert "every:4" in error["message"] and error["next_command"] == f"unbroken rm {scored} 4.a1 --force"
    for flags in ([], ["--force"]):
        error = refused("rm", scored, "5", *flags)
        assert "tag:odd" in error["message"] and error["next_command"] == f"unbroken unkeep {scored} 5.a1"
    assert unbroken("rm", scored, "7")[0] == 66
    assert kept(scored) == before


def test_rm(scored):
    folders = {path.name for path in (scored / "data").iterdir()}
    unbroken("unkeep", scored, "5")
    status, said = unbroken_json("rm", scored, "5")
    assert status == 0 and said["removed"] == "5.a1" and said["bytes"] > 64
    for at in ("4", "9", "best:loss"):
        status, out, err = unbroken("rm", scored, at, "--force")
        assert status == 0 and "removed" in out, err
    assert list(kept(scored)) == ["8.a1", "2.a1"]
    left = {path.name for path in (scored / "data").iterdir()}
    assert left < folders and len(left) == 2
    assert unbroken("rm", scored, "5")[0] == 66
    assert unbroken("verify", scored)[0] == 0
    assert json.loads(run(python("import sys, unbroken; print(unbroken.load(sys.argv[1]).step)", scored))[1]) == 8


def test_rm_spares_what_a_life_resumed_from(scored):
    code = "import sys, numpy, unbroken; r = unbroken.Run(sys.argv[1], resume='best:loss'); r.attach(w=numpy.zeros(8)); r.restore()"
    train(scored, code=code)
    assert "resume" in kept(scored)["3.a1"]
    assert "resume" in refused("rm", scored, "3", "--force")["message"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes where it has no permission")
def test_what_root_appends_is_read_by_the_owner_of_the_run(scored, public):
    nobody = pwd.getpwnam("nobody")
    directory = shutil.copytree(scored, public.folder / "run")
    for path in (directory, *directory.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    assert unbroken("keep", directory, "9")[0] == 0
    status, out, err = public.unbroken("ls", directory)
    assert status == 0 and "tag:kept" in out, err
