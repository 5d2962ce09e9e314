"""SIGKILL at any moment: nothing that was acknowledged is lost, no restart waits, and the end is that of an undisturbed run."""

import os
import re
import shutil
import signal

import program
import pytest
from kills import kill_often
from life import TRAINER, Life, Oracle
from program import SAVING, TRAIN, python, start


def undisturbed(directory, steps):
    life = Life(directory, steps)
    status, err = life.finish()
    assert status == 0, err
    return life.final


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """steps -> the digest that an undisturbed run ends with."""
    known = {}

    def digest(steps):
        if steps not in known:
            known[steps] = undisturbed(tmp_path_factory.mktemp("undisturbed") / "run", steps)
        return known[steps]

    return digest


@pytest.mark.parametrize("seed, where", [(0, "tmp_path"), (1, "in_memory"), (2, "in_memory"), (3, "in_memory")])
@pytest.mark.failure("Lightning-AI/pytorch-lightning#688")
def test_random_kills_of_a_saving_run(seed, where, request):
    """25 kills each, 100 in all. The oracle stands outside: what the child said before it died."""
    folder, kills = request.getfixturevalue(where), 25
    oracle = Oracle(TRAINER)
    kill_often(folder / "run", folder / "undisturbed", oracle, seed, kills)
    assert oracle.newest > 0 and oracle.resumes > kills / 4


def points_of(directory, steps):
    """Names of points with how often an undisturbed life passes each."""
    log = directory.with_suffix(".points")
    status, err = Life(directory, steps, env={"UNBROKEN_POINT_LOG": str(log)}).finish()
    assert status == 0, err
    passes = {}
    for name in log.read_text().split():
        passes[name] = passes.get(name, 0) + 1
    return passes


@pytest.mark.failure("Lightning-AI/pytorch-lightning#688", "petuum/adaptdl#70", "NVIDIA-NeMo/Speech#7948")
def test_a_kill_at_every_named_point(in_memory, expected):
    """Each point that a fresh life or a resumed one passes: the first time, and one time in the middle."""
    steps = 12
    want = expected(steps)
    fresh = points_of(in_memory / "a", steps)
    begun = in_memory / "begun"  # a run that stands at step 6
    assert undisturbed(begun, 6)
    shutil.copytree(begun, in_memory / "b")
    resumed = points_of(in_memory / "b", steps)
    cases = {(None, name, pass_) for name, count in fresh.items() for pass_ in {1, count // 2 + 1}}
    cases |= {(begun, name, 1) for name in resumed if name not in fresh or name.startswith(("open.", "collect."))}
    assert len(fresh) >= 15 and "open.loaded" in resumed
    named = set()
    for source, name, pass_ in sorted(cases, key=str):
        directory = in_memory / "killed"
        shutil.rmtree(directory, ignore_errors=True)
        if source:
            shutil.copytree(source, directory)
        life = Life(directory, steps, env={"UNBROKEN_KILL": f"{name}:{pass_}:kill"})
        status, err = life.finish()
        if status == 0:  # threads passed it less often this time
            continue
        assert status == -signal.SIGKILL, err
        named.add(name)
        again = Life(directory, steps)
        status, err = again.finish()
        assert status == 0, f"after a kill at {name}, pass {pass_}: {err}"
        assert again.resumed >= max(life.acked, default=6 if source else 0), f"{name}, pass {pass_}"
        assert again.final == want or again.resumed == steps, f"{name}, pass {pass_}"
        assert not list(directory.rglob("*.tmp")), f"{name}, pass {pass_}"
    assert named >= set(fresh) - {"step.boundary"} | {"open.loaded"}


@pytest.mark.parametrize("pass_", [1, 2, 3])  # of the probe's object, of that which was not the first, of GENESIS
def test_a_kill_in_the_first_append_leaves_nothing_for_ever(in_memory, pass_):
    directory = in_memory / "run"
    status, err = Life(directory, 3, env={"UNBROKEN_KILL": f"filestore.before_link:{pass_}:kill"}).finish()
    assert status == -signal.SIGKILL, err
    assert list((directory / "journal").glob("*.tmp")) and not list((directory / "journal").glob("0" * 20))
    life = Life(directory, 3)
    status, err = life.finish()
    assert status == 0 and life.final, err
    assert not list(directory.rglob("*.tmp"))


# -- two processes on one directory


LONG = TRAIN.replace("run.log(", "print(step, flush=True); run.log(")


def begin(directory, *arguments, code=LONG, env=None):
    """A training that has completed a step and saved it."""
    process = start(python(code, directory, *arguments), env=env)
    for line in process.stdout:
        if int(line) >= 5:
            return process
    raise AssertionError(process.stderr.read())


@pytest.mark.failure("NVIDIA/apex#629")
def test_a_second_process_is_refused_naming_the_first(tmp_path):
    first = begin(tmp_path / "run", 1_000_000, 1, 0.01)
    status, _, err = program.run(python(LONG, tmp_path / "run", 10))
    assert status == 78 and f"process {first.pid}" in err and "takeover" in err
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 75


def attempts_of(directory):
    """Attempt of each COMMIT in the journal, in order."""
    found = []
    for name in program.journal_files(directory):
        text = (directory / "journal" / name).read_text()
        if '"type":"COMMIT"' in text:
            found.append(int(re.search(r'"attempt":(\d+)', text).group(1)))
    return found


@pytest.mark.parametrize("how", ["keyword", "environment"])
def test_a_take_over_fences_the_first(how, tmp_path):
    directory = tmp_path / "run"
    first = begin(directory, 1_000_000, 1, 0.01)
    code = LONG.replace("every=every)", "every=every, takeover=True)") if how == "keyword" else LONG
    env = {"UNBROKEN_TAKEOVER": "1"} if how == "environment" else {}
    second = begin(directory, 1_000_000, 1, 0.01, code=code, env=env)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 82, err
    assert second.poll() is None
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 75
    attempts = attempts_of(directory)
    assert attempts == sorted(attempts) and set(attempts) == {1, 2}


def test_one_that_was_frozen_commits_nothing_after_a_take_over(tmp_path):
    directory = tmp_path / "run"
    first = begin(directory, 1_000_000, 1, 0.01)
    first.send_signal(signal.SIGSTOP)
    # Stopped is alive: without a take-over it is refused.
    status, _, err = program.run(python(LONG, directory, 10))
    assert status == 78 and f"process {first.pid}" in err
    second = begin(directory, 1_000_000, 1, 0.01, env={"UNBROKEN_TAKEOVER": "1"})
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 82, err
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 75
    attempts = attempts_of(directory)
    assert attempts == sorted(attempts), "the first attempt committed after it was fenced"
    assert program.unbroken("verify", directory)[0] == 0


def stopped_at(point, directory):
    """A life of ten steps that froze there, in the middle of its passes."""
    process = start(python(SAVING, directory, 10, 2), env={"UNBROKEN_KILL": f"{point}:stop"})
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert process.poll() is None, process.communicate()
    return process


@pytest.mark.parametrize("point", ["commit.before_write:2", "commit.before_receipt:2", "commit.before_manifest:2",
                                   "commit.before_append:2", "commit.done:2", "collect.intended:2",
                                   "collect.before_remove:2", "journal.before_create:5", "journal.after_create:5",
                                   "journal.appended:5"])
def test_one_that_was_frozen_anywhere_appends_nothing_after_a_life_that_took_over(point, in_memory):
    directory = in_memory / "run"
    first = stopped_at(point, directory)
    status, _, err = program.run(python(SAVING, directory, 14, 2), env={"UNBROKEN_TAKEOVER": "1"})
    assert status == 0, err
    before = program.journal_files(directory)
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 82, err
    assert program.journal_files(directory) == before
    status, found = program.unbroken_json("doctor", directory)
    assert status == 0 and "orderly" in found["last_end"]["why"], found
    assert program.unbroken("verify", directory)[0] == 0


def test_a_restart_after_a_kill_needs_no_takeover(tmp_path):
    directory = tmp_path / "run"
    for signal_number in (signal.SIGKILL, signal.SIGTERM):
        process = begin(directory, 1_000_000, 1, 0.01)
        process.send_signal(signal_number)
        process.wait(60)
    # One that is dead but was not waited for yet is dead.
    zombie = begin(directory, 1_000_000, 1, 0.01)
    zombie.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    last = begin(directory, 1_000_000, 1, 0.01)
    last.send_signal(signal.SIGTERM)
    assert last.wait(60) == 75
    zombie.wait()
