"""Dtypes, views, ties, wrappers and generators of torch are kept by bits and matched strictly."""

import contextlib
import warnings

import pytest
import torch
from torch import nn

import unbroken
from helpers import bits, stops_at
from torch_life import OPTIMIZERS, Net, O, Twins, attach, moments, train, trained
from unbroken import Misconfigured, StateMismatch, _native
from unbroken._state import dtypes


# -- dtypes, views, ties, wrappers

ALL_DTYPES = [d for d in dtypes.TORCH_TO_NAME if hasattr(torch, d)]


def test_the_table_holds_every_dtype_that_torch_can_make_on_a_cpu():
    made = set()
    for name in dir(torch):
        kind = getattr(torch, name)
        if isinstance(kind, torch.dtype):
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.empty(8, dtype=kind)
                made.add(str(kind).removeprefix("torch."))
    assert {name for name in made if name not in ALL_DTYPES} == {
        "qint8",
        "qint32",
        "quint8",
        "quint4x2",
        "quint2x4",
    }


def raw(shape, dtype):
    size = torch.empty(1, dtype=dtype).element_size()
    count = 1
    for n in shape:
        count *= n
    data = torch.randint(0, 2 if dtype is torch.bool else 256, (count * size,), dtype=torch.uint8)
    return data.view(dtype).reshape(shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.failure("NVIDIA/Megatron-LM#1350")
def test_every_dtype_by_bytes(run_dir, name):
    dtype = getattr(torch, name)
    before = {"flat": raw((8,), dtype), "scalar": raw((1,), dtype).reshape(()), "empty": torch.empty((0, 2), dtype=dtype),
              "view": raw((4, 6), dtype)[::2, 1:5]}  # fmt: skip
    trained_state(run_dir, x=before)
    base = torch.empty((4, 6), dtype=dtype)
    after = {
        "flat": torch.empty(8, dtype=dtype),
        "scalar": torch.empty((), dtype=dtype),
        "empty": torch.empty((0, 2), dtype=dtype),
        "view": base[::2, 1:5],
    }
    attach(run_dir, x=after)
    assert bits(after) == bits(before)
    loaded = unbroken.load(run_dir)["x"]
    assert bits(loaded) == bits(before)


def trained_state(path, **named):
    with unbroken.Run(path) as run:
        run.attach(**named)
        for _ in run.steps(1):
            pass


@pytest.mark.parametrize(
    "saved, live",
    [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.int64, torch.int32), (torch.int32, torch.float32)],
)
@pytest.mark.failure("TensorAuto/OpenTau#185", "SlopDotCash/asi#2714")
def test_another_dtype_is_refused(run_dir, saved, live):
    trained_state(run_dir, x=torch.zeros(3, dtype=saved))
    target = torch.ones(3, dtype=live)
    with pytest.raises(StateMismatch) as caught:
        attach(run_dir, x=target)
    ((name, before, here),) = caught.value.changed
    assert (name, before, here) == (
        "x",
        f"{dtypes.TORCH_TO_NAME[str(saved)[6:]]}[3]",
        f"{dtypes.TORCH_TO_NAME[str(live)[6:]]}[3]",
    )
    assert target.tolist() == [1, 1, 1]


@pytest.mark.failure("NVIDIA/apex#480", "TensorAuto/OpenTau#185")
def test_optimizer_state_of_another_dtype_than_the_parameter_is_kept_as_it_is(run_dir):
    before = Twins(dtype=torch.bfloat16)
    optimizer = O.SGD(before.parameters(), lr=0.1, momentum=0.9)
    trained(run_dir / "a", before, optimizer)
    for p in before.parameters():
        optimizer.state[p]["master"] = p.detach().float() + 1e-4
    trained(run_dir / "b", before, optimizer)
    after = Twins(dtype=torch.bfloat16)
    second = O.SGD(after.parameters(), lr=0.1, momentum=0.9)
    attach(run_dir / "b", model=after, optimizer=second)
    assert second.state[after.p]["master"].dtype == torch.float32
    assert moments(after, second) == moments(before, optimizer)


@pytest.mark.failure("pytorch/pytorch#1995")
def test_views_write_their_own_bytes_only(run_dir):
    big = torch.arange(10_000.0)
    views = {"slice": big[5:15], "transposed": big[:600].reshape(20, 30).T,
             "conj": torch.tensor([1 + 2j, 3 - 1j]).conj(), "neg": torch.tensor([1 + 2j]).conj().imag}  # fmt: skip
    trained_state(run_dir, x=views)
    base = torch.zeros(10_000)
    after = {"slice": base[5:15], "transposed": torch.zeros(30, 20),
             "conj": torch.zeros(2, dtype=torch.complex64).conj(), "neg": torch.zeros(1, dtype=torch.complex64).conj().imag}  # fmt: skip
    attach(run_dir, x=after)
    for key in views:
        assert torch.equal(views[key], after[key]), key
    assert base[:5].sum() == 0 and base[15:].sum() == 0
    assert sum(t.numel() * t.element_size() for t in unbroken.load(run_dir)["x"].values()) < 4000


class Tied(nn.Module):
    def __init__(self, is_tied=True):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        if is_tied:
            self.head.weight = self.embed.weight


@pytest.mark.failure("huggingface/accelerate#2807")
def test_tied_weights_are_kept_once_and_stay_tied(run_dir):
    before = Tied()
    trained(run_dir, before, O.Adam(before.parameters()))
    kept = _native.core.Reader(str(run_dir), "newest").saved
    assert [entry[0] for entry in kept.tensors if entry[0].startswith("model.")] == ["model.embed.weight"]
    assert ("model.head.weight", "model.embed.weight") in kept.alias
    after = Tied()
    attach(run_dir, model=after, optimizer=O.Adam(after.parameters()))
    assert after.head.weight is after.embed.weight and torch.equal(after.head.weight, before.head.weight)
    loaded = unbroken.load(run_dir)["model"]
    assert loaded["head.weight"] is loaded["embed.weight"]


@pytest.mark.parametrize("first, second", [(True, False), (False, True)])
@pytest.mark.failure("huggingface/transformers#38870")
def test_other_ties_are_a_mismatch(run_dir, first, second):
    before, after = Tied(first), Tied(second)
    trained_state(run_dir, model=before)
    with pytest.raises(StateMismatch, match="tied to"):
        attach(run_dir, model=after)


def wrap(model, kinds):
    for kind in kinds:
        if kind == "compile":
            model = torch.compile(model, backend="eager")
        elif kind == "parallel":
            model = nn.DataParallel(model)
        else:
            model = nn.parallel.DistributedDataParallel(model)
    return model


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


WRAPPERS = [
    (),
    ("compile",),
    ("ddp",),
    ("compile", "ddp"),
    ("ddp", "compile"),
    ("parallel", "compile"),
    ("compile", "ddp", "compile"),
]


@pytest.mark.failure(
    "karpathy/nanoGPT#325", "FareedKhan-dev/train-llm-from-scratch#36", "facebookresearch/fairseq2#412",
)  # fmt: skip
def test_wrappers_leave_no_trace_in_names(run_dir, process_group):
    want = Net().state_dict().keys()
    for i, kinds in enumerate(WRAPPERS):
        before = Net()
        trained_state(run_dir / str(i), model=wrap(before, kinds))
        assert unbroken.load(run_dir / str(i))["model"].keys() == want, kinds
        for others in WRAPPERS:
            after = Net()
            attach(run_dir / str(i), model=wrap(after, others))
            assert bits(after.state_dict()) == bits(before.state_dict())


@pytest.mark.failure("facebookresearch/fairseq2#412")
def test_a_wrapped_child_and_a_child_called_like_a_wrapper(run_dir):
    class Outer(nn.Module):
        def __init__(self, compiled):
            super().__init__()
            self.module = nn.Linear(2, 2)
            self._orig_mod = nn.Linear(2, 2)
            self.block = torch.compile(nn.Linear(2, 2), backend="eager") if compiled else nn.Linear(2, 2)

    before, after = Outer(True), Outer(False)
    trained_state(run_dir, model=before)
    assert list(unbroken.load(run_dir)["model"]) == [n for n, _ in after.named_parameters()]
    attach(run_dir, model=after)
    assert torch.equal(after.block.weight, before.block._orig_mod.weight)


class Extra(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.scale, self.history = 1.0, torch.zeros(2)

    def get_extra_state(self):
        return {"scale": self.scale, "history": self.history}

    def set_extra_state(self, state):
        self.scale, self.history = state["scale"], state["history"]


@pytest.mark.failure("NVIDIA/Megatron-LM#1350")
def test_extra_state_of_modules(run_dir):
    before, after = nn.Sequential(Extra()), nn.Sequential(Extra())
    before[0].scale, before[0].history = 2.5, torch.ones(4)
    trained_state(run_dir, model=before)
    attach(run_dir, model=after)
    assert after[0].scale == 2.5 and after[0].history.tolist() == [1, 1, 1, 1]


class Secretive(nn.Linear):
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "secret"] = torch.zeros(3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "bad, where",
    [
        (lambda: nn.Sequential(Secretive(2, 2)), r"x\.0\.secret"),
        (lambda: [torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8)], r"x\.0: .*quantised"),
        (lambda: {"s": torch.eye(2).to_sparse()}, r"x\.s: .*sparse"),
        (lambda: {"m": torch.zeros(2, device="meta")}, r"x\.m: .*meta"),
        (lambda: nn.Sequential(nn.LazyLinear(3)), r"x\.0\.weight: .*not initialised"),
        (lambda: [torch.zeros(2).as_subclass(type("Sub", (torch.Tensor,), {}))], r"x\.0: .*Sub"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_path(run_dir, bad, where):
    with pytest.raises(Misconfigured, match=where):
        trained_state(run_dir, x=bad())


@pytest.mark.failure("huggingface/transformers#38870")
def test_batch_norm_and_shapes_and_missing_names(run_dir):
    before = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    before(torch.randn(4, 2))
    trained_state(run_dir, model=before)
    after = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    attach(run_dir, model=after)
    assert bits(after.state_dict()) == bits(before.state_dict())
    other = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(3, affine=False), nn.Linear(3, 1, bias=False))
    with pytest.raises(StateMismatch) as caught:
        attach(run_dir, model=other)
    assert caught.value.missing == ["model.2.weight"]
    assert caught.value.unread == ["model.1.bias", "model.1.weight"]
    assert caught.value.changed == [
        ("model.0.bias", "F32[3]", "F32[4]"),
        ("model.0.weight", "F32[3,2]", "F32[4,2]"),
    ]


@pytest.mark.failure("cselab/korali#341")
def test_torch_generators_go_on(run_dir):
    before, after = torch.Generator().manual_seed(3), torch.Generator()
    torch.rand(5, generator=before)
    trained_state(run_dir, g=before)
    attach(run_dir, g=after)
    assert torch.rand(5, generator=after).tolist() == torch.rand(5, generator=before).tolist()


@pytest.mark.failure("harubaru/waifu-diffusion#31")
def test_saving_has_no_effect_on_training(run_dir):
    runs = [train(run_dir / str(i), 6, every=every, optimizer=OPTIMIZERS["adam"]) for i, every in enumerate((1, 1000))]
    assert runs[0] == runs[1]


def test_load_into_is_strict_and_in_place(run_dir):
    before = Net()
    optimizer = O.Adam(before.parameters())
    trained(run_dir, before, optimizer)
    after = Net()
    second = O.Adam(after.parameters())
    weight = after.a.weight
    unbroken.load(run_dir, into={"model": after, "optimizer": second})
    assert after.a.weight is weight and bits(after.state_dict()) == bits(before.state_dict())
    assert bits(second.state[after.b.weight]) == bits(optimizer.state[before.b.weight])
    with pytest.raises(StateMismatch):
        unbroken.load(run_dir, into={"model": nn.Linear(2, 2)})
    with pytest.raises(StateMismatch, match="other"):
        unbroken.load(run_dir, into={"other": Net()})


@pytest.mark.failure("google/orbax#648")
def test_load_gives_the_shape_that_was_attached(run_dir):
    before = Net()
    trained(run_dir, before, O.Adam(before.parameters()))
    checkpoint = unbroken.load(run_dir)
    assert (checkpoint.step, checkpoint.attempt, checkpoint.name, checkpoint.fell_back) == (3, 1, "3.a1", [])
    Net().load_state_dict(checkpoint["model"])
    assert bits(checkpoint["model"]) == bits(dict(before.state_dict()))
    arrays = unbroken.load(run_dir, torch=False)["model"]
    assert bits(arrays["a.weight"]) == bits(before.a.weight.detach().numpy())
    assert list(unbroken.load(run_dir, only="model.a.*")) == ["model"]
    assert list(unbroken.load(run_dir, only="model.a.*")["model"]) == ["a.weight"]
    with pytest.raises(unbroken.NothingToResume):
        unbroken.load(run_dir, at=77)


@pytest.mark.failure("Megvii-BaseDetection/YOLOX#1318", "ai2cm/ace#349")
def test_averaged_weights_and_their_schedule_continue(run_dir):
    from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn

    def life(path, seed):
        torch.manual_seed(seed)
        model = Net()
        ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        optimizer = O.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = SWALR(optimizer, swa_lr=0.01, anneal_epochs=4)
        with unbroken.Run(path) as run:
            run.attach(model=model, ema=ema, optimizer=optimizer, scheduler=scheduler)
            for _ in run.steps(7):
                optimizer.zero_grad()
                model(torch.randn(3, 6)).pow(2).sum().backward()
                optimizer.step()
                ema.update_parameters(model)
                scheduler.step()
        return bits(model.state_dict()), bits(ema.state_dict()), optimizer.param_groups[0]["lr"]

    want = life(run_dir / "straight", 1)
    for i, stop in enumerate((1, 4)):
        with stops_at(stop):
            life(run_dir / "killed", 1 + i)
    got = life(run_dir / "killed", 9)
    assert got == want
    assert want[0] != want[1]


@pytest.mark.failure("huggingface/accelerate#3971", "pytorch/ao#3314")
def test_quantised_state_of_an_optimizer_keeps_its_codes_and_what_they_share(run_dir):
    def make():
        model = Twins()
        optimizer = O.SGD(model.parameters(), lr=0.1)
        return model, optimizer

    before, optimizer = make()
    codes = torch.linspace(-1, 1, 256)
    for i, p in enumerate(before.parameters()):
        optimizer.state[p] = {
            "state1": torch.full((3, 3), i, dtype=torch.uint8),
            "qmap1": codes,
            "absmax": torch.ones(()),
            "step": i,
        }
    trained(run_dir, before, optimizer)
    after, second = make()
    attach(run_dir, model=after, optimizer=second)
    assert moments(after, second) == moments(before, optimizer)
    assert second.state[after.p]["qmap1"] is second.state[after.q]["qmap1"]


def test_state_of_a_parameter_in_no_group_is_refused(run_dir):
    model = Twins()
    optimizer = O.Adam([model.p])
    optimizer.state[model.q] = {"exp_avg": torch.ones(1)}
    with pytest.raises(Misconfigured, match="none of its groups"):
        trained(run_dir, model, optimizer)


@pytest.mark.failure("Lightning-AI/pytorch-lightning#18482")
def test_a_restore_that_did_nothing_is_noticed(run_dir):
    class Idle(torch.optim.lr_scheduler.StepLR):
        def load_state_dict(self, state):
            pass

    def schedule(factor):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        return {"model": model, "optimizer": optimizer, "schedule": Idle(optimizer, 3, gamma=factor)}

    trained_state(run_dir, **schedule(0.5))
    with pytest.raises(StateMismatch, match="schedule.*gamma"):
        attach(run_dir, **schedule(0.25))


def test_a_load_state_dict_that_writes_into_other_state_is_noticed(run_dir):
    class Meddler:
        def state_dict(self):
            return {"n": 1}

        def load_state_dict(self, state):
            model.bias.data.zero_()

    trained_state(run_dir, model=nn.Linear(2, 2), meddler=Meddler())
    model = nn.Linear(2, 2)
    with pytest.raises(StateMismatch, match=r"model\.bias: saved digest"):
        attach(run_dir, model=model, meddler=Meddler())


@pytest.mark.failure("Lightning-AI/pytorch-lightning#20379")
def test_extending_a_finished_run_takes_the_next_steps_only(run_dir):
    first = train(run_dir / "a", 4)[0]
    more = train(run_dir / "a", 7, seed=5)[0]
    assert [step for step, *_ in first + more] == list(range(7))
    assert first + more == train(run_dir / "b", 7)[0]
