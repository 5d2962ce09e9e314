"""What is removed, moved or replaced under a living run: no save is acknowledged that no start could use; training goes on."""

import os
import shutil
import sys

import numpy
import pytest
import unbroken

pytestmark = pytest.mark.skipif(sys.modules["unbroken._core"].__name__ == "fake_core", reason="needs the native core")


def slots(path):
    return sorted((path / "journal").glob("0*"))


def remove_older_slots(path):
    for slot in slots(path)[:-1]:
        slot.unlink()


def remove_first_slot(path):
    slots(path)[0].unlink()


def remove_journal(path):
    shutil.rmtree(path / "journal")


def remove_all(path):
    shutil.rmtree(path)


def move(path):
    path.rename(path.with_name("moved"))


def replace(path):
    move(path)
    train(path, 2)


def replace_journal(path):
    other = path.with_name("other")
    train(other, 12)
    shutil.rmtree(path / "journal")
    shutil.copytree(other / "journal", path / "journal")


def train(path, number, at=None, act=None, **options):
    """The run, and the steps that were done."""
    w, done = numpy.zeros(300), []
    with unbroken.Run(path, every=1, **options) as run:
        run.attach(w=w)
        try:
            for step in run.steps(number):
                run.drain()
                w += 1
                done.append(step)
                if step == at:
                    act(path)
        except unbroken.Error as error:
            error.run, error.done = run, done
            raise
    return run


@pytest.mark.parametrize(
    "act", [remove_older_slots, remove_first_slot, remove_journal, remove_all, move, replace, replace_journal]
)
def test_a_journal_that_goes_away_is_said_and_training_goes_on(run_dir, capsys, act):
    with pytest.raises(unbroken.Error) as raised:
        train(run_dir, 10, at=4, act=act)
    error = raised.value
    assert error.done == list(range(10))
    assert error.exit_code in (66, 74)
    assert str(run_dir) in error.next_command or str(run_dir) in str(error)
    assert error.run.health["state"] == "red"
    assert error.run.health["saves_failed"] >= 4
    assert error.run.newest == "4.a1"
    err = capsys.readouterr().err
    assert err.count("training goes on") >= 4
    assert f"no start can go on from what is left there; next: " in err


@pytest.mark.parametrize("act", [remove_older_slots, move])
def test_it_is_raised_at_once_where_failed_saves_are(run_dir, act):
    with pytest.raises(unbroken.Error) as raised:
        train(run_dir, 10, at=4, act=act, on_save_error="raise")
    assert raised.value.done[-1] < 9


def test_what_was_lost_before_the_last_save_is_read_back_fails_the_end(run_dir):
    w = numpy.zeros(300)
    with pytest.raises(unbroken.Error) as raised, unbroken.Run(run_dir, every=1) as run:
        run.attach(w=w)
        for _ in run.steps(3):
            w += 1
        run.drain()
        remove_first_slot(run_dir)
        run.save(tag="kept")
    assert raised.value.exit_code == 66


def test_what_a_start_can_do_without_may_go(run_dir):
    def act(path):
        shutil.rmtree(path / "metrics", ignore_errors=True)
        (path / "hint").unlink(missing_ok=True)
        for folder in sorted((path / "data").iterdir())[:-1]:
            shutil.rmtree(folder)

    run = train(run_dir, 10, at=4, act=act)
    assert run.newest == "10.a1" and run.health["state"] == "green"
    assert unbroken.load(run_dir).name == "10.a1"


def test_data_that_goes_away_before_it_is_read_back_is_seen(run_dir):
    def act(path):
        shutil.rmtree(path / "data")

    run = train(run_dir, 6, at=4, act=act)
    assert run.newest == "6.a1" and os.listdir(run_dir / "data")
    assert unbroken.load(run_dir).name == "6.a1"
