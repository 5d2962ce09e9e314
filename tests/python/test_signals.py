"""SIGTERM: who hears it, what it comes to, and what is there afterwards."""

import os
import signal
import threading

import pytest

import unbroken
from helpers import FULL, child, finish, life
from unbroken import Interrupted, Misconfigured
from unbroken._process import ending, signals

TERM = signal.SIGTERM


def terminate():
    os.kill(os.getpid(), TERM)


@pytest.fixture(params=["default", "ignored", "python"])
def before(request):
    """The handler that is there before any run."""
    handler = {"default": signal.SIG_DFL, "ignored": signal.SIG_IGN, "python": lambda *_: None}[request.param]
    outer = signal.signal(TERM, handler)
    yield handler
    signal.signal(TERM, outer)


def in_child(check) -> bool:
    """What check() says in a forked child."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if check() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.failure("Lightning-AI/pytorch-lightning#20542")
def test_sigterm_finishes_the_step_saves_it_and_interrupts(run_dir):
    before = signal.getsignal(signal.SIGTERM)

    def body(run, step):
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        run.state["k"] = step

    seen = []
    with pytest.raises(Interrupted) as caught:
        life(run_dir, 9, lambda run, step: (seen.append(step), body(run, step)))
    assert seen == [0, 1, 2, 3]
    assert caught.value.code == 75 and caught.value.exit_code == 75
    assert signal.getsignal(signal.SIGTERM) is before
    with unbroken.Run(run_dir) as run:
        assert run.restore() == 4 and run.state["k"] == 3


def test_sigterm_whose_save_fails_is_76(run_dir, fake):
    def body(run, step):
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            fake.Session.fail_saves = [FULL]

    with pytest.raises(Interrupted) as caught:
        life(run_dir, 9, body)
    assert caught.value.code == 76


def test_sigterm_after_the_last_boundary_is_obeyed_at_the_end(run_dir):
    with pytest.raises(Interrupted) as caught, unbroken.Run(run_dir) as run:
        for _ in run.steps(3):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 75


def test_a_second_sigterm_goes_to_the_previous_handler(run_dir):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with pytest.raises(Interrupted), unbroken.Run(run_dir) as run:
            for _ in run.steps(3):
                os.kill(os.getpid(), signal.SIGTERM)
                assert heard == []
                os.kill(os.getpid(), signal.SIGTERM)
                assert heard == [1]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_of_somebody_else_is_left_alone(run_dir):
    before = signal.getsignal(signal.SIGTERM)
    other = lambda *_: None  # noqa: E731
    try:
        with unbroken.Run(run_dir) as run:
            run.restore()
            signal.signal(signal.SIGTERM, other)
        assert signal.getsignal(signal.SIGTERM) is other
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_is_told_that_signals_are_not_watched(run_dir, capsys):
    thread = threading.Thread(target=life, args=(run_dir, 2))
    thread.start()
    thread.join()
    assert "signals cannot be watched" in capsys.readouterr().err


@pytest.mark.failure("GaTech-RL2/EgoVerse#621")
def test_a_forked_child_is_inert(run_dir, before):
    with unbroken.Run(run_dir) as run:
        for _ in run.steps(2):
            pass

        def check():
            run.log(x=1)
            run.close()
            run.drain()
            with pytest.raises(Misconfigured, match="forked"):
                run.save()
            return signal.getsignal(TERM) is before

        assert in_child(check)
        run.save()


def test_a_child_of_two_open_runs_has_the_handler_from_before_both(tmp_path, before):
    with unbroken.Run(tmp_path / "a") as a, unbroken.Run(tmp_path / "b") as b:
        a.restore(), b.restore()
        for _ in range(5):
            assert in_child(lambda: signal.getsignal(TERM) is before)
        assert signal.getsignal(TERM) is not before


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]])
def test_the_last_run_that_closes_puts_the_handler_back(tmp_path, before, order):
    runs = [unbroken.Run(tmp_path / str(i)) for i in range(3)]
    for i in order:
        assert signal.getsignal(TERM) is not before
        runs[i].close()
    assert signal.getsignal(TERM) is before


def test_every_open_run_hears_it_and_one_that_is_opened_then_too(tmp_path, before):
    with unbroken.Run(tmp_path / "a") as a:
        with pytest.raises(Interrupted), unbroken.Run(tmp_path / "b") as b:
            terminate()
            b.restore()
        with pytest.raises(Interrupted), unbroken.Run(tmp_path / "c") as c:
            c.restore()
        with pytest.raises(Interrupted):
            a.restore()
    with unbroken.Run(tmp_path / "d") as d:
        d.restore()


def test_a_run_that_is_dropped_leaves_no_handler(run_dir, before):
    run = unbroken.Run(run_dir)
    del run
    assert signal.getsignal(TERM) is before


def test_a_run_that_is_collected_while_another_begins_takes_nothing_away(run_dir, before, monkeypatch):
    install = signals._install
    monkeypatch.setattr(signals, "_install", lambda: (install(), signals._put_back()))
    with unbroken.Run(run_dir):
        assert signal.getsignal(TERM) is not before


def test_a_handler_that_calls_ours_ends_in_the_one_before(run_dir):
    code = """
import os, signal, unbroken
signal.signal(signal.SIGTERM, signal.SIG_DFL)
with unbroken.Run(sys.argv[1]) as first:
    ours = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *a: (print("theirs", flush=True), ours(*a)))
with unbroken.Run(sys.argv[1]) as second:
    second.restore()
    os.kill(os.getpid(), signal.SIGTERM)
    print("heard", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
"""
    assert finish(child(code, run_dir))[:2] == (-TERM, "heard\ntheirs\n")


def test_ours_put_back_by_somebody_else_is_found(run_dir, before):
    with unbroken.Run(run_dir):
        ours = signal.signal(TERM, lambda *_: None)
    signal.signal(TERM, ours)
    if before is not signal.SIG_DFL:
        terminate()
    with unbroken.Run(run_dir):
        pass
    assert signal.getsignal(TERM) is before


def test_a_run_of_another_thread_is_told_where_one_of_the_main_thread_is_open(tmp_path, before):
    """Its close cannot put the handler back; the next one of the main thread does."""
    seen, go, going = [], threading.Event(), threading.Event()

    def work():
        with unbroken.Run(tmp_path / "b") as b:
            going.set()
            go.wait(60)
            try:
                b.restore()
            except Interrupted as stop:
                seen.append(stop.code)

    with pytest.raises(Interrupted), unbroken.Run(tmp_path / "a"):
        thread = threading.Thread(target=work)
        thread.start()
        assert going.wait(60)
        terminate()
    go.set()
    thread.join()
    assert seen == [75]
    signals._put_back()
    assert signal.getsignal(TERM) is before
    ending._status = None  # this process goes on although a thread of it was stopped


# -- what it comes to


@pytest.mark.failure("goodfire-ai/spd#677", "skypilot-org/skypilot#1610")
def test_between_the_construction_and_the_first_step_nothing_is_lost(run_dir, before, capsys):
    for began in (0, 3):
        with pytest.raises(Interrupted) as caught, unbroken.Run(run_dir) as run:
            terminate()
            for _ in run.steps(9):
                pytest.fail("a step was begun")
        assert caught.value.code == 75
        lines = [line for line in capsys.readouterr().err.splitlines() if "SIGTERM" in line]
        assert len(lines) == 1 and "nothing is lost" in lines[0]
        if began == 0:
            life(run_dir, 3)
    with unbroken.Run(run_dir) as run:
        assert run.restore() == 3


@pytest.mark.failure("goodfire-ai/spd#677")
def test_during_the_restore_nothing_is_lost(run_dir, before, capsys):
    life(run_dir, 3)
    with pytest.raises(Interrupted) as caught, unbroken.Run(run_dir) as run:
        session = run._session

        class Restoring:
            def __getattr__(self, name):
                if name == "restore":
                    terminate()
                return getattr(session, name)

        run._session = Restoring()
        run.restore()
    assert caught.value.code == 75 and "after step 3" in caught.value.message
    assert "3.a1 stands and nothing is lost" in capsys.readouterr().err


def test_of_a_finished_run_nothing_is_lost(run_dir, before):
    """What is durable is of an earlier life."""
    life(run_dir, 3)
    with pytest.raises(Interrupted) as caught, unbroken.Run(run_dir) as run:
        assert list(run.steps(3)) == []
        terminate()
    assert caught.value.code == 75


def test_after_a_boundary_that_saved_nothing_it_is_saved_at_the_end(run_dir, before):
    with pytest.raises(Interrupted) as caught, unbroken.Run(run_dir, every=1000) as run:
        run.restore()
        for _ in range(5):
            run.step()
        terminate()
    assert caught.value.code == 75
    with unbroken.Run(run_dir) as run:
        assert run.restore() == 5


def test_in_a_body_that_never_completes_its_step_is_lost(run_dir, before, capsys):
    with pytest.raises(Interrupted) as caught, unbroken.Run(run_dir) as run:
        for step in run.steps(9):
            if step == 3:
                terminate()
                break
    assert caught.value.code == 76
    assert capsys.readouterr().err.count("a step that was begun is lost") == 1
