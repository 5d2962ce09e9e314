"""ls, show, verify, diff, version: what they print with --json, and how they end."""

import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import program
import pytest
from program import run, train, unbroken, unbroken_json

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def error_in(status, out, err):
    """The error object, which stands alone on stdout; stderr says it in words, with what to do next."""
    error = json.loads(out)["error"]
    assert set(error) == {"kind", "exit_code", "message", "next_command"}
    assert error["exit_code"] == status
    assert error["message"] and error["next_command"]
    assert err.splitlines()[-1] == f"error: {error['message']}: try `{error['next_command']}`"
    return error


def error_of(*arguments):
    """(status, the error object)."""
    status, out, err = unbroken(*arguments, "--json")
    return status, error_in(status, out, err)


# -- the program itself


def test_version():
    status, said = unbroken_json("version")
    assert status == 0 and said["format"] == 1 and re.fullmatch(r"\d+\.\d+\.\d+", said["version"]) and said["commit"]
    assert unbroken("--version")[:2] == (0, f"unbroken {said['version']}\n")
    assert said["version"] in unbroken("version")[1]


@pytest.mark.parametrize("command", [[], ["ls"], ["show"], ["verify"], ["diff"], ["drill"], ["version"], ["plan"], ["simulate"]])
def test_help_is_0_and_on_stdout(command):
    status, out, err = unbroken(*command, "--help")
    assert status == 0 and "unbroken" in out and err == ""


@pytest.mark.parametrize(
    "command",
    [[], ["frobnicate"], ["--frobnicate"], ["ls"], ["ls", "a", "b"], ["ls", "--frobnicate", "a"], ["show"], ["diff", "a"],
     ["diff", "a", "1"], ["verify"], ["version", "x"]],
)  # fmt: skip
def test_usage_errors_are_78(command):
    status, error = error_of(*command)
    assert status == 78 and error["kind"] == "Misconfigured" and "--help" in error["next_command"]
    status, out, err = unbroken(*command)
    assert status == 78 and out == "" and "error: " in err


@pytest.mark.parametrize(
    "name",
    ["run", "repair", "copy", "halt", "top", "serve"],
)
def test_names_of_later_versions_are_refused(name):
    status, error = error_of(name, "x")
    assert status == 78 and "comes later" in error["message"]


@pytest.mark.parametrize("command", ["ls", "show", "verify", "diff"])
def test_what_is_not_a_run_is_66(command, tmp_path):
    rest = ["1", "2"] if command == "diff" else []
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").write_text("mine")
    (tmp_path / "file").write_text("")
    for name in ("missing", "empty", "other", "file"):
        status, error = error_of(command, tmp_path / name, *rest)
        assert status == 66 and error["kind"] == "NothingToResume", error
        assert name in error["message"]
    assert not (tmp_path / "missing").exists() and list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("command", ["ls", "show", "verify", "diff"])
def test_a_run_that_lost_its_journal_is_66(command, copied):
    rest = ["4", "8"] if command == "diff" else []
    shutil.rmtree(copied / "journal")
    status, error = error_of(command, copied, *rest)
    assert status == 66 and "journal" in error["message"]


@pytest.mark.parametrize("command", ["ls", "show", "verify", "diff"])
def test_a_journal_with_a_hole_is_66_and_says_where(command, copied):
    rest = ["4", "8"] if command == "diff" else []
    (copied / "journal" / "00000000000000000003").unlink()
    status, error = error_of(command, copied, *rest)
    assert status == 66 and "slot" in error["message"]
    assert error["next_command"] == f"unbroken doctor {copied}"


def test_a_directory_that_everybody_may_write_is_78(copied):
    copied.chmod(0o777)
    status, error = error_of("ls", copied)
    assert status == 78 and "everybody" in error["message"]


def test_commands_never_write(trained):
    def picture():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in trained.rglob("*")}

    before = picture()
    for command in (["ls"], ["show"], ["verify"], ["diff"]):
        unbroken(command[0], trained, *(["8", "12"] if command == ["diff"] else []))
    assert picture() == before


def test_a_reader_that_leaves_ends_us_quietly(trained):
    process = program.start([program.PROGRAM, "show", trained])
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) in (0, -signal.SIGPIPE)


def test_a_result_that_cannot_be_written_is_74(trained):
    with open("/dev/full", "w") as full:
        process = subprocess.run([program.PROGRAM, "ls", trained], stdout=full, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 74 and "error: " in process.stderr


@pytest.mark.parametrize("call", [["--help"], ["--version"], ["ls", "--help"], ["doctor", "-h"], ["version"], ["generate", "man"]])
def test_help_that_cannot_be_written_is_an_error_with_its_line(call):
    with open("/dev/full", "w") as full:
        process = subprocess.run([program.PROGRAM, *call], stdout=full, stderr=subprocess.PIPE, text=True)
    assert process.returncode == 74
    assert re.fullmatch(r"error: the result could not be written: No space left on device: try `df -h`\n", process.stderr)


def on_terminal(command, env):
    """(status, what a person sees): stdout and stderr are a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(str(command[0]), list(map(str, command)), env)
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


def test_colour_is_for_terminals_and_not_with_no_color(trained):
    assert "\x1b[" in on_terminal([program.PROGRAM, "ls", trained], program.CLEAN)[1]
    assert "\x1b[3" not in on_terminal([program.PROGRAM, "ls", trained], {**program.CLEAN, "NO_COLOR": "1"})[1]
    assert "\x1b[" not in unbroken("ls", trained)[1]


# -- ls


def test_ls(trained):
    status, said = unbroken_json("ls", trained)
    assert status == 0 and re.fullmatch(r"[0-9a-f-]{36}", said["run"])
    checkpoints = said["checkpoints"]
    steps = [c["step"] for c in checkpoints]
    assert steps == sorted(steps, reverse=True) and steps[0] == 12 and len(steps) >= 3
    newest = checkpoints[0]
    assert newest["attempt"] == 1 and newest["try"] == 0 and newest["state"] == "verified"
    assert newest["bytes"] >= 256 and RFC3339.fullmatch(newest["created"])
    assert newest["survives"] in ("process", "node") and newest["tiers"]
    assert "last" in newest["kept_by"] and newest["lineage"] is True and newest["tags"] == []
    assert newest["health"] == "ok" and isinstance(newest["metrics"]["loss"], float)


def test_ls_for_people(trained):
    status, out, _ = unbroken("ls", trained)
    assert status == 0
    assert out.splitlines()[0].split()[:2] == ["12.a1", "verified"]


def test_a_run_without_checkpoints_lists_as_empty(tmp_path):
    code = """
import sys, unbroken
run = unbroken.Run(sys.argv[1])
run.attach(x={"a": 1})
run.restore()
run.close()
"""
    train(tmp_path / "run", code=code)
    status, said = unbroken_json("ls", tmp_path / "run")
    assert status == 0 and said["checkpoints"] == []
    assert unbroken("ls", tmp_path / "run")[:2] == (0, "")
    assert unbroken_json("verify", tmp_path / "run")[0] == 0
    assert error_of("show", tmp_path / "run")[0] == 66


BRANCH = """
import sys, unbroken
with unbroken.Run(sys.argv[1], every=1, keep_last=10, resume=sys.argv[3]) as run:
    state = {"a": 0}
    run.attach(x=state)
    for step in run.steps(int(sys.argv[2])):
        state["a"] += 1
        run.log(loss=float("nan") if step == 2 else 1.0 / (step + 1))
        run.save()
"""


@pytest.fixture(scope="module")
def branched(tmp_path_factory):
    """Attempt 1 reached step 4; attempt 2 went back to step 2 and reached step 3."""
    directory = tmp_path_factory.mktemp("branched") / "run"
    train(directory, 4, "newest", code=BRANCH)
    train(directory, 3, "2", code=BRANCH)
    return directory


def test_abandoned_checkpoints_stay_in_place(branched):
    said = unbroken_json("ls", branched)[1]["checkpoints"]
    assert [(c["step"], c["attempt"], c["lineage"]) for c in said] == [
        (3, 2, True), (4, 1, False), (3, 1, False), (2, 1, True), (1, 1, True),
    ]  # fmt: skip
    assert "(abandoned)" in unbroken("ls", branched)[1]


def test_a_metric_that_is_not_finite_is_a_text(branched):
    metrics = {(c["step"], c["attempt"]): c["metrics"]["loss"] for c in unbroken_json("ls", branched)[1]["checkpoints"]}
    assert metrics[3, 1] == "NaN" and metrics[2, 1] == 0.5


def test_a_number_means_the_current_lineage(branched):
    said = unbroken_json("show", branched, "3")[1]
    assert (said["step"], said["attempt"]) == (3, 2)
    said = unbroken_json("show", branched, "3.a1")[1]
    assert (said["step"], said["attempt"]) == (3, 1)
    assert unbroken_json("show", branched, "4")[1]["attempt"] == 1  # the only one


def test_an_ambiguous_number_is_78_naming_the_candidates(tmp_path):
    directory = tmp_path / "run"
    for steps, resume in ((4, "newest"), (4, "2"), (3, "2.a1")):
        train(directory, steps, resume, code=BRANCH)
    status, error = error_of("show", directory, "4")
    assert status == 78 and "4.a1" in error["message"] and "4.a2" in error["message"]


# -- show


@pytest.mark.failure("google/orbax#648")
def test_show(trained):
    status, said = unbroken_json("show", trained)
    assert status == 0 and (said["step"], said["attempt"]) == (12, 1)
    tensors = {t["name"]: t for t in said["tensors"]}
    assert tensors["w"]["dtype"] == "F32" and tensors["w"]["shape"] == [8, 8] and tensors["w"]["bytes"] == 256
    import unbroken as library
    import xxhash

    w = library.load(str(trained))["w"]
    assert tensors["w"]["digest"] == xxhash.xxh3_128_hexdigest(np.ascontiguousarray(w).tobytes())
    assert "state.sum" in said["state"] and any(name.startswith("chance.") for name in said["state"])
    assert any(name.startswith("rng.python") for name in said["state"])
    assert said["provenance"]["host"] and "w" not in said["state"]


def test_show_takes_an_older_one(trained):
    older = unbroken_json("ls", trained)[1]["checkpoints"][1]
    assert unbroken_json("show", trained, older["name"])[1]["step"] == older["step"]
    assert unbroken("show", trained, older["step"])[0] == 0


@pytest.mark.parametrize("command", ["show", "verify", "diff"])
@pytest.mark.parametrize(
    "at, status",
    [("7", 66), ("12.a9", 66), ("12.a1.t3", 66), ("nonsense", 78), ("best:loss", 66), ("best:none", 66), ("tag:x", 66),
     ("tag:", 78)],
)  # fmt: skip
def test_a_checkpoint_that_is_not_there(command, at, status, trained):
    got, error = error_of(command, trained, *([at, "12"] if command == "diff" else [at]))
    assert got == status
    if status == 66:
        assert ("12.a1" in error["message"] or ":" in at) and error["next_command"] == f"unbroken ls {trained}"


# -- diff


def test_diff(trained):
    older, newer = (c["name"] for c in unbroken_json("ls", trained)[1]["checkpoints"][1::-1])
    status, said = unbroken_json("diff", trained, older, newer)
    assert status == 1 and said["equal"] is False and said["only_in_a"] == [] and said["only_in_b"] == []
    changed = {c["name"]: c for c in said["changed"]}
    digest = {at: {t["name"]: t["digest"] for t in unbroken_json("show", trained, at)[1]["tensors"]} for at in (older, newer)}
    assert (changed["w"]["a"], changed["w"]["b"]) == (digest[older]["w"], digest[newer]["w"])
    assert isinstance(changed["state.sum"]["a"], float) and changed["state.sum"]["a"] != changed["state.sum"]["b"]
    status, out, _ = unbroken("diff", trained, older, newer)
    assert status == 1 and f"~ w  {digest[older]['w']} -> {digest[newer]['w']}" in out


def test_diff_of_one_with_itself(trained):
    status, said = unbroken_json("diff", trained, "12", "newest")
    assert status == 0 and said == {"equal": True, "changed": [], "only_in_a": [], "only_in_b": []}
    assert unbroken("diff", trained, "12", "12.a1")[:2] == (0, "")


def test_diff_names_what_only_one_has(tmp_path):
    code = """
import sys, numpy as np, unbroken
with unbroken.Run(sys.argv[1], every=1) as run:
    state = {"old": np.zeros(2), "shaped": np.zeros((2, 3)), "was": 1}
    run.attach(x=state)
    for step in run.steps(2):
        if step == 1:
            del state["old"], state["was"]
            state["new"], state["is"], state["shaped"] = np.zeros(3), 2, np.zeros((3, 2))
        run.save()
"""
    train(tmp_path / "run", code=code)
    status, said = unbroken_json("diff", tmp_path / "run", "1", "2")
    assert status == 1
    assert "x.old" in said["only_in_a"] and "x.was" in said["only_in_a"]
    assert "x.new" in said["only_in_b"] and "x.is" in said["only_in_b"]
    shaped = next(c for c in said["changed"] if c["name"] == "x.shaped")
    assert shaped["a"].startswith("F64[2,3] ") and shaped["b"].startswith("F64[3,2] ")


# -- verify


def test_verify(trained):
    status, said = unbroken_json("verify", trained)
    assert status == 0 and said["ok"] is True
    assert said["journal"]["ok"] is True and said["journal"]["errors"] == [] and said["journal"]["bytes_read"] > 0
    assert [c["step"] for c in said["checkpoints"]] == [c["step"] for c in unbroken_json("ls", trained)[1]["checkpoints"]]
    for c in said["checkpoints"]:
        assert c["ok"] is True and c["errors"] == [] and c["bytes_read"] > 256 and c["attempt"] == 1
    status, said = unbroken_json("verify", trained, "12")
    assert status == 0 and [c["step"] for c in said["checkpoints"]] == [12]
    assert "12.a1" in unbroken("verify", trained)[1]


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def objects_of(directory, step):
    """Of a save's five objects: glob -> path."""
    folder = directory / "data" / f"step-{step:012}.a0001.t0"
    return {kind: next(folder.glob(kind)) for kind in ("*.safetensors", "shard*.json", "*.sums", "receipt-*", "manifest-*")}


@pytest.mark.parametrize("kind", ["*.safetensors", "shard*.json", "*.sums", "receipt-*", "manifest-*"])
@pytest.mark.parametrize("harm", ["flip", "missing", "cut"])
def test_verify_names_the_object(kind, harm, copied):
    path = objects_of(copied, 12)[kind]
    if harm == "flip":
        flip(path, 10)
    elif harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    status, said = unbroken_json("verify", copied)
    assert status == 65 and said["ok"] is False and said["journal"]["ok"] is True
    bad = [c for c in said["checkpoints"] if not c["ok"]]
    assert [c["step"] for c in bad] == [12]
    assert [e["object"] for e in bad[0]["errors"]] == [str(path.relative_to(copied))]
    if harm == "missing":
        assert (bad[0]["errors"][0]["offset"], bad[0]["errors"][0]["what"]) == (0, "missing")
    status, out, _ = unbroken("verify", copied)
    assert status == 65 and "damaged" in out and path.name in out
    assert unbroken("verify", copied, "8")[0] == 0 and unbroken("verify", copied, "12")[0] == 65


def test_verify_says_which_chunk_and_tensors(copied):
    path = objects_of(copied, 12)["*.safetensors"]
    flip(path, path.stat().st_size - 1)
    error = unbroken_json("verify", copied, "newest")[1]["checkpoints"][0]["errors"][0]
    assert error["offset"] == 0 and re.search(r"\bw\b|chance|rng", error["what"])


def test_verify_tells_of_a_second_copy_that_had_to_help(copied):
    slot = copied / "journal" / "00000000000000000002"
    flip(slot, 30)
    status, said = unbroken_json("verify", copied)
    assert status == 65 and said["ok"] is False
    assert said["journal"]["errors"] == [
        {"object": "journal/00000000000000000002", "offset": 0, "what": "repaired from its second copy"}
    ]
    assert all(c["ok"] for c in said["checkpoints"])
    flip(slot, 30)
    flip(slot, slot.stat().st_size - 30)  # the second copy itself
    assert unbroken_json("verify", copied)[1]["journal"]["ok"] is False
    assert unbroken("ls", copied)[0] == 0


@pytest.mark.parametrize("harm, what", [("flip", "repaired from its second copy"), ("missing", "missing"), ("cut", None)])
def test_verify_covers_run(harm, what, copied):
    path = copied / "RUN"
    if harm == "flip":
        flip(path, 20)
    elif harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    status, said = unbroken_json("verify", copied)
    assert status == 65 and [e["object"] for e in said["journal"]["errors"]] == ["RUN"]
    assert what is None or said["journal"]["errors"][0]["what"] == what


def test_a_quarantined_checkpoint_is_listed_verified_and_not_shown(copied):
    path = objects_of(copied, 12)["*.safetensors"]
    flip(path, 5000 if path.stat().st_size > 5000 else 100)
    err = train(copied, 12, 4)
    assert "12.a1" in err and path.name in err  # what was damaged, and that an older one was used
    checkpoints = unbroken_json("ls", copied)[1]["checkpoints"]
    states = {c["name"]: c["state"] for c in checkpoints}
    # The damage was found while it was read, so the attempt that had begun with it was followed by another.
    assert states["12.a1"] == "quarantined" and states["12.a3"] in ("committed", "verified")
    said = unbroken_json("verify", copied)[1]
    bad = {c["name"]: c for c in said["checkpoints"]}["12.a1"]
    assert bad["ok"] is False and bad["quarantined"] is True
    assert unbroken("verify", copied, "12.a1")[0] == 65
    status, error = error_of("show", copied, "12.a1")
    assert status == 65 and error["kind"] == "CorruptCheckpoint"
    assert unbroken_json("show", copied)[1]["attempt"] == 3


def test_show_of_the_newest_falls_back_and_says_so(copied):
    objects_of(copied, 12)["*.sums"].unlink()
    status, out, err = unbroken("show", copied, "--json")
    assert status == 0 and json.loads(out)["step"] == 8 and "12.a1" in err
    assert error_of("show", copied, "12")[0] == 65


def test_an_unknown_critical_feature_is_78(copied):
    import hashlib

    path = objects_of(copied, 12)["shard*.json"]
    text = json.loads(path.read_text().splitlines()[0])
    text["critical"] = ["later-thing"]
    canonical = json.dumps(text, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_text(f"{canonical}\nsha256:{hashlib.sha256(canonical.encode()).hexdigest()}\n")
    # Its digest no longer fits the receipt: that is damage. A manifest is named by its content, so it is replaced whole
    # only together with the journal; the features of the run stand in RUN.
    assert unbroken("verify", copied, "12")[0] == 65
    run_text = json.loads((copied / "RUN").read_text().splitlines()[0])
    run_text["critical"] = ["later-thing"]
    canonical = json.dumps(run_text, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sealed = f"{canonical}\nsha256:{hashlib.sha256(canonical.encode()).hexdigest()}\n"
    (copied / "RUN").write_text(sealed * 2)
    status, error = error_of("verify", copied)
    assert status == 78 and "later-thing" in error["message"]


@pytest.mark.parametrize("kind", ["*.safetensors", "shard*.json", "*.sums", "receipt-*", "manifest-*"])
def test_lack_of_permission_is_74_and_no_damage(kind, public, trained):
    copy = public.copy(trained)
    assert public.unbroken("verify", copy)[0] == 0
    objects_of(copy, 12)[kind].chmod(0)
    status, out, err = public.unbroken("verify", copy, "--json")
    said = json.loads(out)
    assert status == 74 and said["error"]["kind"] == "StorageUnavailable" and "EACCES" in err
    assert str(copy) in said["error"]["next_command"] and "EACCES" in said["error"]["message"]
    # Everything else was read all the same.
    assert [c["name"] for c in said["checkpoints"] if not c["ok"]] == ["12.a1"] and len(said["checkpoints"]) == 3
    errors = {c["name"]: c for c in said["checkpoints"]}["12.a1"]["errors"]
    assert len(errors) == 1 and errors[0]["what"].startswith("not read:")


STRANGE = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "link": lambda path: os.symlink("/dev/zero", path),
    "loop": lambda path: os.symlink(path.name, path),
    "socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),
    "sparse": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}


@pytest.mark.parametrize("harm", STRANGE)
def test_verify_names_every_strange_object_and_goes_on(harm, copied, monkeypatch):
    monkeypatch.chdir(copied)  # the address of a socket is short
    objects = objects_of(Path(), 12)
    objects.pop("manifest-*")  # vouches for the rest
    for path in objects.values():
        path.unlink()
        STRANGE[harm](path)
    strange_manifest = objects_of(Path(), 8)["manifest-*"]
    strange_manifest.unlink()
    STRANGE[harm](strange_manifest)
    little_memory = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))  # noqa: E731
    done = subprocess.run([program.PROGRAM, "verify", copied, "--json"], env=program.CLEAN, capture_output=True,
                          text=True, timeout=60, preexec_fn=little_memory)  # fmt: skip
    assert done.returncode == 65, done.stderr
    checkpoints = {c["name"]: c for c in json.loads(done.stdout)["checkpoints"]}
    assert {e["object"] for e in checkpoints["12.a1"]["errors"]} == set(map(str, objects.values()))
    assert [e["object"] for e in checkpoints["8.a1"]["errors"]] == [str(strange_manifest)]
    assert sum(c["ok"] for c in checkpoints.values()) == len(checkpoints) - 2


def test_verify_judges_a_first_life_that_died_before_run_as_a_start_does(copied):
    for path in copied.iterdir():
        if path.name != "journal":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for slot in sorted((copied / "journal").iterdir())[1:]:
        slot.unlink()
    status, said = unbroken_json("verify", copied)
    assert status == 0 and said["ok"] and said["journal"]["errors"] == []
    assert said["journal"]["notes"] == ["a first start died before RUN; the next start completes it"]
    assert "the next start completes it" in unbroken("verify", copied)[1]
    train(copied, 1)
    status, said = unbroken_json("verify", copied)
    assert status == 0 and said["journal"]["notes"] == []


BIG = """
import sys, numpy as np, unbroken
with unbroken.Run(sys.argv[1], every=1) as run:
    run.attach(w=np.ones(16_000_000))
    for step in run.steps(1):
        pass
"""


def has_open(pid, suffix):
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            if os.readlink(link).endswith(suffix):
                return True
        except OSError:
            pass
    return False


def test_ctrl_c_dies_by_sigint(in_memory):
    """In the middle of reading a shard of some size; one that was read too quickly is read again."""
    train(in_memory / "run", code=BIG)
    for _ in range(20):
        process = program.start([program.PROGRAM, "verify", in_memory / "run"])
        while process.poll() is None and not has_open(process.pid, ".safetensors"):
            pass
        process.send_signal(signal.SIGINT)
        if process.wait(60) == -signal.SIGINT:
            return
        assert process.returncode == 0
    raise AssertionError("Ctrl-C never ended it")


def test_a_terminal_sees_the_result_without_the_bar(trained):
    """The bar itself is tested in src/cli/progress_test.cc: here nothing takes long enough to need one."""
    status, seen = on_terminal([program.PROGRAM, "verify", trained], program.CLEAN)
    assert status == 0 and "12.a1" in seen and "left" not in seen


FORGING = """
import sys, numpy as np, unbroken
with unbroken.Run(sys.argv[1], every=1, keep_best=("\\x1b[31mred\\n99.a1  verified", "min")) as run:
    run.attach(x=np.zeros(4, np.float32))
    for step in run.steps(2):
        run.log(**{"\\x1b[31mred\\n99.a1  verified": 1.0, "\\u202efdp": 2.0})
        run.state["note"] = "\\u202e\\x9b" * 2 + str(step)
"""


def test_text_of_a_run_moves_no_cursor_and_forges_no_row(tmp_path):
    train(tmp_path / "run", code=FORGING)
    for command in (["ls"], ["show"], ["diff", "newest"], ["verify"], ["doctor"], ["show", "best:\u202e"]):
        arguments = [command[0], tmp_path / "run", *command[1:]]
        if command[0] == "diff":
            arguments.append("1.a1")
        _, out, err = unbroken(*arguments)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out + err), command
        assert not re.search(r"^\s*99\.a1", out + err, re.M), command
    assert "\\x1b[31mred\\x0a99.a1" in unbroken("ls", tmp_path / "run")[1]
