"""transformers.Trainer: stopped anywhere and resumed, each training ends with the bits of the straight one."""

import signal

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: ./dev setup --adapters")

import torch  # noqa: E402
import unbroken  # noqa: E402
from helpers import bits, stops_at  # noqa: E402
from torch import nn  # noqa: E402
from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402
from unbroken.hf import Callback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.at, self.calls = {}, 0

    def forward(self, x, labels):
        out = self.layers(x)
        return {"loss": nn.functional.mse_loss(out, labels), "logits": out}


class Watches(TrainerCallback):
    def __init__(self, at):
        self.at, self.seen = dict(at), []

    def on_step_end(self, args, state, control, **more):
        self.seen.append(state.global_step)
        if state.global_step in self.at:
            self.at.pop(state.global_step)()


class Data:
    def __len__(self):
        return 44

    def __getitem__(self, i):
        x = torch.arange(4.0) / 4 + i / 44
        return {"x": x, "labels": x.sum().reshape(1)}


def train(path, seed=1, at=(), steps=30, every=1000, resumes=True, **more):
    """One life: the trainer and the steps it took."""
    torch.manual_seed(seed)
    settings = dict(per_device_train_batch_size=4, learning_rate=0.01, logging_steps=1, save_strategy="no",
                    report_to="none", disable_tqdm=True, use_cpu=True, log_level="error", max_steps=steps)  # fmt: skip
    arguments = TrainingArguments(output_dir=str(path) + "-output", **{**settings, **more})
    saver, watches = Callback(path, every=every), Watches(at)
    trainer = Trainer(Net(), arguments, train_dataset=Data(), eval_dataset=Data(), callbacks=[watches, saver])
    try:
        trainer.train(resume_from_checkpoint=saver.resume() if resumes else None)
    finally:
        saver.run._close(is_quiet=True)
    return trainer, watches.seen


def end(trainer):
    history = [{k: v for k, v in entry.items() if not k.endswith(("_runtime", "_per_second"))}
               for entry in trainer.state.log_history if "train_runtime" not in entry]  # fmt: skip
    return bits(trainer.model.state_dict()), bits(trainer.optimizer.optimizer.state_dict()), history


@pytest.mark.parametrize(
    ("stops", "more"),
    [
        ((7, 11, 12, 22, 23), {}),
        ((1, 11, 20), {"eval_strategy": "epoch"}),
        ((5, 10), {"eval_strategy": "steps", "eval_steps": 5}),
        ((2, 6, 7, 14), {"logging_steps": 4}),
        ((2, 6, 9), {"gradient_accumulation_steps": 2, "steps": 14}),
        ((3, 22), {"steps": -1, "num_train_epochs": 3}),
        ((3, 11, 15), {"dataloader_num_workers": 2}),
        ((3, 11, 15, 22), {"dataloader_num_workers": 2, "dataloader_persistent_workers": True}),
        ((3, 13, 22), {"dataloader_num_workers": 1, "dataloader_persistent_workers": True, "eval_strategy": "epoch"}),
    ],
)
def test_continues_to_the_same_bits(run_dir, stops, more):
    straight, all_steps = train(run_dir / "straight", **more)
    seen = []
    for i, stop in enumerate(stops):
        with stops_at(stop):
            seen += train(run_dir / "killed", seed=1 + 50 * i, **more)[1]
    last, rest = train(run_dir / "killed", seed=99, **more)
    assert seen + rest == all_steps
    assert end(last) == end(straight)
    again, none = train(run_dir / "killed", seed=98, **more)
    assert none == [] and bits(again.model.state_dict()) == bits(straight.model.state_dict())


def test_a_stop_ends_it_with_75_and_an_error_goes_through(run_dir):
    straight, _ = train(run_dir / "straight")
    with pytest.raises(unbroken.Interrupted) as stopped:
        train(run_dir / "killed", at={9: lambda: signal.raise_signal(signal.SIGTERM)})
    assert stopped.value.code == 75 and unbroken.load(run_dir / "killed").step == 9

    def fails():
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        train(run_dir / "killed", seed=2, at={17: fails}, every=4)
    assert 9 < unbroken.load(run_dir / "killed").step <= 16
    last, _ = train(run_dir / "killed", seed=3)
    assert end(last)[:2] == end(straight)[:2]


def test_a_run_that_goes_on_must_be_handed_over(run_dir):
    with stops_at(3):
        train(run_dir)
    with pytest.raises(unbroken.Misconfigured, match="resume_from_checkpoint"):
        train(run_dir, resumes=False)


def test_what_was_saved_is_whole(run_dir):
    trainer, _ = train(run_dir, steps=3)
    saved = unbroken.load(run_dir)
    assert bits(saved["model"]) == bits(dict(trainer.model.state_dict()))
    assert saved["trainer"]["global_step"] == saved.step == 3
    assert [entry["step"] for entry in saved["trainer"]["log_history"]] == [1, 2, 3]
