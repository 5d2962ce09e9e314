"""Damage that `load` and init_from= meet: what they say of it, and what is true of the live objects then."""

import numpy
import pytest

import unbroken
from unbroken import CorruptCheckpoint, Misconfigured, NothingToResume


@pytest.fixture
def trained(run_dir):
    weights = numpy.zeros(500)
    with unbroken.Run(run_dir, every=1, keep_last=9) as run:
        run.attach(weights=weights)
        for step in run.steps(6):
            weights[:] = step
            run.save()
    return run_dir


def damage(run, pattern="*", kind="*.safetensors"):
    shards = sorted(run.glob(f"data/step-{pattern}/{kind}"))
    assert shards
    for shard in shards:
        content = bytearray(shard.read_bytes())
        content[-3] ^= 1
        shard.write_bytes(content)


@pytest.mark.parametrize("kind", ["*.safetensors", "manifest-*"])
def test_the_newest_names_all_that_it_passed_over(trained, kind):
    damage(trained, kind=kind)
    with pytest.raises(CorruptCheckpoint) as caught:
        unbroken.load(trained)
    first = str(caught.value).splitlines()[0]
    assert "can be loaded: 6.a1, 5.a1, 4.a1, 3.a1 and 2 more are damaged (6.a1: data/" in first
    assert first.endswith(", and none is left") and caught.value.next_command == f"unbroken doctor {trained}"
    assert not caught.value.live_is_undefined


def test_a_start_names_all_that_it_put_aside(trained):
    damage(trained)
    with pytest.raises(NothingToResume) as caught, unbroken.Run(trained) as run:
        run.attach(weights=numpy.zeros(500))
        run.restore()
    assert "6.a1, 5.a1, 4.a1, 3.a1 and 2 more are damaged (6.a1: " in str(caught.value)
    assert caught.value.live_is_undefined and "undefined: start this program again" in str(caught.value)


@pytest.mark.parametrize("at, kind", [("newest", "doctor"), (6, "verify")])
def test_into_knows_that_there_is_no_run_to_start_again(trained, at, kind):
    damage(trained)
    with pytest.raises(CorruptCheckpoint) as caught:
        unbroken.load(trained, into={"weights": numpy.zeros(500)}, at=at)
    assert caught.value.live_is_undefined
    says = str(caught.value).splitlines()[-1]
    assert says.endswith("is undefined: load another checkpoint into them, or make them anew")
    assert str(caught.value).count("undefined") == 1 and "program" not in says
    assert caught.value.next_command.startswith(f"unbroken {kind} {trained}")


def test_what_was_left_undefined_takes_another_checkpoint(trained):
    damage(trained, "*6.a*")
    weights = numpy.zeros(500)
    with pytest.raises(CorruptCheckpoint):
        unbroken.load(trained, into={"weights": weights}, at=6)
    assert unbroken.load(trained, into={"weights": weights}, at=5).name == "5.a1" and (weights == 4).all()


def test_init_from_says_which_checkpoint_to_change(trained, tmp_path):
    damage(trained)
    new, weights = tmp_path / "new", numpy.zeros(500)
    with unbroken.Run(new, init_from=f"{trained}@6.a1") as run:
        run.attach(weights=weights)
        with pytest.raises(CorruptCheckpoint) as caught:
            run.restore()
        assert "this run takes no more steps. Where that checkpoint is damaged, name another in init_from=" in str(caught.value)
        assert caught.value.next_command == f"unbroken verify {trained}"
        with pytest.raises(Misconfigured, match="undefined"):
            run.restore()
    with unbroken.Run(new, init_from=f"{trained}") as run:
        run.attach(weights=weights)
        with pytest.raises(CorruptCheckpoint, match="6.a1, 5.a1, 4.a1, 3.a1 and 2 more are damaged"):
            run.restore()


def test_init_from_takes_a_run_of_damaged_checkpoints_for_no_new_one(trained, tmp_path):
    with unbroken.Run(tmp_path / "other") as run:
        run.attach(weights=numpy.zeros(500))
        for _ in run.steps(1):
            pass
    damage(trained, kind="manifest-*")
    with pytest.raises(CorruptCheckpoint, match="6.a1"):
        unbroken.Run(trained, init_from=str(tmp_path / "other"))
