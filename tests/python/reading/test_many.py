"""Many tensors at once: what simply fits is taken together, and the odd ones among them get their closer look."""

import numpy
import pytest
import torch
import unbroken

COUNT = 10_000


def filled(tensor, seed):
    """Other bytes for each."""
    return tensor.copy_(torch.arange(tensor.numel()).view(tensor.shape) % 89 + seed % 97) if tensor.numel() else tensor


def table(seed):
    """Of mixed shapes and dtypes; every so often an odd one. `seed` 0: nothing is in them yet."""
    kinds, memory, out = (torch.float32, torch.int64, torch.bfloat16, torch.bool), torch.zeros(4 * COUNT), {}
    for i in range(COUNT):
        tensor = torch.zeros((i % 7, 3) if i % 5 else (i % 4,), dtype=kinds[i % 4])  # of some there is nothing
        if i % 1000 == 17:
            tensor = torch.zeros(4, 6)[:, 1:3]  # in pieces
        elif i % 100 == 31:
            tensor = memory[4 * i : 4 * i + 4]  # beside others in one memory
        elif i % 1000 == 57:
            tensor = torch.zeros(3, dtype=torch.complex64).conj()
        elif i % 1000 == 77:
            tensor = out[f"t{i - 71}"]  # tied
        out[f"t{i}"] = tensor
    if seed:
        for i, tensor in enumerate(dict.fromkeys(out.values())):
            filled(tensor, seed + i)
    return out


def save(tmp_path, **state):
    unbroken.save(state, tmp_path / "run")
    return tmp_path / "run"


def test_the_odd_ones_among_many_come_back_too(tmp_path):
    saved, live = table(1), table(0)
    at = {name: tensor.data_ptr() for name, tensor in live.items()}
    path, ids = save(tmp_path, table=saved), list(map(id, live.values()))
    unbroken.load(path, into={"table": live})
    assert list(live) == list(saved) and list(map(id, live.values())) == ids
    assert {name: tensor.data_ptr() for name, tensor in live.items()} == at
    assert [name for name in saved if not torch.equal(live[name], saved[name])] == []
    loaded = unbroken.load(path)["table"]
    assert [name for name in saved if not torch.equal(loaded[name], saved[name])] == []
    assert loaded["t77"] is loaded["t6"]


def as_double(live):
    live["t5000"] = torch.zeros(live["t5000"].shape, dtype=torch.float64)
    return "t5000", "F32[0]", "F64[0]"


def as_longer(live):
    live["t5002"] = torch.zeros(9, 3, dtype=torch.bfloat16)
    return "t5002", "BF16[4,3]", "BF16[9,3]"


def as_another_type(live):
    live["t5003"] = numpy.zeros((5, 3), bool)
    return "t5003", "torch tensor BOOL[5,3]", "numpy array BOOL[5,3]"


def as_tied(live):
    live["t5031"] = live["t5131"]
    return "t5131", "F32[4] of its own", "F32[4] tied to table.t5031"


def as_untied(live):
    live["t5077"] = live["t5077"].clone()
    return "t5077", "BF16[1,3] tied to table.t5006", "BF16[1,3] of its own"


@pytest.mark.parametrize("change", [as_double, as_longer, as_another_type, as_tied, as_untied])
def test_the_one_among_many_that_does_not_fit_is_named_alone(tmp_path, change):
    path, live = save(tmp_path, table=table(1)), table(0)
    name, saved, here = change(live)
    with pytest.raises(unbroken.StateMismatch) as caught:
        unbroken.load(path, into={"table": live})
    assert caught.value.changed == [(f"table.{name}", saved, here)]
    assert not any(tensor.any() for tensor in live.values())


def test_a_key_that_is_missing_among_many_is_named_alone(tmp_path):
    path, live = save(tmp_path, table=table(1)), table(0)
    live["other"] = live.pop("t5002")
    with pytest.raises(unbroken.StateMismatch) as caught:
        unbroken.load(path, into={"table": live})
    assert (caught.value.missing, caught.value.unread) == (["table.other"], ["table.t5002"])


def training(steps):
    torch.manual_seed(steps)
    model = torch.nn.ModuleList(torch.nn.Linear(2, 3) for _ in range(200))
    model[150].weight = model[50].weight
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        sum(part(torch.ones(1, 2)).sum() for part in model).backward()
        optimizer.step()
    return {"model": model, "optimizer": optimizer}


def slots(optimizer):
    return [state for group in optimizer.param_groups for state in map(optimizer.state.get, group["params"])]


@pytest.mark.parametrize("steps", [0, 1])
def test_the_state_of_an_optimizer_comes_back_into_its_place_or_anew(tmp_path, steps):
    saved, live = training(3), training(steps)
    path, before = save(tmp_path, **saved), slots(live["optimizer"])
    unbroken.load(path, into=live)
    found = slots(live["optimizer"])
    for was, own, want in zip(before, found, slots(saved["optimizer"]), strict=True):
        assert list(own) == list(want) and all(torch.equal(own[key], want[key]) for key in want)
        assert not was or all(own[key] is was[key] for key in was)
    assert all(torch.equal(a, b) for a, b in zip(live["model"].parameters(), saved["model"].parameters(), strict=True))


def test_the_slot_that_does_not_fit_is_named_alone(tmp_path):
    path, live = save(tmp_path, **training(3)), training(1)
    parameter = live["model"][120].bias
    live["optimizer"].state[parameter]["exp_avg"] = torch.zeros(3, dtype=torch.float64)
    with pytest.raises(unbroken.StateMismatch) as caught:
        unbroken.load(path, into=live)
    assert caught.value.changed == [("optimizer.state.120.bias.exp_avg", "F32[3]", "F64[3]")]
