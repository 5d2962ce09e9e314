"""Run: labels, boundaries, saves, stops. In one process, on the native core where it is there."""

import os
import re
import shutil
import signal

import numpy
import pytest
import torch

import unbroken
from helpers import FULL, child, finish, life, stops_at
from unbroken import Misconfigured, NothingToResume, StateMismatch, _native, metrics, options, saver

native = pytest.mark.skipif(_native.core.__name__ == "fake_core", reason="needs the native core")


@pytest.mark.failure("open-mmlab/mmocr#292")
def test_steps_go_from_the_restored_one_to_n(run_dir):
    with stops_at(3):
        assert life(run_dir, 10) == [0, 1, 2]
    with stops_at(2):
        assert life(run_dir, 10) == []
    assert life(run_dir, 10) == [3, 4, 5, 6, 7, 8, 9]
    assert life(run_dir, 10) == []
    assert life(run_dir, 12) == [10, 11]


def test_a_label_counts_completed_steps(run_dir):
    with unbroken.Run(run_dir) as run:
        assert run.newest is None
        for _ in run.steps(4):
            pass
        assert run.newest == "4.a1"
        assert run.attempt == 1 and run.path == str(run_dir)
    checkpoint = unbroken.load(run_dir)
    assert (checkpoint.step, checkpoint.name) == (4, "4.a1")


def test_the_first_line_says_what_was_found(run_dir, capsys):
    life(run_dir, 2)
    assert f"unbroken: fresh start: no run in {run_dir}\n" in capsys.readouterr().err
    life(run_dir, 3)
    assert "unbroken: resumed from 2.a1: step 2, attempt 2" in capsys.readouterr().err


@pytest.mark.failure("NVIDIA/Megatron-LM#3981")
def test_a_broken_body_is_not_completed_and_not_saved(run_dir):
    with unbroken.Run(run_dir) as run:
        for step in run.steps(9):
            run.state["seen"] = step
            if step == 3:
                break
        with pytest.raises(Misconfigured, match="did not complete"):
            run.save()
    with unbroken.Run(run_dir) as run:
        assert run.restore() <= 3
        assert run.state["seen"] < 3


def test_a_save_that_a_broken_body_asked_for_is_said_to_be_missing(run_dir, capsys):
    with unbroken.Run(run_dir, every=100) as run:
        for step in run.steps(9):
            if step == 3:
                saving = run.save(wait=False)
                break
    assert isinstance(saving.durable.exception(), Misconfigured)
    assert capsys.readouterr().err.count("the save that was asked for was not taken") == 1


def test_an_exception_leaves_no_save_of_its_body_and_is_not_hidden(run_dir):
    def body(run, step):
        run.state["seen"] = step
        if step == 2:
            run.save(wait=False)  # in flight when the body breaks
        if step == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        life(run_dir, 9, body, every=1)
    with unbroken.Run(run_dir) as run:
        assert run.restore() == 3 and run.state["seen"] == 2


def test_other_loops(run_dir):
    with unbroken.Run(run_dir, every=2) as run:
        assert run.restore() == 0
        assert [run.step(loss=0.5) for _ in range(5)] == [1, 2, 3, 4, 5]
        assert run.save().durable.result() == "5.a1"
    with unbroken.Run(run_dir) as run:
        assert run.restore() == 5 == run.restore()
        assert run.step() == 6


@pytest.mark.failure("huggingface/diffusers#3467", "vllm-project/speculators#859")
def test_micro_batches_make_one_step(run_dir):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with unbroken.Run(run_dir) as run:
        run.attach(model=model, optimizer=optimizer)
        run.restore()
        labels = []
        for i in range(8):
            model(torch.ones(1, 2)).backward()
            if i % 4 == 3:
                optimizer.step()
            if i == 5:
                saving = run.save(wait=False)
                assert saving.step is None  # in the middle of a window: taken at its end
            labels.append(run.step(accumulate=4))
        assert labels == [0, 0, 0, 1, 1, 1, 1, 2]
        assert saving.durable.result() == "2.a1"


def test_step_needs_a_restore_and_no_steps_loop(run_dir):
    with unbroken.Run(run_dir) as run:
        with pytest.raises(Misconfigured, match="restore"):
            run.step()
        for _ in run.steps(2):
            with pytest.raises(Misconfigured, match="body"):
                run.step()
            with pytest.raises(Misconfigured, match="another steps loop"):
                run.steps(3)


# -- saves


@pytest.mark.failure("NVIDIA/Megatron-LM#3981")
def test_a_save_in_a_body_is_taken_at_its_end(run_dir):
    with unbroken.Run(run_dir) as run:
        for step in run.steps(6):
            run.state["k"] = (step, "before")
            if step == 3:
                saving = run.save()
                other = run.save(wait=False)
                with pytest.raises(Misconfigured, match="boundary"):
                    saving.durable.result()
            run.state["k"] = (step, "after")
            if step == 4:
                assert saving.durable.done() and saving.durable.result() == "4.a1" == run.newest
                assert other.staged.result() == "4.a1"
                assert saving.upload_completion is saving.durable and saving.staging_completion is saving.staged
                break
    assert unbroken.load(run_dir, at=4)["state"]["k"] == (3, "after")


def test_a_save_before_any_step_has_the_restored_label_or_none(run_dir):
    with unbroken.Run(run_dir) as run:
        with pytest.raises(Misconfigured, match="no step"):
            run.save()
        run.restore()
        with pytest.raises(Misconfigured, match="no step"):
            run.save()
        for _ in run.steps(2):
            pass
    with unbroken.Run(run_dir) as run:
        run.restore()
        run.state["more"] = 1
        assert run.save().durable.result() == "2.a2"
    with unbroken.Run(run_dir) as run:
        assert run.restore() == 2 and run.state["more"] == 1


def test_when_saves_are_taken(run_dir, fake, monkeypatch):
    kinds, at_boundary = [], saver.Saver.at_boundary
    monkeypatch.setattr(saver.Saver, "at_boundary", lambda *a: (kinds.append(a[1:3]), at_boundary(*a)))
    with unbroken.Run(run_dir, every=3) as run:
        for step in run.steps(8):
            if step == 3:
                run.save()
    assert kinds == [(1, "first"), (3, "due"), (4, "explicit"), (6, "due"), (8, "last")]
    del kinds[:]
    with unbroken.Run(run_dir, every=3) as run:
        session = run._session
        for _ in run.steps(10):
            pass
    assert kinds == [(9, "first"), (10, "last")]
    assert session.is_closed


def test_a_failed_save_in_the_background_is_said_once_and_training_goes_on(run_dir, fake, capsys):
    def body(run, step):
        if step == 1:
            fake.Session.fail_saves = [FULL]
        if step == 3:
            assert run.health["saves_failed"] == 1

    assert life(run_dir, 6, body, every=2) == list(range(6))
    assert capsys.readouterr().err.count("the disk is full") == 1


AT_ONCE = [
    FULL,
    ("unavailable", "StorageUnavailable", "no memory for the snapshot", ""),
    ("late", "StorageUnavailable", "no slot is free", ""),
]


@pytest.mark.parametrize("error", AT_ONCE, ids=lambda error: error[0])
def test_a_save_that_fails_at_once_is_a_failed_save_like_any(run_dir, fake, capsys, error):
    def body(run, step):
        if step == 1:
            run._session.fails_at_once = [error]
        if step == 3:
            assert run.health["state"] != "green" and run.health["saves_failed"] == 1

    assert life(run_dir, 6, body, every=2) == list(range(6))
    assert capsys.readouterr().err.count(f"{error[2]}; training goes on") == 1


def test_a_lack_of_memory_while_the_state_is_gathered_is_a_failed_save(run_dir, fake, capsys, monkeypatch):
    capture = saver.Saver.capture

    def body(run, step):
        def fail(self, *_):
            monkeypatch.setattr(saver.Saver, "capture", capture)
            raise MemoryError

        if step == 1:
            monkeypatch.setattr(saver.Saver, "capture", fail)
        if step == 3:
            assert run.health["state"] != "green" and run.health["saves_failed"] == 1

    assert life(run_dir, 6, body, every=2) == list(range(6))
    assert capsys.readouterr().err.count("MemoryError") == 1


def test_a_save_that_fails_at_once_raises_where_it_is_to_and_where_it_is_the_last(run_dir, fake, capsys):
    def body(run, step):
        if step == 3:
            run._session.fails_at_once = [FULL]

    with pytest.raises(unbroken.StorageFull):
        life(run_dir, 6, body, every=2, on_save_error="raise")
    with pytest.raises(unbroken.StorageFull):
        life(run_dir, 4, body)
    err = capsys.readouterr().err
    assert err.count("the disk is full") == 2 and "training goes on" not in err


@pytest.mark.parametrize("how", ["fails_at_once", "fail_saves"])
def test_after_sigterm_nothing_says_that_training_goes_on(run_dir, fake, capsys, how):
    def body(run, step):
        if step == 3:
            setattr(run._session if how == "fails_at_once" else fake.Session, how, [FULL])
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(unbroken.Interrupted) as caught:
        life(run_dir, 9, body)
    err = capsys.readouterr().err
    assert caught.value.code == 76 and "1.a1 stands" in err
    assert "failed: the disk is full" in err and "training goes on" not in err


def test_the_last_save_raises_whatever_the_policy(run_dir, fake):
    def body(run, step):
        if step == 3:
            fake.Session.fail_saves = [FULL]

    with pytest.raises(unbroken.StorageFull):
        life(run_dir, 4, body)
    assert life(run_dir, 4) == [1, 2, 3]


def test_an_explicit_save_that_waits_raises(run_dir, fake):
    def body(run, step):
        if step == 2:
            fake.Session.fail_saves = [FULL]
            run.save()

    with pytest.raises(unbroken.StorageFull):
        life(run_dir, 4, body)


def test_an_explicit_save_that_does_not_wait_keeps_its_error(run_dir, fake):
    savings = []

    def body(run, step):
        if step == 1:
            fake.Session.fail_saves = [FULL]
            savings.append(run.save(wait=False))

    assert life(run_dir, 4, body) == [0, 1, 2, 3]
    assert isinstance(savings[0].durable.exception(), unbroken.StorageFull)


@pytest.mark.failure("sml2h3/dddd_trainer#36")
def test_falling_back_names_the_damage_and_what_is_used(run_dir, capsys):
    weights = numpy.zeros(4000)

    def body(run, step):
        run.state["k"] = step
        weights[:] = step
        run.drain()

    with unbroken.Run(run_dir, every=1) as run:
        run.attach(weights=weights)
        for step in run.steps(3):
            body(run, step)
    (shard,) = run_dir.glob("data/step-*3.a*/*.safetensors")
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(unbroken.CorruptCheckpoint):
        unbroken.load(run_dir, at="3.a1")
    assert unbroken.load(run_dir).name == "2.a1"
    capsys.readouterr()
    with unbroken.Run(run_dir) as run:
        run.attach(weights=weights)
        assert run.restore() == 2 and run.state["k"] == 1 and set(weights) == {1}
    err = capsys.readouterr().err
    assert re.search(r"checkpoint 3\.a1 is damaged \(.*shard-0.*\): using 2\.a1 instead", err), err


def test_being_superseded_is_a_stop_at_the_boundary(run_dir, fake):
    seen = []
    with pytest.raises(unbroken.Superseded) as caught, unbroken.Run(run_dir) as run:
        for step in run.steps(9):
            seen.append(step)
            if step == 2:
                run._session.superseded = True
    assert seen == [0, 1, 2]
    assert caught.value.code == caught.value.exit_code == 82 and caught.value.kind == "Superseded"
    assert not isinstance(caught.value, Exception)


@pytest.mark.failure("huggingface/transformers#40500")
def test_what_cannot_be_kept_is_refused_at_the_first_save(run_dir):
    def body(run, step):
        run.state["f"] = {"deep": [body]}

    with pytest.raises(Misconfigured, match=r"^state\.f\.deep\.0"):
        life(run_dir, 9, body)


# -- metrics and the tap


def test_metrics_of_a_step_are_handed_over_at_its_boundary(run_dir, fake):
    with unbroken.Run(run_dir) as run:
        session = run._session
        for step in run.steps(3):
            loss = torch.tensor([float(step)])
            run.log(loss=loss, n=step)
            loss += 100  # what was logged is what it was
            if step == 1:
                run.log(n=True, x=float("nan"))
    assert session.lines[0] == (1, [("loss", 0.0), ("n", 0.0)])
    assert [name for name, _ in session.lines[1][1]] == ["loss", "n", "x"]
    assert session.lines[2] == (3, [("loss", 2.0), ("n", 2.0)])


@pytest.mark.parametrize("bad", ["text", [1], torch.zeros(2), None, 1j])
def test_a_metric_is_one_number(run_dir, bad):
    with unbroken.Run(run_dir) as run, pytest.raises(Misconfigured, match="log: loss"):
        run.log(loss=bad)


def test_the_tap_sees_every_tensor_and_every_value(run_dir, fake):
    model, other = torch.nn.Linear(2, 1), torch.nn.Linear(1, 1)
    with unbroken.Run(run_dir) as run:
        run._session.tapped = True
        run.attach(model=model, d={"a": [1, 2.5]})
        for _ in run.steps(2):
            run.log(loss=1)
    step, metrics, tensors, scalars, not_attached = run._session.taps[1]
    assert step == 2 and metrics == {"loss": 1.0}
    assert tensors.keys() == {"model.weight", "model.bias"}
    assert not_attached.keys() == {"other"} and len(not_attached["other"]) == 32 and other is not model
    assert scalars["d.a.0"] == "1" and {"rng.torch.cpu", "rng.python.position", "run.epoch"} <= scalars.keys()


# -- options and the environment


@pytest.mark.failure("verl-project/verl#7955")
def test_a_keyword_that_nobody_knows_is_a_type_error(run_dir):
    with pytest.raises(TypeError, match="keep_lst"):
        unbroken.Run(run_dir, keep_lst=3)


@pytest.mark.parametrize(
    "bad",
    [
        {"every": 0},
        {"every": 1.5},
        {"every": True},
        {"keep_last": 0},
        {"keep_every": 0},
        {"keep_every": True},
        {"keep_best": "loss"},
        {"keep_best": ("loss", "least")},
        {"keep_best": ("", "min")},
        {"keep_best": (1, "min")},
        {"on_save_error": "ignore"},
        {"resume": None},
        {"group": 5},
    ],
)
def test_nonsense_is_refused_by_name(run_dir, bad):
    with pytest.raises(Misconfigured, match=next(iter(bad))):
        unbroken.Run(run_dir, **bad)


@native
def test_unbroken_dir_redirects_by_the_order_of_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBROKEN_DIR", str(tmp_path / "life"))
    given = ("runs/a", "/x/b/", "runs/a", os.path.abspath("runs/a"), "/x/b", "runs/c")
    assert [os.path.relpath(options.directory(path), tmp_path) for path in given] == [
        "life", "life.2.b", "life", "life", "life.2.b", "life.3.c",
    ]  # fmt: skip


@pytest.mark.parametrize("every", [1, 2, 100])
def test_metrics_that_come_late_are_in_order_and_in_every_commit(run_dir, fake, monkeypatch, every):
    """As if the numbers were on an accelerator: they are read at the next boundary, or where a save needs them."""
    reads, seen = [], []

    class Late(metrics._OnDevice):
        def __init__(self, value):
            self._value = value

        def read(self):
            reads.append((self._value, len(seen)))
            return float(self._value)

    monkeypatch.setattr(metrics, "number", lambda name, value: Late(value))
    with unbroken.Run(run_dir, every=every) as run:
        session = run._session
        for step in run.steps(7):
            seen.append(step)
            run.log(loss=step)
    assert session.lines == [(step + 1, [("loss", float(step))]) for step in range(7)]
    assert all(c["metrics"] == [("loss", c["step"] - 1.0)] for c in fake.DISK[str(run_dir)]["checkpoints"])
    if every == 100:
        assert (2, 4) in reads and (2, 3) not in reads  # that of step 3: at the boundary after it


@pytest.mark.parametrize("where", ["boundary", "save"])
def test_a_failed_check_of_ours_never_ends_training(run_dir, fake, capsys, where):
    def body(run, step):
        run._session.bug = where if step in (2, 3) else None
        if step == 3:
            run.save()  # even one that is waited for

    assert life(run_dir, 6, body, every=1) == list(range(6))
    assert capsys.readouterr().err.count("invariant does not hold") == 2
    with pytest.raises(unbroken.Bug):
        life(run_dir, 9, lambda run, step: setattr(run._session, "bug", where), every=1, on_save_error="raise")


def test_a_failed_check_in_the_last_save_is_an_error(run_dir, fake):
    with pytest.raises(unbroken.Bug) as caught:  # code below the loop means that it is finished
        life(run_dir, 6, lambda run, step: setattr(run._session, "bug", "save" if step == 5 else None))
    assert caught.value.exit_code == 80


REFUSED = [{"resume": 1200}, {"resume": "best:"}, {"resume": "yesterday"}, {"every": "often"}]


@native
@pytest.mark.parametrize("bad", REFUSED)
def test_what_is_refused_creates_nothing(tmp_path, bad):
    with pytest.raises((Misconfigured, NothingToResume)):
        unbroken.Run(tmp_path / "deep" / "run", **bad)
    assert not list(tmp_path.iterdir())


@native
@pytest.mark.parametrize("name", ["STEPS", "RESUMED", "TAKEOVER", "TAP", "IO", "KILL", "POINT_LOG", "MTTI"])
def test_an_environment_that_is_refused_creates_nothing(tmp_path, monkeypatch, name):
    name = f"UNBROKEN_{name}"
    monkeypatch.setenv(name, str(tmp_path / "missing" / "x"))
    with pytest.raises(Misconfigured, match=f"^{name} is "):
        unbroken.Run(tmp_path / "deep" / "run")
    assert not list(tmp_path.iterdir())


@native
def test_a_refused_origin_leaves_no_directory_behind(tmp_path):
    life(tmp_path / "old", 2, lambda run, step: None)
    with pytest.raises(NothingToResume):
        unbroken.Run(tmp_path / "new", init_from=str(tmp_path / "old@7"))
    with pytest.raises(StateMismatch), unbroken.Run(tmp_path / "new", init_from=str(tmp_path / "old")) as run:
        run.attach(model=torch.nn.Linear(1, 1))
        run.restore()
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@native
def test_a_run_that_never_committed_says_so(run_dir, capsys):
    with unbroken.Run(run_dir) as run:
        run.restore()
    capsys.readouterr()
    with unbroken.Run(run_dir) as run:
        run.restore()
    err = capsys.readouterr().err
    assert "no checkpoint was ever committed by the earlier attempts: starting from step 0" in err
    assert "fresh start" not in err


@native
def test_a_directory_that_is_removed_fails_saves_and_not_the_training(run_dir, capsys):
    seen = []

    def body(run, step):
        seen.append(step)
        run.drain()
        if step == 2:
            shutil.rmtree(run_dir)

    with pytest.raises(unbroken.StorageUnavailable, match="removed"):
        life(run_dir, 6, body, every=1)
    assert seen == list(range(6))
    assert "removed" in capsys.readouterr().err


@native
def test_a_commit_says_what_made_it(run_dir):
    code = """
import unbroken, numpy
with unbroken.Run(sys.argv[1]) as run:
    for _ in run.steps(1):
        pass
"""
    assert finish(child(code, run_dir, "--hub-token", "s3cret"))[0] == 0
    said = _native.core.Reader(str(run_dir), "newest").saved.provenance
    assert {"host", "pid", "directory", "unbroken", "python", "numpy"} <= said.keys()
    assert "torch" not in said
    assert said["command"].endswith("--hub-token ***") and "s3cret" not in said["command"]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "\u0663"])
def test_unbroken_steps_must_be_a_number(run_dir, value):
    with stops_at(value), pytest.raises(Misconfigured, match="UNBROKEN_STEPS"):
        life(run_dir, 3)


def test_resume_names_a_checkpoint(run_dir):
    life(run_dir, 4, lambda run, step: (run.state.update(k=step), run.save()), keep_last=9)
    with unbroken.Run(run_dir, resume="2.a1") as run:
        assert run.restore() == 2 and run.state["k"] == 1
    with pytest.raises(NothingToResume), unbroken.Run(run_dir, resume=99) as run:
        run.restore()


# -- the end


def test_a_closed_run_refuses_and_closes_once(run_dir):
    with unbroken.Run(run_dir) as run:
        for _ in run.steps(2):
            pass
    run.close()
    for call in (run.save, run.step, lambda: run.steps(3), lambda: run.attach(x={})):
        with pytest.raises(Misconfigured, match="closed"):
            call()


@pytest.mark.parametrize("path", ["", b"runs/first", "runs\0first"])
def test_a_path_that_names_no_directory_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misconfigured, match="names no directory"):
        unbroken.Run(path)
    with pytest.raises(Misconfigured, match="names no directory"):
        unbroken.load(path)
    assert not list(tmp_path.iterdir())


def test_whole_numbers_of_numpy_are_numbers(run_dir):
    with unbroken.Run(run_dir, every=numpy.int64(2), keep_last=numpy.int32(2)) as run:
        for _ in run.steps(numpy.uint8(4)):
            pass
    with unbroken.Run(run_dir, resume=numpy.int64(4)) as run:
        assert run.restore() == 4
