"""Every error says what to run next, in the class, on stderr and wherever it is raised."""

import ast
import inspect
import pathlib
import shlex
import shutil

import numpy
import pytest
import torch

import unbroken
from unbroken import errors

PACKAGE = pathlib.Path(unbroken.__file__).parent
CLASSES = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors._Advice)]


def make(kind, next_command=""):
    arguments = {"Interrupted": ("why", 75), "_Stop": ("why", 75), "_Advice": ()}.get(kind.__name__, ("why",))
    return kind(*arguments, **({"next_command": next_command} if arguments else {}))


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_one_where_nobody_gives_any(kind):
    error = make(kind)
    assert error.next_command and shlex.split(error.next_command)
    with pytest.raises(BaseException) as caught, errors.naming("/runs/a b"):
        raise error if isinstance(error, BaseException) else RuntimeError
    if caught.value is error:
        assert "DIR" not in error.next_command.split()
    if kind is not errors._Advice:
        assert make(kind, "unbroken ls x").next_command == "unbroken ls x"


@pytest.mark.parametrize("kind", sorted(errors._CLASSES))
@pytest.mark.parametrize("none", ["", None])
def test_errors_of_the_core_have_one(kind, none):
    assert errors.from_core("bad_argument", kind, "why", none).next_command
    assert errors.from_core("bad_argument", kind, "why", "unbroken ls x").next_command == "unbroken ls x"


def test_the_innermost_directory_is_the_one_that_is_named():
    with pytest.raises(unbroken.NothingToResume) as caught, errors.naming("/outer"), errors.naming("/inner dir"):
        raise unbroken.NothingToResume("why")
    assert caught.value.next_command == "unbroken ls '/inner dir'"


def test_no_class_of_errors_is_raised_that_has_none():
    """What the package raises is one of these classes, or tells a programmer of a wrong keyword or a broken core."""
    known = {kind.__name__ for kind in CLASSES} | {"refuse", "TypeError"}
    known |= {"matches_nothing", "_unclear"}
    inner = {"RuntimeError", "SystemExit", "KeyError", "ValueError", "ours", "error", "mine", "corrupt", "StopIteration"}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                name = node.exc.func.id if isinstance(node.exc.func, ast.Name) else node.exc.func.attr
                assert name in known | inner | {"from_core"}, f"{path.name}:{node.lineno} raises {name}"


def test_errors_that_a_user_can_reach_name_the_directory(run_dir, tmp_path):
    with unbroken.Run(run_dir) as run:
        run.attach(x={"a": numpy.ones(2)})
        for _ in run.steps(2):
            pass
    quoted, missing = shlex.quote(str(run_dir)), tmp_path / "missing"

    def restore(path=run_dir, x=None, **more):
        with unbroken.Run(path, **more) as run:
            run.attach(**(x or {}))
            for _ in run.steps(3):
                pass

    damaged = tmp_path / "damaged"
    shutil.copytree(run_dir, damaged)
    for shard in damaged.glob("data/*/shard*"):
        shard.write_bytes(b"")
    cases = {
        lambda: unbroken.load(missing): str(missing),
        lambda: unbroken.load(run_dir, at=99): quoted,
        lambda: unbroken.load(run_dir, at="99.a1"): quoted,
        lambda: unbroken.load(damaged): str(damaged),
        lambda: unbroken.load(damaged, at=2): str(damaged),
        lambda: unbroken.load(run_dir, into={"y": {}}): quoted,
        lambda: unbroken.load(run_dir, into={"x": {}}): quoted,
        lambda: unbroken.load(run_dir, only="q"): quoted,
        lambda: restore(x={"x": {}}): quoted,
        lambda: restore(x={"y": {}}): quoted,
        lambda: restore(resume=99): quoted,
        lambda: restore(missing, resume=5): str(missing),
        lambda: restore(): quoted,
        lambda: restore(damaged, x={"x": {"a": numpy.ones(2)}}): str(damaged),
        lambda: restore(damaged, x={"x": {"a": numpy.ones(2)}}, resume=2): str(damaged),
        lambda: restore(every="often"): "",
        lambda: restore(x={"x": 5}): "",
        lambda: restore(x={"rng": {}}): "",
        lambda: restore(keep_best="loss"): "",
        lambda: restore(tmp_path / "other", x={"x": [object()]}): "",
        lambda: restore(tmp_path / "again", x={"o": torch.optim.SGD([torch.zeros(1)], 0.1)}): "",
    }
    for case, word in cases.items():
        with pytest.raises(unbroken.Error) as caught:
            case()
        error = caught.value
        assert error.next_command and word in error.next_command, (error, error.next_command)
        assert "DIR" not in error.next_command.split(), (error, error.next_command)
        assert error.last_line().endswith(f"try `{error.next_command}`")
