"""A script that attaches less than the checkpoint holds: refused before anything is written, or with what is true then."""

import numpy
import pytest

import unbroken.torch
from unbroken import StateMismatch


def life(path, steps, names="abc", late="", change=lambda step, made: None, **more):
    """One life with an array for each name; those of `late` are attached in the first body."""
    made = {name: numpy.zeros(3) for name in [*names, *late]}
    with unbroken.Run(path, every=1, **more) as run:
        run.attach(**{name: made[name] for name in names})
        left = list(late)
        for step in run.steps(steps):
            run.attach(**{name: made[name] for name in left})
            left = []
            for value in made.values():
                value += step
            change(step, made)
    return made


def everything(path):
    return {p.relative_to(path): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("names, late", [("ab", ""), ("a", ""), ("ad", ""), ("a", "b")])
def test_nothing_is_written_and_nobody_is_fenced(run_dir, names, late):
    with unbroken.Run(run_dir, every=1) as older:
        made = {name: numpy.zeros(3) for name in "abc"}
        older.attach(**made)
        for step in older.steps(3):
            made["a"] += step
        older.drain()
        before, mine = everything(run_dir), {name: numpy.full(3, 7.0) for name in names}
        with unbroken.Run(run_dir, every=1) as run:
            run.attach(**mine)
            with pytest.raises(StateMismatch) as caught:
                for _ in run.steps(5):
                    run.attach(**{name: numpy.zeros(3) for name in late})
        assert caught.value.unread == sorted(set("abc") - set(names)) and not caught.value.live_is_undefined
        assert caught.value.missing == sorted(set(names) - set("abc"))  # all that differs, at once
        assert all((value == 7).all() for value in mine.values()) and everything(run_dir) == before
        for step in older.steps(5):
            made["a"] += step
    assert unbroken.load(run_dir).name == "5.a1"
    assert (life(run_dir, 6)["a"] == 15).all()


def test_what_was_attached_late_may_be_late_again(run_dir):
    life(run_dir, 2, "a", "bc")
    assert (life(run_dir, 4, "a", "bc")["c"] == 6).all()
    assert (life(run_dir, 5, "abc")["c"] == 10).all()
    with pytest.raises(StateMismatch) as caught:
        life(run_dir, 6, "a", "bc")  # the life before attached them at once
    assert caught.value.unread == ["b", "c"] and unbroken.load(run_dir).attempt == 3
    assert (life(run_dir, 6, "a", "bc", unread=["b", "c"])["c"] == 15).all()


def test_everything_may_be_attached_in_the_first_body(run_dir):
    life(run_dir, 2)
    assert (life(run_dir, 4, "", "abc")["c"] == 6).all()


def test_what_is_late_and_does_not_come_is_refused_with_what_is_true_then(run_dir):
    life(run_dir, 2, "a", "b")
    with pytest.raises(StateMismatch) as caught:
        life(run_dir, 4, "a")
    assert caught.value.unread == ["b"] and "This attempt has begun" in str(caught.value)
    assert unbroken.load(run_dir).name == "2.a1"  # "it saved nothing"
    assert (life(run_dir, 4, "a", "b")["b"] == 6).all()  # "a script that attaches the rest goes on"


def test_a_save_does_not_lose_what_is_still_to_be_attached(run_dir):
    life(run_dir, 2, "ab")
    with unbroken.Run(run_dir) as run:
        run.attach(a=numpy.zeros(3))
        run.restore()
        with pytest.raises(StateMismatch, match="nothing was attached for"):
            run.save()
        assert run.newest == "2.a1"
        run.attach(b=numpy.zeros(3))
        run.save()
    assert set("ab") <= set(unbroken.load(run_dir))


def test_a_second_phase_brings_its_loader_late(run_dir):
    def phases(*ends):
        with unbroken.Run(run_dir, every=1) as run:
            run.attach(a=numpy.zeros(3))
            loaders = [unbroken.torch.DataLoader([1.0, 2.0, 3.0], batch_size=1, shuffle=True) for _ in ends]
            return [int(step) for n, loader in zip(ends, loaders) for step, _ in run.steps(n, loader)]

    assert phases(2, 4) == [0, 1, 2, 3]
    assert phases(2, 6) == [4, 5]
