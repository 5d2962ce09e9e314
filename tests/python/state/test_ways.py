"""Ways out of a mismatch: each permits what it names, says it in a line, and leaves everything else strict."""

import numpy
import pytest
import torch
from torch import nn

import unbroken
from helpers import bits
from unbroken import Misconfigured, StateMismatch
from unbroken._state.permits.ways import Globs


class Net(nn.Module):
    def __init__(self, head="head", width=2, dtype=torch.float32):
        super().__init__()
        self.body = nn.Linear(3, 3, dtype=dtype)
        self.add_module(head, nn.Linear(3, width, dtype=dtype))


def made(seed, **more):
    torch.manual_seed(seed)
    model = Net(**more)
    return {"model": model, "optimizer": torch.optim.Adam(model.parameters(), 0.1)}


def life(path, steps, parts, **ways):
    with unbroken.Run(path, **ways) as run:
        run.attach(**parts)
        for _ in run.steps(steps):
            model, optimizer = parts["model"], parts["optimizer"]
            optimizer.zero_grad()
            sum(p.float().pow(2).sum() for p in model.parameters()).backward()
            optimizer.step()
        return run


def restored(path, parts, **ways):
    with unbroken.Run(path, **ways) as run:
        run.attach(**parts)
        run.restore()
    return parts


#: what another script has, the ways out that its mismatch needs, and what of the model stays as the script made it
CASES = {
    "a new layer": ({"head": "head2"}, {"missing": "*head2*", "unread": ["*.head.*"]}, {"head2"}),
    "a head of another width": ({"width": 5}, {"unread": ["model.head.*", "optimizer.state.head.*"]}, {"head"}),
    "by the name of the part": ({"width": 5}, {"unread": ["model.head", "optimizer.state.head"]}, {"head"}),
    "another name": ({"head": "top"}, {"rename": {"model.head.*": "model.top.*"}}, set()),
    "another name of a part": ({"head": "top"}, {"rename": {"model.head": "model.top"}}, set()),
    "another dtype": ({"dtype": torch.float64}, {"cast": True}, set()),
    "narrower": ({"dtype": torch.bfloat16}, {"cast": ["model.*", "optimizer.*"]}, set()),
    "only a part": ({}, {"only": "model.body.*"}, {"head"}),
}


@pytest.mark.parametrize("name", CASES)
def test_it_permits_what_it_names(run_dir, capsys, name):
    other, ways, own = CASES[name]
    before = made(1)
    life(run_dir, 2, before)
    if "only" not in ways:
        with pytest.raises(StateMismatch, match="missing=, unread="):
            restored(run_dir, made(2, **other))
        for way in ways if len(ways) > 1 else ():
            with pytest.raises(StateMismatch):
                restored(run_dir, made(2, **other), **{k: v for k, v in ways.items() if k != way})
    capsys.readouterr()
    after, fresh = made(2, **other), made(2, **other)
    live = {name: tensor for name, tensor in after["model"].named_parameters()}
    restored(run_dir, after, **ways)
    said = capsys.readouterr().err
    assert all(said.count(f"{way}=") == len([ways[way]] if isinstance(ways[way], (str, bool, dict)) else ways[way]) for way in ways)
    assert all(tensor is live[name] for name, tensor in after["model"].named_parameters())
    saved = {k.replace("head", other.get("head", "head")): v for k, v in before["model"].state_dict().items()}
    for key, tensor in after["model"].state_dict().items():
        expected = fresh["model"].state_dict()[key] if key.split(".")[0] in own else saved[key]
        assert torch.equal(tensor, expected.to(tensor.dtype)), key
    life(run_dir, 4, after, **ways)  # it can be trained, and saved
    capsys.readouterr()

    # The same script again: everything that it saved is read, whatever it permits.
    again = restored(run_dir, made(3, **other), **ways)
    assert bits(again["model"].state_dict()) == bits(after["model"].state_dict())
    assert [bits(again["optimizer"].state[p]) for p in again["model"].parameters()] == [
        bits(after["optimizer"].state[p]) for p in after["model"].parameters()
    ]
    assert not any(f"{way}=" in capsys.readouterr().err for way in ways)


def test_the_state_of_a_parameter_that_stays_as_it_is_does_not_fit(run_dir):
    life(run_dir, 2, made(1))
    with pytest.raises(StateMismatch) as caught:
        restored(run_dir, made(2, width=5), unread="model.head.*")
    assert [name for name, _, _ in caught.value.changed] == ["optimizer.state.head.bias", "optimizer.state.head.weight"]


def test_the_optimizer_follows_what_is_renamed_and_cast(run_dir):
    before = made(1)
    life(run_dir, 2, before)
    after = restored(run_dir, made(2, head="top", dtype=torch.bfloat16), rename={"model.head": "model.top"}, cast=True)
    for one, other in zip(before["model"].parameters(), after["model"].parameters(), strict=True):
        mine, theirs = after["optimizer"].state[other], before["optimizer"].state[one]
        assert torch.equal(mine["exp_avg"], theirs["exp_avg"].bfloat16()) and torch.equal(mine["step"], theirs["step"])


@pytest.mark.parametrize(
    "ways, near",
    [({"missing": "modle.*"}, "model"), ({"unread": ["model.*", "zzz"]}, "model, optimizer"), ({"cast": "model.boddy"}, r"model\.body"),
     ({"only": "N"}, ""), ({"rename": {"model.hed.*": "model.x.*"}}, r"model\.head")],
)  # fmt: skip
def test_globs_that_match_nothing_are_refused_before_anything_changes(run_dir, ways, near):
    life(run_dir, 2, made(1))
    parts = made(2)
    fresh = bits(parts["model"].state_dict())
    with unbroken.Run(run_dir, **ways) as run:
        run.attach(**parts)
        with pytest.raises(Misconfigured, match=f"{next(iter(ways))}=.* matches no name in checkpoint 2.a1.*{near}") as caught:
            run.restore()
        assert caught.value.next_command == f"unbroken show {run_dir} 2.a1" and run.attempt == 0
    with pytest.raises(Misconfigured, match="matches no name"):
        unbroken.load(run_dir, into={"model": parts["model"]}, **ways)
    assert bits(parts["model"].state_dict()) == fresh


@pytest.mark.parametrize(
    "bad",
    [{"missing": 5}, {"missing": []}, {"missing": ""}, {"unread": [1]}, {"unread": True}, {"cast": 1}, {"cast": b"x"}, {"only": {}},
     {"rename": "a"}, {"rename": {"a": 1}}, {"rename": {"a.*": "b"}}, {"rename": {"": "b"}}, {"init_from": 5}, {"init_from": ""}],
    ids=str,
)  # fmt: skip
def test_they_are_checked(run_dir, bad):
    with pytest.raises(Misconfigured, match=next(iter(bad))):
        unbroken.Run(run_dir, **bad)
    if "init_from" not in bad and "only" not in bad:
        with pytest.raises(Misconfigured, match=next(iter(bad))):
            unbroken.load(run_dir, into={"x": {}}, **bad)


@pytest.mark.parametrize(
    "saved, live, is_taken",
    [("float32", "float64", True), ("float64", "float16", True), ("int32", "int64", True), ("complex64", "complex128", True),
     ("float32", "complex64", True), ("float32", "int32", False), ("complex64", "float32", False), ("int64", "float32", False),
     ("bool", "int8", False), ("int8", "bool", False)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_a_cast_does_not_change_the_sort_of_values(run_dir, kind, saved, live, is_taken):
    def make(dtype, value):
        return numpy.full(3, value).astype(dtype) if kind == "numpy" else torch.full((3,), value).to(getattr(torch, dtype))

    with unbroken.Run(run_dir) as run:
        run.attach(x={"a": make(saved, 2)})
        for _ in run.steps(1):
            pass
    target = make(live, 0)
    if is_taken:
        unbroken.load(run_dir, into={"x": {"a": target}}, cast="x")
        assert (target == 2).all()
    else:
        with pytest.raises(StateMismatch):
            unbroken.load(run_dir, into={"x": {"a": target}}, cast="x")


def test_what_nothing_is_attached_for_may_stay_unread(run_dir, capsys):
    with unbroken.Run(run_dir) as run:
        run.attach(a={"x": 1}, b={"y": numpy.ones(2)})
        for _ in run.steps(1):
            pass
    with unbroken.Run(run_dir, unread="b") as run:
        run.attach(a={"x": 1})
        for _ in run.steps(2):
            pass
    assert capsys.readouterr().err.count("unread=: not read from checkpoint 1.a1: b.y") == 1
    assert list(unbroken.load(run_dir)) == ["a", "rng", "run"]
    with unbroken.Run(run_dir, unread="b") as run:  # it matches nothing any more, and an earlier life was given it
        run.attach(a={"x": 1})
        run.restore()


@pytest.mark.parametrize("below", ["", ".*"])
def test_attach_names_containers_and_spans_are_renamed(run_dir, below):
    p, q = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p, q], 0.1, momentum=0.9)
    with unbroken.Run(run_dir) as run:
        run.attach(net={"w": p}, other={"w": q, "deep": {"k": [1, 2]}}, plain=[numpy.ones(2)], optimizer=optimizer)
        for _ in run.steps(1):
            (p.sum() + q.sum()).backward()
            optimizer.step()
    mine, theirs, array = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(2)), numpy.zeros(2)
    second = torch.optim.SGD([mine, theirs], 0.1, momentum=0.9)
    deep = {"w": theirs, "deep": {"key": [0, 0]}}
    rename = {"net": "model", "other.deep.k": "other.deep.key", "plain": "list", "optimizer": "sgd"}
    rename = {old + below: new + below for old, new in rename.items()}
    unbroken.load(run_dir, into={"model": {"w": mine}, "other": deep, "list": [array], "sgd": second}, rename=rename)
    assert (mine.item(), theirs.tolist(), deep["deep"], array.tolist()) == (p.item(), q.tolist(), {"key": [1, 2]}, [1, 1])
    assert bits(second.state[mine]) == bits(optimizer.state[p])


@pytest.mark.parametrize("rename", [{"a.deep.k": "b.deep.k"}, {"a.deep.k": "a.k"}, {"a.x": "a.y"}, {"a": "a.b"}])
def test_renames_that_mean_nothing_are_refused(run_dir, rename):
    with unbroken.Run(run_dir) as run:
        run.attach(a={"x": 1, "y": 2, "deep": {"k": 1}})
        for _ in run.steps(1):
            pass
    with pytest.raises((Misconfigured, StateMismatch)):
        unbroken.load(run_dir, into={"a": {"x": 1, "y": 2, "deep": {"k": 1}}}, rename=rename)


def test_settings_of_the_script_win_where_they_are_unread(run_dir, capsys):
    def parts(horizon, decay):
        p = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([p], 0.1, weight_decay=decay)
        return {"p": p, "o": optimizer, "s": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, horizon)}

    with unbroken.Run(run_dir) as run:
        run.attach(**(before := parts(20, 0.1)))
        for _ in run.steps(1):
            before["o"].step()
            before["s"].step()
    for unread, wanted in ((None, (20, 0.1)), (["s.T_max"], (40, 0.1)), ("*", (40, 0.2))):
        after = parts(40, 0.2)
        with unbroken.Run(run_dir, unread=unread) as run:
            run.attach(**after)
            run.restore()
        assert (after["s"].T_max, after["o"].param_groups[0]["weight_decay"]) == wanted
        assert after["s"].last_epoch == (1 if unread != "*" else 0)
    assert "s.T_max is 40 in the script and 20 in checkpoint 1.a1: 20 is used" in capsys.readouterr().err


def test_an_object_gets_its_state_whole_or_keeps_its_own(run_dir):
    class Own:
        def __init__(self):
            self.state = {"a": 1, "b": 2}

        def state_dict(self):
            return dict(self.state)

        def load_state_dict(self, state):
            self.state = state

    before, after = Own(), Own()
    before.state = {"a": 5, "b": 6}
    with unbroken.Run(run_dir) as run:
        run.attach(x=before)
        for _ in run.steps(1):
            pass
    unbroken.load(run_dir, into={"x": after}, only="x.a")
    assert after.state == {"a": 1, "b": 2}
    unbroken.load(run_dir, into={"x": after}, only="x")
    assert after.state == {"a": 5, "b": 6}


def test_cover_is_the_shortest_name_that_matches():
    globs = Globs("unread", ["loader", "model.head.*", "*.bias"])
    cases = {"loader.seed": "loader", "model.head.weight": "model.head.weight", "model.head.a.b": "model.head.a", "x.bias.y": "x.bias"}
    assert {name: globs.cover(name) for name in cases} == cases
    assert globs.match("loaders") is None and globs.match("model.head") is None


# -- init_from


@pytest.fixture
def first(tmp_path):
    parts = made(1)
    with unbroken.Run(tmp_path / "first", every=1, keep_last=9) as run:
        run.attach(**parts)
        run.state["seen"] = 7
        for _ in run.steps(3):
            parts["optimizer"].zero_grad()
            sum(p.pow(2).sum() for p in parts["model"].parameters()).backward()
            parts["optimizer"].step()
    return tmp_path / "first"


@pytest.mark.parametrize("at, step", [("", 3), ("@newest", 3), ("@2", 2), ("@2.a1", 2)])
@pytest.mark.parametrize("only", [None, "model", ["model.body.*", "optimizer"]])
def test_a_run_begins_from_a_checkpoint_of_another_one(run_dir, fake, first, capsys, at, step, only):
    wanted = {key: bits(value) for key, value in unbroken.load(first, at=step)["model"].items()}
    parts, fresh = made(2), made(2)
    run = life(run_dir, 0, parts, init_from=f"{first}{at}", only=only)
    assert "seen" not in run.state and run._step == 0
    for key, value in parts["model"].state_dict().items():
        is_taken = only != ["model.body.*", "optimizer"] or key.startswith("body")
        assert bits(value) == (wanted[key] if is_taken else bits(fresh["model"].state_dict()[key])), key
    assert bool(parts["optimizer"].state) == (only != "model")
    assert f"began from {step}.a1 of run fake in {first}" in capsys.readouterr().err
    run = life(run_dir, 2, parts, init_from=f"{first}{at}", only=only)
    assert run._session.described["parent"].startswith(f"{step}.a1 of run")
    capsys.readouterr()

    again = made(3)
    run = life(run_dir, 2, again, init_from="gone@5", only=only)  # carried out once: a restart goes on
    assert bits(again["model"].state_dict()) == bits(parts["model"].state_dict())
    assert bits(again["optimizer"].state_dict()) == bits(parts["optimizer"].state_dict())
    assert "init_from=gone@5 was carried out before: going on from 2." in capsys.readouterr().err
    assert run._session.described["parent"].startswith(f"{step}.a1 of run")


@pytest.mark.parametrize("where", ["before", "after", "body"])
@pytest.mark.parametrize("only", [None, ["model", "optimizer", "counts"]])
def test_what_is_attached_late_begins_from_there_too(run_dir, tmp_path, where, only):
    def script(**ways):
        torch.manual_seed(0)
        model, counts = Net(), {"n": torch.zeros(1)}
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with unbroken.Run(tmp_path / "first" if not ways else run_dir, every=1, **ways) as run:
            run.attach(model=model)
            if where == "before" or not ways:
                run.attach(optimizer=optimizer, counts=counts)
            elif where == "after":
                run.restore()
                run.attach(optimizer=optimizer, counts=counts)
            for step in run.steps(2):
                if ways and where == "body" and step == 0:
                    run.attach(optimizer=optimizer, counts=counts)
                if step == 0:
                    begun = counts["n"].item(), optimizer.param_groups[0]["lr"]
                counts["n"] += 1
                optimizer.param_groups[0]["lr"] /= 2
        return begun

    assert script() == (0, 0.1)
    assert script(init_from=tmp_path / "first", only=only) == (2, 0.025)


def test_what_is_attached_late_must_fit_the_origin(run_dir, first):
    with unbroken.Run(run_dir, init_from=first) as run:
        run.attach(model=made(2)["model"])
        run.restore()
        with pytest.raises(StateMismatch, match="other"):
            run.attach(other={"n": torch.zeros(1)})
        run.attach(optimizer=torch.optim.Adam(run._attached.objects["model"].parameters(), 0.5))
        assert run._attached.objects["optimizer"].param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_scheduler_made_late_does_not_move_the_rate_of_the_origin(run_dir, tmp_path, where):
    def script(path, **ways):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with unbroken.Run(path, every=1, **ways) as run:
            run.attach(model=model, optimizer=optimizer)
            if where == "after":
                run.restore()
            run.attach(scheduler=(scheduler := torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)))
            run.restore()
            begun = optimizer.param_groups[0]["lr"]
            for _ in run.steps(2):
                optimizer.step()
                scheduler.step()
        return begun

    script(tmp_path / "first")
    assert script(run_dir, init_from=tmp_path / "first") == 0.025


@pytest.mark.parametrize(
    "other, only, kind", [({"width": 5}, None, StateMismatch), ({}, "modl", Misconfigured)]
)
def test_what_it_refuses_it_refuses_before_the_run_exists(run_dir, first, other, only, kind):
    parts = made(2, **other)
    fresh = bits(parts["model"].state_dict())
    with unbroken.Run(run_dir, init_from=first, only=only) as run:
        run.attach(**parts)
        with pytest.raises(kind):
            run.restore()
        assert run.attempt == 0
    assert bits(parts["model"].state_dict()) == fresh


@pytest.mark.parametrize("how", ["run", "load"])
def test_what_may_be_missing_is_never_what_a_damaged_checkpoint_left(run_dir, how):
    def script(names):
        return {name: {"w": numpy.zeros(5000)} for name in names}

    def train(steps, parts, **ways):
        with unbroken.Run(run_dir, every=1, **ways) as run:
            run.attach(**parts)
            for _ in run.steps(steps):
                for part in parts.values():
                    part["w"] += 1

    def read(parts):
        if how == "load":
            return unbroken.load(run_dir, into=parts, missing="b")
        return restored(run_dir, parts, missing="b")

    train(1, script("a"))
    train(2, script("ab"), missing="b")
    [shard] = run_dir.glob("data/step-000000000002*/*.safetensors")
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)

    parts = script("ab")
    with pytest.raises(StateMismatch) as caught:  # 1.a1 has no b, and b holds that of 2.a2, unchecked
        read(parts)
    assert caught.value.live_is_undefined and any("b.w" in name for name in caught.value.missing)
    if how == "run":
        again = read(script("ab"))  # 2.a2 is put aside: nothing of it is read
        assert again["a"]["w"][0] == 1 and again["b"]["w"][0] == 0


def test_a_run_that_did_not_begin_there_is_not_gone_on_with(run_dir, first, tmp_path):
    life(tmp_path / "second", 1, made(1), every=1)
    life(run_dir, 2, made(2), every=1, init_from=first)
    for path, origin, says in [(run_dir, tmp_path / "second", "began from 3.a1 of run"), (first, run_dir, "began by itself")]:
        parts = made(3)
        fresh, slots = bits(parts["model"].state_dict()), sorted((path / "journal").iterdir())
        with pytest.raises(Misconfigured, match=says), unbroken.Run(path, init_from=origin) as run:
            run.attach(**parts)
            run.restore()
        assert bits(parts["model"].state_dict()) == fresh and sorted((path / "journal").iterdir()) == slots
    life(run_dir, 3, made(3), every=1, init_from=first)


def windows(path, end, numbers, **ways):
    """A life of steps whose numbers of micro-batches are given."""
    with unbroken.Run(path, **ways) as run:
        run.state["x"] = 1
        for number in numbers:
            before = run.restore()
            while run.step(accumulate=number) == before:
                pass
        assert run.restore() == end
        run.save()


@pytest.mark.failure("vllm-project/speculators#859")
def test_another_number_of_micro_batches_is_a_mismatch_with_a_way_out(run_dir, capsys):
    windows(run_dir, 2, [3, 3])
    windows(run_dir, 3, [3])
    with pytest.raises(StateMismatch) as caught:
        windows(run_dir, 0, [4])
    assert caught.value.changed == [("run.accumulate", "3", "4")] and 'unread="run.accumulate"' in str(caught.value)
    assert unbroken.load(run_dir).step == 3
    for end in (4, 5):
        capsys.readouterr()
        windows(run_dir, end, [4], unread="run.accumulate")
        assert ("a step has 4 micro-batches from here on, and had 3" in capsys.readouterr().err) == (end == 4)
    with pytest.raises(StateMismatch):
        windows(run_dir, 0, [3])


def test_a_number_of_micro_batches_that_changed_within_a_life_may_change_between_lives(run_dir):
    windows(run_dir, 2, [1, 2])
    windows(run_dir, 3, [5])
    windows(run_dir, 4, [6])


def test_a_loop_that_counts_no_micro_batches_compares_none(run_dir):
    parts = made(1)
    life(run_dir, 2, parts)
    with unbroken.Run(run_dir) as run:
        run.attach(**parts)
        run.restore()
        parts["model"].zero_grad()
        run.step(accumulate=1)
        run.save()
    assert unbroken.load(run_dir).step == 3
    life(run_dir, 4, parts)
