"""What the race makes of its times, with numbers that are known."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from race import figures, machine, state, transfers, turns  # noqa: E402


def test_turns_go_forth_and_back():
    assert [figures.turns("ABC", i) for i in range(3)] == [list("ABC"), list("CBA"), list("ABC")]


def test_a_ratio_is_of_each_round_and_not_of_the_medians():
    ratio = figures.ratio([1, 20, 3], [2, 10, 30])
    assert ratio["median"] == pytest.approx(0.5), "of 0.5, 2 and 0.1; the medians' would be 0.3"
    assert ratio["ci95"] == pytest.approx([0.1, 2])
    with pytest.raises(ValueError):
        figures.ratio([1, 2], [1])


def test_an_interval_holds_the_median_and_narrows():
    assert figures.interval([7]) == [7, 7]
    few, many = figures.interval([1, 2, 3, 4, 50]), figures.interval([1, 2, 3, 4, 50] * 20)
    assert few[0] <= 3 <= few[1] and many[1] - many[0] < few[1] - few[0]


def test_every_second_of_the_clock_is_in_one_place():
    assert figures.spent([["a", 1.0], ["b", 2.0], ["a", 3.0]], 10.0) == {"a": 4.0, "b": 2.0, "between": 4.0}


def test_shapes_have_the_bytes_that_were_asked_for():
    assert sum(state.sizes("large", 64)) == pytest.approx(64 << 20, rel=1e-4) and len(state.sizes("large", 64)) == 300
    assert state.sizes("small", 2048) == [20480] * 10_000, "no more than these, however large the state is"
    assert sum(state.sizes("small", 8)) <= 8 << 20
    assert len(state.sizes("100000", 64)) == 100_000


def test_groups_hold_as_many_as_memory_does_and_ours_in_each():
    names, ours = ["unbroken", "a", "b", "c"], "unbroken"
    assert turns.groups(names, 1 << 30, 1 << 40) == [names]
    assert turns.groups(names, 2 << 30, 20 << 30) == [[ours, "a"], [ours, "b"], [ours, "c"]]
    assert turns.groups(["a", "b"], 1 << 30, 0) == [["a"], ["b"]]


def test_a_save_that_lies_about_its_sync_is_found_out(tmp_path):
    """What others promise is compared with the kernel's word on the pages of their files."""
    (tmp_path / "state").write_bytes(b"x" * (1 << 20))
    left = machine.unsynced_bytes(tmp_path)
    if left is None:
        pytest.skip("this kernel has no cachestat")
    machine.sync_tree(tmp_path)
    assert machine.unsynced_bytes(tmp_path) == 0
    if left == 0:
        pytest.skip("this file system has no pages that wait")
    assert left == 1 << 20
    assert transfers.durability("itself", [0, left], 1 << 20) == "not durable"
    assert transfers.durability("itself", [0, 4096], 1 << 20) == "itself", "a log beside it may wait"
    assert transfers.durability("us", [None], 1 << 20) == "us"
    assert transfers.durability("nobody", [None], 1 << 20) == "not durable"


def test_digests_find_a_tensor_that_is_another_one():
    torch = pytest.importorskip("torch")
    saved = state.tensors([4096, 4096])
    same = {"model": [tensor.clone() for tensor in saved.values()], "rng": {"more": torch.zeros(3)}}
    assert not state.digests(saved) - state.digests(same)
    same["model"][1][7] += 1
    assert (state.digests(saved) - state.digests(same)).total() == 1
