"""What load and Run are told: every keyword, variable and path is checked, and `only` says what it did not find."""

import os
import pathlib

import numpy
import pytest

import unbroken
from helpers import bits, child, finish
from unbroken import Misconfigured


@pytest.fixture
def trained(run_dir):
    with unbroken.Run(run_dir) as run:
        run.attach(model={"layer.0": {"weight": numpy.ones(2), "bias": numpy.zeros(1)}, "head": numpy.ones(1)}, n=[1, 2])
        for _ in run.steps(2):
            pass
    return run_dir


@pytest.mark.parametrize(
    "only, names",
    [("model.*", ["model"]), ("n", ["n"]), ("n.1", ["n"]), (["*.bias", "n.*"], ["model", "n"]), (("rng",), ["rng"]),
     (r"model.layer[\].0", ["model"])],
)  # fmt: skip
def test_only_takes_what_it_matches(trained, only, names):
    assert list(unbroken.load(trained, only=only)) == names


@pytest.mark.parametrize(
    "only, near",
    [("modle.*", "model"), ("model.hed", r"model\.head"), (["n", "model.layer.0.wight"], r"layer\\\.0\.weight"),
     ("zzz", "model, n"), ("N", "")],
)  # fmt: skip
@pytest.mark.failure("FareedKhan-dev/train-llm-from-scratch#36")
def test_only_that_matches_nothing_lists_near_names(trained, only, near):
    with pytest.raises(Misconfigured, match=f"matches no name in checkpoint 2.a1.*{near}") as caught:
        unbroken.load(trained, only=only)
    assert caught.value.next_command == f"unbroken show {trained} 2.a1"


def test_a_life_that_resumes_knows_which_run_its_checkpoint_is_of(trained):
    with unbroken.Run(trained) as run:
        run.attach(model={"layer.0": {"weight": numpy.ones(2), "bias": numpy.zeros(1)}, "head": numpy.ones(1)}, n=[1, 2])
        run.restore()
        assert run._restoring.saved.uuid and run._restoring.saved.uuid == unbroken.load(trained).run


@pytest.mark.parametrize(
    "bad",
    [{"at": True}, {"at": None}, {"at": 1.5}, {"at": -1}, {"at": b"newest"}, {"at": "\ud800"}, {"only": 5}, {"only": []}, {"only": [1]},
     {"only": b"n"}, {"torch": "yes"}, {"torch": 1}, {"into": []}, {"into": {1: {}}}, {"into": "model"}, {"pin": "yes"}],
)  # fmt: skip
def test_keywords_of_load_are_checked(trained, bad):
    with pytest.raises(Misconfigured, match=next(iter(bad))) as caught:
        unbroken.load(trained, **bad)
    assert caught.value.next_command


NO_BOOL = ["yes", 1, 0, None, "", numpy.True_]


@pytest.mark.parametrize(
    "bad",
    [*({name: value} for name in ("fresh", "takeover") for value in NO_BOOL),
     *({"every": v} for v in (None, [], 0.5, -1, b"auto", "\ud800", False)),
     *({"keep_last": v} for v in ("3", None, True, 0, -1, 2.0, 2**32, 2**70)),
     *({"resume": v} for v in (True, None, -1, 1.0, b"newest", "", "\ud800")),
     *({"on_save_error": v} for v in (None, [], True, "")), *({"group": v} for v in (5, b"users", "", "\ud800"))],
    ids=str,
)  # fmt: skip
def test_keywords_of_run_are_checked(run_dir, bad):
    with pytest.raises(Misconfigured) as caught, unbroken.Run(run_dir, **bad):
        pass
    assert next(iter(bad)) in str(caught.value)
    assert caught.value.next_command and not run_dir.exists()


def test_arguments_of_methods_are_checked(run_dir):
    with unbroken.Run(run_dir) as run:
        bad = [(run.save, {"wait": v}) for v in ("no", 1, None)]
        bad += [(run.drain, {"timeout": v}) for v in ("1", True, -1, float("nan"))]
        bad += [(run.steps, {"n": v}) for v in ("5", True, -1, 1.0, None)]
        for method, arguments in bad:
            with pytest.raises(Misconfigured, match=next(iter(arguments))) as caught:
                method(**arguments)
            assert caught.value.next_command


@pytest.mark.parametrize("name", ["UNBROKEN_RESUMED", "UNBROKEN_TAKEOVER"])
@pytest.mark.parametrize("text", ["yes", "true", "2", " 1", "on"])
def test_a_flag_of_the_environment_is_one_or_nothing(run_dir, monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(Misconfigured, match=f"^{name} is '{text}': it may be 1 or 0, or not set") as caught, unbroken.Run(run_dir):
        pass
    assert caught.value.next_command == f"unset {name}" and not run_dir.exists()
    for allowed in ("0", ""):
        monkeypatch.setenv(name, allowed)
        with unbroken.Run(run_dir) as run:
            run.restore()


@pytest.mark.parametrize("text", ["5 ", "-1", "1e3", "\u0665", "9" * 30, "0x1"])
def test_a_cap_of_steps_is_a_number(run_dir, monkeypatch, text):
    monkeypatch.setenv("UNBROKEN_STEPS", text)
    with pytest.raises(Misconfigured, match="^UNBROKEN_STEPS is ") as caught:
        unbroken.Run(run_dir)
    assert not run_dir.exists()
    assert caught.value.next_command == "unset UNBROKEN_STEPS"


class Odd(os.PathLike):
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


def test_every_path_may_be_a_pathlike(tmp_path):
    for make in (str, pathlib.Path, lambda p: Odd(str(p))):
        with unbroken.Run(make(tmp_path / "run")) as run:
            run.attach(x={"a": 1})
            for _ in run.steps(2):
                pass
        assert bits(unbroken.load(make(tmp_path / "run"))["x"]) == {"a": 1}


@pytest.mark.parametrize("path", [None, 5, Odd(b"run"), Odd(""), True, ["run"], "a\0b", b"run", ""])
def test_what_is_no_path_is_refused(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    for call in (unbroken.Run, unbroken.load):
        with pytest.raises(Misconfigured, match="names no directory") as caught:
            call(path)
        assert caught.value.next_command
    assert not list(tmp_path.iterdir())


def test_a_path_that_is_no_text_is_refused_by_name(tmp_path, monkeypatch):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/r\xff")
    for call in (unbroken.Run, unbroken.load, lambda p: unbroken.Run(pathlib.Path(p))):
        with pytest.raises(Misconfigured, match=r"r\\xff' is no UTF-8 text") as caught:
            call(path)
        assert caught.value.next_command == f"mv $'{tmp_path}/r\\xff' run"
    monkeypatch.setenv("UNBROKEN_DIR", path)
    with pytest.raises(Misconfigured, match="no UTF-8"):
        unbroken.Run("run")
    monkeypatch.delenv("UNBROKEN_DIR")
    os.mkdir(path)
    os.symlink(path, tmp_path / "run")
    with pytest.raises(Misconfigured, match="no UTF-8"):
        unbroken.Run(tmp_path / "run")
    code, out, err = finish(child("import unbroken, sys; unbroken.load(sys.argv[1])", path))
    assert code == 78 and err.splitlines()[-1].startswith("error: the path b'")
