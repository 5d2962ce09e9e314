"""What a process looks like from outside: statuses, the error line, stops in threads, what is imported."""

import json
import random

import pytest

from helpers import child, finish

RAISES = """
import unbroken, sys
raise unbroken.{0}({1})
"""


@pytest.mark.parametrize(
    "kind, status",
    [
        ("NothingToResume", 66),
        ("CorruptCheckpoint", 65),
        ("StateMismatch", 65),
        ("StorageUnavailable", 74),
        ("StorageFull", 74),
        ("Misconfigured", 78),
    ],
)
def test_an_uncaught_error_prints_one_line_and_ends_with_its_status(kind, status):
    code, _, err = finish(child(RAISES.format(kind, "'the cause\\nmore', next_command='unbroken ls x'")))
    assert code == status
    assert "Traceback" in err
    assert err.splitlines()[-1] == "error: the cause: try `unbroken ls x`"


def test_a_mismatch_names_what_differs_in_its_line():
    code, _, err = finish(
        child(RAISES.format("StateMismatch", "'no fit', missing=list('abcdefg'), changed=[('z', 'F32[1]', 'F32[2]')]"))
    )
    assert code == 65
    assert err.splitlines()[-1] == "error: no fit: a, b, c, d, e and 3 more: try `unbroken show DIR`"


@pytest.mark.parametrize(
    "stop, status", [("Interrupted('x', 75)", 75), ("Interrupted('x', 76)", 76), ("Superseded('x')", 82)]
)
def test_stops_end_the_process_with_their_status(stop, status):
    assert finish(child(f"import unbroken\ntry:\n    raise unbroken.{stop}\nexcept Exception:\n    pass"))[0] == status


@pytest.mark.parametrize("raised, status", [("Superseded('x')", 82), ("StorageFull('full')", 74)])
def test_what_ends_a_thread_does_not_let_the_process_end_with_0(raised, status):
    code = f"""
import threading, unbroken
def work():
    raise unbroken.{raised}
thread = threading.Thread(target=work); thread.start(); thread.join()
print("main went on")
"""
    status_, out, _ = finish(child(code))
    assert (status_, out) == (status, "main went on\n")


def test_the_previous_hook_is_called():
    code = """
import sys
sys.excepthook = lambda *a: print("mine", a[0].__name__)
import unbroken
raise unbroken.Misconfigured("x")
"""
    assert finish(child(code))[:2] == (78, "mine Misconfigured\n")


def test_an_import_alone_changes_nothing_of_the_process():
    code = """
import atexit, signal, threading
registered, register = [], atexit.register
atexit.register = lambda function, *more: (registered.append(getattr(function, "__module__", "")), register(function, *more))
def hooks():
    return sys.excepthook, threading.excepthook, [signal.getsignal(number) for number in signal.valid_signals()]
before = hooks()
import unbroken
assert hooks() == before
assert not [name for name in registered if (name or "").startswith("unbroken")], registered
"""
    assert finish(child(code)) == (0, "", "")


def test_the_first_run_or_save_sets_the_hooks_and_the_end_waits_for_what_is_open(tmp_path):
    code = f"""
import atexit, sys, threading, unbroken
atexit.register(lambda: print("theirs"))
before = sys.excepthook, threading.excepthook
{{0}}
assert sys.excepthook is not before[0] and threading.excepthook is not before[1]
hooks = sys.excepthook, threading.excepthook
unbroken.save({{{{"a": 1}}}}, {str(tmp_path / "other")!r})
assert hooks == (sys.excepthook, threading.excepthook)
raise ValueError("x")
"""
    for first in (f'run = unbroken.Run({str(tmp_path / "run")!r}); run.restore(); run.step(); run.save(wait=False)',
                  f'unbroken.async_save({{"a": 1}}, {str(tmp_path / "saves")!r})'):  # fmt: skip
        status, out, err = finish(child(code.format(first)))
        assert (status, out) == (1, "theirs\n") and "ValueError: x" in err, err
    import unbroken

    assert unbroken.load(tmp_path / "run").step == 1 and unbroken.load(tmp_path / "saves").step == 0


def test_other_exceptions_keep_their_status():
    code, _, err = finish(child("import unbroken\n1/0"))
    assert code == 1 and "error:" not in err


def test_a_closed_stderr_and_stdout_end_nothing(tmp_path):
    code = f"""
import os, sys, unbroken
os.close(1); os.close(2)
sys.stdout = sys.stderr = None
with unbroken.Run({str(tmp_path / "run")!r}) as run:
    for step in run.steps(3):
        pass
"""
    assert finish(child(code))[0] == 0


def test_nothing_is_imported_that_is_not_needed(tmp_path):
    code = f"""
import sys
had = set(sys.modules)
import unbroken
with unbroken.Run({str(tmp_path / "run")!r}) as run:
    run.attach(x={{"a": 1}})
    for step in run.steps(2):
        run.log(loss=1.5)
new = set(sys.modules) - had
print("torch" in new, "numpy" in new, sorted(m for m in new if "pickle" in m))
"""
    assert finish(child(code))[:2] == (0, "False False []\n")


def test_a_generator_of_a_library_that_is_imported_later_is_handed_over():
    import numpy
    import torch

    from unbroken._state.generators import GlobalGenerators

    numpy.random.seed(7), torch.manual_seed(7)
    node = json.dumps(GlobalGenerators().capture())
    code = """
import json, sys
from unbroken._state.generators import GlobalGenerators
GlobalGenerators().restore(json.loads(sys.argv[1]))
assert "torch" not in sys.modules and "numpy.random" not in sys.modules
import numpy, torch
print(numpy.random.random(), torch.rand(1).item())
"""
    want = f"{numpy.random.random()} {torch.rand(1).item()}\n"
    assert finish(child(code, node))[:2] == (0, want)


def test_global_generators_are_kept_for_their_library(monkeypatch):
    """The same in one process, by taking the library away."""
    import sys

    import numpy
    import torch

    from unbroken._state.generators import GlobalGenerators

    numpy.random.seed(3), torch.manual_seed(3), random.seed(3)
    node = GlobalGenerators().capture()
    want = numpy.random.random(), torch.rand(1).item(), random.random()
    taken = {name: sys.modules[name] for name in ("numpy.random", "torch")}
    for name in taken:
        monkeypatch.delitem(sys.modules, name)
    generators = GlobalGenerators()
    generators.restore(node)
    assert random.random() == want[2]
    kept = dict(generators.capture()["dict"])
    assert kept["numpy"] == dict(node["dict"])["numpy"] and kept["torch"] == dict(node["dict"])["torch"]
    monkeypatch.undo()
    generators.hand_over()
    generators.close()
    assert (numpy.random.random(), torch.rand(1).item()) == want[:2]
