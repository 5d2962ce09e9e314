"""The drill: trainings that continue bit for bit, and all the ways in which one may not."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import program
import pytest
from program import MLP, PROGRAM, ROOT, TRAIN, python, start, unbroken

@pytest.fixture
def tmp_path(in_memory):
    """Processes are killed here and no power is lost."""
    return in_memory


KEYS = {"ok", "kills", "resumes", "deterministic", "first_difference", "not_attached"}


def drill(tmp_path, command, *options, env=None):
    """(status, result, stderr)."""
    status, out, err = unbroken("drill", "--json", "--dir", tmp_path / "drill", *options, "--", *command, env=env)
    return status, json.loads(out), err


def script(tmp_path, code, *arguments):
    path = tmp_path / "train.py"
    path.write_text(code)
    return python(f"exec(open({str(path)!r}).read())", *arguments)


def passes(tmp_path, command, *options, kills=3, steps=None, env=None):
    status, said, err = drill(tmp_path, command, *options, env=env)
    assert status == 0, (said, err)
    assert KEYS <= set(said)
    assert (said["ok"], said["deterministic"], said["first_difference"]) == (True, True, None)
    assert said["kills"] == kills and said["resumes"] >= 1 and said["not_attached"] == []
    assert steps is None or said["steps"] == steps
    # Nobody had to wait for a dead owner or take over from one.
    assert "takeover" not in err
    return said


@pytest.mark.parametrize("at", ["points", "steps", "random"])
def test_a_training_continues_bit_for_bit(at, tmp_path):
    real = tmp_path / "real"
    said = passes(tmp_path, script(tmp_path, TRAIN, real, 40, 5, 0.01), "--at", at, "--seed", "3", steps=40)
    assert not real.exists()  # every life was led elsewhere
    assert Path(said["dir"]).parent == tmp_path / "drill"
    page = Path(said["report"]).read_text()  # its curve is the loss that it logged
    assert page.startswith("<!doctype html>") and "<title>loss</title>" in page and page.count(">kill ") == 3
    killed = [life["killed"] for life in said["lives"] if life["killed"]]
    assert len(killed) == 3 and said["lives"][-1]["ended"] == "finished"
    assert {k.split(" at ")[0] for k in killed} == {"SIGKILL", "SIGTERM", "SIGSTOP and SIGKILL"}
    if at == "points":
        assert any(" at " in k for k in killed)


#: a state of 36 MiB, of which a window of 32 MiB is in memory at a time
STREAMED = (
    TRAIN.replace("np.zeros((8, 8), np.float32)", "np.zeros((9 << 10, 1 << 10), np.float32)")
    .replace("w += chance.standard_normal(w.shape).astype", "w[step :: 1024] += chance.standard_normal(1 << 10).astype")
    .replace("every=every", 'every=every, arena="32MiB"')
)


def test_a_training_with_little_memory_continues_bit_for_bit(tmp_path):
    assert "goes through a window of 32.0 MiB" in program.train(tmp_path / "run", 1, code=STREAMED)
    passes(tmp_path, script(tmp_path, STREAMED, tmp_path / "real", 12, 2, 0.01), "--at", "points", "--seed", "5", steps=12)


def test_many_kills(tmp_path):
    said = passes(tmp_path, script(tmp_path, TRAIN, tmp_path / "real", 60, 3, 0.005), "--kills", "8", kills=8)
    assert len(said["lives"]) == 9 and said["resumes"] >= 6


def test_the_cpp_trainer_continues_bit_for_bit(tmp_path):
    said = passes(tmp_path, [MLP, tmp_path / "real", "--steps", "60"], "--kills", "5", kills=5, steps=60)
    assert not (tmp_path / "real").exists() and said["resumes"] >= 3


def test_what_the_cpp_trainer_forgot_is_named(tmp_path):
    status, said, _ = drill(tmp_path, [MLP, tmp_path / "real", "--steps", "40", "--forget", "adam"])
    assert status == 65 and said["ok"] is False and said["deterministic"] is True
    assert said["first_difference"]["name"].startswith("model.") and said["first_difference"]["step"] > 1


def test_a_finished_run_started_again_yields_nothing(tmp_path):
    once = program.run([MLP, tmp_path / "run", "--steps", "12"])
    again = program.run([MLP, tmp_path / "run", "--steps", "12"])
    assert once[0] == again[0] == 0 and once[1].count("\n") == 12 and again[1] == ""
    assert "resumed 12.a1" in again[2]


FORGETFUL = """
import sys, time, numpy as np, unbroken
w, momentum, chance = np.zeros(4), np.zeros(4), np.random.default_rng(1)
with unbroken.Run(sys.argv[1], every=2) as run:
    run.attach(w=w, {attached})
    for step in run.steps(24):
        momentum *= 0.9
        momentum += chance.standard_normal(4)
        w += momentum
        run.log(loss=float(w.sum()))
        time.sleep(0.01)
"""


@pytest.mark.parametrize("forgotten", ["momentum", "chance"])
def test_what_was_forgotten_is_caught_with_a_tensor_named(forgotten, tmp_path):
    attached = {"momentum": "chance=chance", "chance": "momentum=momentum"}[forgotten]
    status, said, err = drill(tmp_path, script(tmp_path, FORGETFUL.format(attached=attached), tmp_path / "real"))
    assert status == 65 and said["ok"] is False and said["deterministic"] is True
    # The first step after the first life that resumed.
    began = next(life["began"] for life in said["lives"] if life["began"])
    assert said["first_difference"]["step"] == began + 1
    assert said["first_difference"]["name"] in ("w", "momentum") and said["first_difference"]["life"] >= 2
    # An array could be anything; a generator has a state.
    assert said["not_attached"] == (["chance"] if forgotten == "chance" else [])


TORCH_FORGETFUL = """
import sys, time, torch, unbroken
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
with unbroken.Run(sys.argv[1], every=2) as run:
    run.attach(model=model{attached})
    for step in run.steps(16):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).square().sum().backward()
        optimizer.step()
        scheduler.step()
        time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("attached", "forgotten"),
    [("", ["optimizer", "scheduler"]), (", optimizer=optimizer", ["scheduler"]), (", scheduler=scheduler", ["optimizer"])],
)
def test_what_was_never_attached_is_named_as_the_suspect(attached, forgotten, tmp_path):
    pytest.importorskip("torch")
    command = script(tmp_path, TORCH_FORGETFUL.format(attached=attached), tmp_path / "real")
    status, said, _ = drill(tmp_path, command, "--kills", "1", "--at", "steps")
    assert status == 65 and said["deterministic"] is True and said["not_attached"] == forgotten
    if attached:
        return
    status, out, _ = unbroken("drill", "--kills", "1", "--at", "steps", "--dir", tmp_path / "drill", "--", *command)
    assert status == 65 and "optimizer was never attached\nscheduler was never attached\n" in out


HARMLESS = """
import sys, time, torch, unbroken
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
teacher = torch.nn.Linear(4, 4)
with unbroken.Run(sys.argv[1], every=2) as run:
    run.attach(model=model, optimizer=optimizer{attached})
    for step in run.steps(16):
        optimizer.zero_grad()
        scaler.scale((model(torch.ones(1, 4)) - teacher(torch.ones(1, 4))).square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        ema.update_parameters(model)
        time.sleep(0.01)
"""


@pytest.mark.parametrize(("attached", "forgotten"), [("scaler", "ema"), ("ema", "scaler")])
def test_what_was_forgotten_and_changes_no_result_is_caught_too(attached, forgotten, tmp_path):
    pytest.importorskip("torch")
    command = script(tmp_path, HARMLESS.format(attached=f", teacher=teacher, {attached}={attached}"), tmp_path / "real")
    status, said, _ = drill(tmp_path, command, "--kills", "1", "--at", "steps")
    assert status == 65 and said["ok"] is False and said["deterministic"] is True
    assert said["first_difference"]["name"] == forgotten and said["not_attached"] == [forgotten]
    assert said["explanation"] == f"No checkpoint holds what is not attached: {forgotten}."


def test_what_is_not_attached_and_comes_back_all_the_same_is_said(tmp_path):
    pytest.importorskip("torch")
    command = script(tmp_path, HARMLESS.format(attached=", scaler=scaler, ema=ema"), tmp_path / "real")
    status, out, _ = unbroken("drill", "--kills", "1", "--at", "steps", "--dir", tmp_path / "drill", "--", *command)
    assert status == 0 and "0 differences\nteacher is not attached: no checkpoint holds it" in out


def test_only_a_metric_that_differs_is_caught(tmp_path):
    code = """
import sys, unbroken
seen = 0
with unbroken.Run(sys.argv[1], every=100) as run:
    run.attach(x={"a": 1})
    for step in run.steps(20):
        seen += 1
        run.log(seen=seen)
        step % 2 or run.save()  # on disk, however slow it is, before the next kill
"""
    status, said, _ = drill(tmp_path, script(tmp_path, code, tmp_path / "real"))
    assert status == 65 and said["first_difference"]["name"] == "seen"


def test_a_value_that_differs_is_caught(tmp_path):
    code = """
import sys, unbroken
seen = 0
with unbroken.Run(sys.argv[1], every=100) as run:
    for step in run.steps(20):
        seen += 1
        run.state["seen"] = seen
        step % 2 or run.save()  # on disk, however slow it is, before the next kill
"""
    status, said, _ = drill(tmp_path, script(tmp_path, code, tmp_path / "real"))
    assert status == 65 and said["first_difference"]["name"] == "state.seen"


def test_a_command_that_is_different_each_time_is_told_from_a_bad_resume(tmp_path):
    code = TRAIN.replace("default_rng(1)", "default_rng()")
    command = script(tmp_path, code, tmp_path / "real", 10)
    status, said, _ = drill(tmp_path, command)
    assert status == 65 and (said["ok"], said["deterministic"], said["kills"]) == (False, False, 0)
    assert said["first_difference"]["step"] == 1
    status, out, _ = unbroken("drill", "--dir", tmp_path / "drill", "--", *command)
    assert status == 65 and "the command" in out


def test_a_life_that_fails_to_resume_is_a_difference(tmp_path):
    code = TRAIN.replace("w = np.zeros((8, 8)", "import os\nw = np.zeros((8, 8 + os.path.exists(os.environ['UNBROKEN_DIR']))")
    status, said, _ = drill(tmp_path, script(tmp_path, code, tmp_path / "real", 20, 2, 0.01))
    assert status == 65 and said["ok"] is False and said["deterministic"] is True
    assert said["first_difference"]["name"] == "status 65"


def refused(tmp_path, command, *options):
    status, said, _ = drill(tmp_path, command, *options)
    assert status == 78 and said["error"]["kind"] == "Misconfigured" and said["error"]["exit_code"] == 78
    return said["error"]["message"]


def test_a_command_that_is_not_there_is_78(tmp_path):
    assert "/no/such/command" in refused(tmp_path, ["/no/such/command"])


def test_a_command_that_fails_by_itself_is_78(tmp_path):
    message = refused(tmp_path, python("import sys; print('sorry', file=sys.stderr); sys.exit(3)"))
    assert "status 3" in message and "sorry" in message


def test_a_command_that_never_steps_is_78(tmp_path):
    assert "step" in refused(tmp_path, ["true"])
    assert "step" in refused(tmp_path, python("import unbroken; print('no run')"))


def test_a_drill_that_proves_nothing_is_78(tmp_path):
    # It ends before anything is saved, so no life ever resumes.
    code = TRAIN.replace("w += ", "step and os._exit(0); w += ").replace("import sys", "import os, sys")
    for at in ("points", "steps", "random"):
        assert "prove nothing" in refused(tmp_path, script(tmp_path, code, tmp_path / "real", 5, 100), "--at", at)


@pytest.mark.parametrize("options", [["--kills", "0"], ["--kills", "x"], ["--at", "nowhere"], ["--seed", "-1"], ["--frobnicate"]])
def test_usage_errors_are_78(options, tmp_path):
    status, said, _ = drill(tmp_path, ["true"], *options)
    assert status == 78 and "error" in said


def test_no_command_is_78():
    for arguments in (["drill"], ["drill", "--"], ["drill", "--kills", "3"]):
        assert unbroken(*arguments)[0] == 78


def test_a_run_too_short_for_all_kills_says_so(tmp_path):
    command = script(tmp_path, TRAIN, tmp_path / "real", 6, 1, 0.05)
    status, out, err = unbroken("drill", "--kills", "40", "--at", "steps", "--dir", tmp_path / "drill", "--", *command)
    assert status == 0, err
    assert "too short for 40 kills" in out and "0 differences" in out


def test_the_output_of_the_command_goes_to_files_or_to_stderr(tmp_path):
    command = script(tmp_path, TRAIN + "print('from the command', step)", tmp_path / "real", 12, 2, 0.01)
    status, said, err = drill(tmp_path, command, "--kills", "1")
    assert status == 0 and "from the command" not in err
    outputs = [path.read_text() for path in Path(said["dir"]).rglob("*.out")]
    assert sum("from the command" in text for text in outputs) >= 3
    status, out, err = unbroken("drill", "--kills", "1", "--dir", tmp_path / "drill", "--", *command)
    assert status == 0 and "from the command" in err and "from the command" not in out
    assert out == "12 steps, 1 kills, 0 differences\n"
    assert sum(line.startswith("life ") for line in err.splitlines()) == 2  # one line a life


def test_without_a_directory_nothing_is_left(tmp_path):
    command = script(tmp_path, TRAIN, tmp_path / "real", 12, 2, 0.01)
    env = {"TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    assert unbroken("drill", "--kills", "1", "--", *command, env=env)[0] == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_signs_of_an_outer_life_do_not_reach_the_command(tmp_path):
    env = {"SLURM_RESTART_COUNT": "2", "UNBROKEN_RESUMED": "1", "UNBROKEN_DIR": str(tmp_path / "outer"), "UNBROKEN_TAKEOVER": "1"}
    passes(tmp_path, script(tmp_path, TRAIN, tmp_path / "real", 16, 2, 0.01), "--kills", "1", kills=1, env=env)
    assert not (tmp_path / "outer").exists()


def test_steps_can_be_capped_from_outside(tmp_path):
    command = script(tmp_path, TRAIN, tmp_path / "real", 1000, 2, 0.01)
    passes(tmp_path, command, "--kills", "1", kills=1, steps=14, env={"UNBROKEN_STEPS": "14"})


def test_a_command_behind_a_shell_is_killed_with_it(tmp_path):
    inner = script(tmp_path, TRAIN, tmp_path / "real", 30, 3, 0.01)
    path = tmp_path / "run.sh"
    path.write_text('"$@"\nstatus=$?\nexit $status\n')
    passes(tmp_path, ["sh", path, *inner], "--at", "steps", steps=30)


def test_ctrl_c_ends_the_command_too(tmp_path):
    command = script(tmp_path, TRAIN, tmp_path / "real", 100000, 1, 0.05)
    process = start([PROGRAM, "drill", "--json", "--dir", tmp_path / "drill", "--", *command])
    taps = lambda: list((tmp_path / "drill").rglob("*.tap.jsonl"))  # noqa: E731
    while not taps():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == -signal.SIGINT
    size = taps()[0].stat().st_size
    time.sleep(0.3)
    assert taps()[0].stat().st_size == size


def test_the_transformer_continues_bit_for_bit(tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, ROOT / "examples/gpt.py", "--dir", tmp_path / "real", "--steps", "20", "--every", "5"]
    passes(tmp_path, command, "--kills", "2", kills=2, steps=20)
    assert not os.path.exists(tmp_path / "real")
