"""keep_best, keep_every, tags, resume= in all forms, and what becomes of an abandoned lineage."""

import sys
from pathlib import Path

import numpy as np
import pytest
import unbroken
from helpers import stops_at
from unbroken import CorruptCheckpoint, Misconfigured, NothingToResume

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from program import unbroken_json

LOSSES = [5.0, 3.0, 4.0, float("nan"), 1.0, 2.0, 2.5, 7.0]


def score(run, step):
    run.log(loss=LOSSES[step])


def entries(path):
    return {c["name"]: c for c in unbroken_json("ls", path)[1]["checkpoints"]}


def kept(path):
    return {name: c["kept_by"] for name, c in entries(path).items()}


def train(path, steps=8, body=score, **more):
    w = np.zeros(3)

    with unbroken.Run(path, **{"keep_last": 1, **more}) as run:
        run.attach(w=w)
        for step in run.steps(steps):
            run.drain()  # a save in flight would make the next one that is due be skipped
            w += 1
            body(run, step)


@pytest.mark.failure("huggingface/transformers#11748")
def test_a_new_best_is_saved_whatever_every_says(run_dir):
    train(run_dir, every=1000, keep_last=5, keep_best=("loss", "min"))
    assert list(entries(run_dir)) == ["8.a1", "5.a1", "2.a1", "1.a1"]
    assert "best:loss" in kept(run_dir)["5.a1"]
    assert unbroken.load(run_dir, at="best:loss").step == 5


def test_the_greatest_can_be_best(run_dir):
    train(run_dir, every=1000, keep_best=("loss", "max"))
    assert unbroken.load(run_dir, at="best:loss").step == 8


@pytest.mark.failure("Lightning-AI/pytorch-lightning#21106")
def test_a_metric_belongs_to_the_boundary_that_ends_its_body(run_dir):
    train(run_dir, every=1000, keep_best=("loss", "min"))
    assert entries(run_dir)["5.a1"]["metrics"]["loss"] == 1.0
    assert unbroken.load(run_dir, at="best:loss")["w"].tolist() == [5, 5, 5]


@pytest.mark.failure("Lightning-AI/pytorch-lightning#21106")
def test_a_step_that_logs_no_metric_is_no_best(run_dir):
    train(run_dir, every=1000, keep_best=("val", "min"), body=lambda run, step: run.log(val=step) if step == 3 else None)
    assert unbroken.load(run_dir, at="best:val").step == 4


def test_a_metric_among_many_is_never_dropped(run_dir):
    def many(run, step):
        run.log(**{f"a{i}": 0.1 * i for i in range(200)}, zloss=LOSSES[step])

    train(run_dir, every=1000, keep_best=("zloss", "min"), body=many)
    assert unbroken.load(run_dir, at="best:zloss").step == 5


def test_keep_every_saves_and_keeps(run_dir):
    train(run_dir, every=1000, keep_every=3)
    assert kept(run_dir) == {"8.a1": ["last"], "6.a1": ["every:3"], "3.a1": ["every:3"]}


@pytest.mark.parametrize("every", ["auto", 2, "1h"])
def test_keep_every_goes_with_every(run_dir, every):
    train(run_dir, every=every, keep_every=4)
    assert {"4.a1", "8.a1"} <= set(entries(run_dir))


def test_a_tag_keeps(run_dir):
    def tagging(run, step):
        if step in (1, 2):
            run.save(tag=f"at-{step}", wait=False)
            run.save(tag="both")

    train(run_dir, every=1, body=tagging)
    assert entries(run_dir)["2.a1"]["tags"] == ["at-1", "both"]
    assert kept(run_dir)["3.a1"] == ["tag:at-2", "tag:both"]
    assert unbroken.load(run_dir, at="tag:both").step == 3
    with pytest.raises(NothingToResume, match="at-1, at-2, both"):
        unbroken.load(run_dir, at="tag:none")


def test_a_step_that_is_saved_can_be_tagged(run_dir):
    with unbroken.Run(run_dir, every=1, keep_last=1) as run:
        run.attach(w=np.zeros(3))
        for _ in run.steps(3):
            pass
        saving = run.save(tag="final")
        assert saving.durable.result() == "3.a1"
        assert entries(run_dir)["3.a1"]["tags"] == ["final"]


@pytest.mark.parametrize("tag", ["", "a b", "x" * 65, "a:b", "\u00e9", 1, "a\n"])
def test_a_tag_is_a_plain_name(run_dir, tag):
    with unbroken.Run(run_dir) as run:
        run.attach(w=np.zeros(3))
        for _ in run.steps(1):
            with pytest.raises(Misconfigured, match="tag="):
                run.save(tag=tag)


def test_a_tag_of_a_body_that_breaks_is_forgotten(run_dir):
    with unbroken.Run(run_dir, every=1) as run:
        run.attach(w=np.zeros(3))
        for _ in run.steps(3):
            run.save(tag="never", wait=False)
            break
    train(run_dir)
    assert all(not c["tags"] for c in entries(run_dir).values())


@pytest.mark.parametrize("at, step", [("best:loss", 5), ("tag:two", 2), (3, 3), ("3.a1", 3), ("newest", 8)])
@pytest.mark.failure("Lightning-AI/pytorch-lightning#19189", "facebookresearch/mmf#144")
def test_resume_in_every_form(run_dir, at, step):
    train(run_dir, every=1, keep_last=9, keep_best=("loss", "min"),
          body=lambda run, step: (score(run, step), run.save(tag="two" if step == 1 else None)))  # fmt: skip
    with unbroken.Run(run_dir, keep_last=9, resume=at) as run:
        w = np.zeros(3)
        run.attach(w=w)
        assert run.restore() == step and w.tolist() == [step] * 3


def test_a_run_knows_the_mode_that_it_is_told(run_dir):
    train(run_dir, every=1, keep_last=9)
    with pytest.raises(NothingToResume, match="keep_best"):
        unbroken.load(run_dir, at="best:loss")
    with unbroken.Run(run_dir, keep_last=9, keep_best=("loss", "min"), resume="best:loss") as run:
        run.attach(w=np.zeros(3))
        assert run.restore() == 5


def test_a_resume_from_an_older_one_is_carried_out_once(run_dir, capsys):
    train(run_dir, every=1, keep_last=9)
    with stops_at(5):
        train(run_dir, every=1, keep_last=9, resume=3)
    assert list(entries(run_dir)) == ["5.a2", "4.a2", *(f"{i}.a1" for i in range(8, 0, -1))]
    lineage = {name for name, c in entries(run_dir).items() if c["lineage"]}
    assert lineage == {"5.a2", "4.a2", "3.a1", "2.a1", "1.a1"}
    capsys.readouterr()
    with unbroken.Run(run_dir, every=1, keep_last=9, resume=3) as run:
        run.attach(w=np.zeros(3))
        assert run.restore() == 5
    assert "carried out by an earlier attempt" in capsys.readouterr().err


def test_abandoned_ones_go_once_the_new_lineage_has_enough(run_dir):
    train(run_dir, every=1, keep_last=3, keep_best=("loss", "min"),
          body=lambda run, step: (score(run, step), run.save(tag="t" if step == 6 else None)))  # fmt: skip
    assert set(entries(run_dir)) == {"8.a1", "7.a1", "6.a1", "5.a1"}
    with stops_at(8):
        train(run_dir, every=1, keep_last=3, keep_best=("loss", "min"), resume=6, body=lambda run, step: None)
    assert {"8.a1", "7.a1", "6.a1"} <= set(entries(run_dir)), "the new lineage has two of its own and its begin"
    train(run_dir, 10, every=1, keep_last=3, keep_best=("loss", "min"), body=lambda run, step: None)
    assert set(entries(run_dir)) == {"10.a3", "9.a3", "8.a2", "7.a1", "5.a1"}
    assert kept(run_dir)["7.a1"] == ["tag:t"] and not entries(run_dir)["7.a1"]["lineage"]
    assert kept(run_dir)["5.a1"] == ["best:loss"]


def test_a_damaged_best_that_was_named_is_no_reason_to_take_another(run_dir):
    train(run_dir, every=1, keep_last=9, keep_best=("loss", "min"))
    shard = next((run_dir / "data").glob("step-*5.a0001.t0/shard-*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CorruptCheckpoint, match="5.a1"):
        train(run_dir, keep_last=9, resume="best:loss")
