"""What hangs on an evaluation in transformers.Trainer: done once, in whatever life, as in the straight training."""

import signal

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: ./dev setup --adapters")

import torch  # noqa: E402
import unbroken  # noqa: E402
from helpers import bits, stops_at  # noqa: E402
from test_hf import Data, Net, end  # noqa: E402
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments  # noqa: E402
from unbroken.hf import Callback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Dies(BaseException):
    pass


def term():
    signal.raise_signal(signal.SIGTERM)


def dies():
    raise Dies


class Watches(TrainerCallback):
    """Acts within an evaluation, before it, or where a step ends; notes the evaluations."""

    def __init__(self, at):
        self.at, self.evaluated = at, []

    def act(self, kind, step):
        if self.at is not None and self.at[:2] == (kind, step):
            what, self.at = self.at[2], None
            what()

    def on_step_end(self, args, state, control, **more):
        self.act("step", state.global_step)

    def on_prediction_step(self, args, state, control, **more):
        self.act("evaluation", state.global_step)

    def on_evaluate(self, args, state, control, metrics, **more):
        self.evaluated.append((state.global_step, metrics["eval_loss"]))


def train(path, at=None, seed=1, steps=30, evaluates=True, patience=20, data=Data, extra=(), collator=None, **more):
    """One life: the trainer, its evaluations and what ended it."""
    torch.manual_seed(seed)
    settings = dict(per_device_train_batch_size=4, learning_rate=0.01, logging_steps=1, report_to="none", disable_tqdm=True,
                    use_cpu=True, log_level="error", max_steps=steps, save_strategy="no", load_best_model_at_end=False)  # fmt: skip
    if evaluates:
        settings |= dict(lr_scheduler_type="reduce_lr_on_plateau", metric_for_best_model="loss", greater_is_better=False,
                         lr_scheduler_kwargs={"mode": "max", "factor": 0.5, "patience": 0})  # fmt: skip
    arguments = TrainingArguments(output_dir=f"{path}-output", **{**settings, **more})
    saver, watches = Callback(path, every=1), Watches(at)
    stopper = [EarlyStoppingCallback(early_stopping_patience=patience, early_stopping_threshold=1e9)] if evaluates else []
    trainer = Trainer(Net(), arguments, train_dataset=data(), eval_dataset=Data(),
                      data_collator=collator,
                      callbacks=[watches, *(one() for one in extra), saver, *stopper])  # fmt: skip
    error = None
    try:
        trainer.train(resume_from_checkpoint=saver.resume())
    except (unbroken.Interrupted, Dies) as caught:
        error = caught
    finally:
        saver.run._close(is_quiet=True)
    return trainer, watches.evaluated, error


def whole(trainer):
    counters = [one.early_stopping_patience_counter for one in trainer.callback_handler.callbacks
                if isinstance(one, EarlyStoppingCallback)]  # fmt: skip
    return (*end(trainer), bits(trainer.lr_scheduler.state_dict()), counters, trainer.state.best_metric)


@pytest.mark.parametrize("how", [term, dies])
@pytest.mark.parametrize(
    ("stops", "more"),
    [
        ((("step", 4), ("step", 5), ("evaluation", 10), ("evaluation", 20)), {"eval_strategy": "steps", "eval_steps": 5}),
        ((("step", 11), ("evaluation", 22)), {"eval_strategy": "epoch"}),
        ((("evaluation", 10), ("step", 20)), {"eval_strategy": "steps", "eval_steps": 5, "save_strategy": "steps", "save_steps": 5,
                                              "load_best_model_at_end": True}),
        ((("step", 3), ("evaluation", 6)), {"eval_strategy": "steps", "eval_steps": 3, "gradient_accumulation_steps": 2, "steps": 12}),
    ],
)  # fmt: skip
def test_a_stop_at_an_evaluation_loses_none(run_dir, stops, more, how):
    straight, evaluated, _ = train(run_dir / "straight", **more)
    seen = []
    for i, stop in enumerate(stops):
        _, some, error = train(run_dir / "killed", at=(*stop, how), seed=1 + 10 * i, **more)
        assert error is not None
        seen += some
    last, some, _ = train(run_dir / "killed", seed=99, **more)
    seen += some
    assert seen == evaluated if how is term else set(evaluated) == set(seen)
    assert whole(last) == whole(straight)


def test_early_stopping_counts_on(run_dir):
    more = {"eval_strategy": "steps", "eval_steps": 2}
    with stops_at(8):
        first, *_ = train(run_dir, **more)
    last, *_ = train(run_dir, seed=5, steps=12, **more)
    assert whole(first)[-2] == [3] and whole(last)[-2] == [5]


@pytest.mark.parametrize("strategy", [{"eval_strategy": "steps", "eval_steps": 4}, {"eval_strategy": "epoch"}])
def test_a_training_that_ended_early_stays_ended_until_its_limits_are_raised(run_dir, capfd, strategy):
    more = {"eval_strategy": "steps", "eval_steps": 4, "patience": 1, **strategy}
    first, evaluated, _ = train(run_dir, **more)
    step = first.state.global_step
    assert 0 < step < 30
    for _ in range(2):
        last, again, _ = train(run_dir, seed=5, **more)
        assert again == [] and whole(last) == whole(first) and last.state.global_step == step
        assert f"the training ended early, after step {step}: to go on, raise" in capfd.readouterr().err
    longer, *_ = train(run_dir, seed=6, steps=40, **more)
    assert longer.state.global_step > step


class EndsEpochs(TrainerCallback):
    """Ends the epochs after steps 6 and 16; one has 11."""

    def on_step_end(self, args, state, control, **more):
        control.should_epoch_stop = state.global_step in (6, 16)


class Stream(torch.utils.data.IterableDataset):
    """Without a length, and used up after 11 batches."""

    def __iter__(self):
        return iter([Data()[i] for i in range(44)])


@pytest.mark.parametrize("how", [term, dies])
@pytest.mark.parametrize(
    "more",
    [{"extra": [EndsEpochs]}, {"extra": [EndsEpochs], "gradient_accumulation_steps": 2}, {"data": Stream},
     {"data": Stream, "gradient_accumulation_steps": 2}],
)  # fmt: skip
def test_the_place_in_the_data_is_that_of_epochs_that_end_early(run_dir, more, how):
    more = {"evaluates": False, "steps": 25, **more}
    straight, *_ = train(run_dir / "straight", **more)
    for i, step in enumerate((4, 6, 8, 12, 18)):
        *_, error = train(run_dir / "killed", at=("step", step, how), seed=1 + i, **more)
        assert error is not None
    last, *_ = train(run_dir / "killed", seed=9, **more)
    assert end(last) == end(straight)
    again, *_ = train(run_dir / "killed", seed=10, **more)
    assert end(again) == end(straight) and again.state.global_step == straight.state.global_step


class OfLengths(Data):
    """What a sampler by lengths orders, from the global generator."""

    def __getitem__(self, i):
        return {**super().__getitem__(i), "input_ids": list(range(1 + i * 7 % 5))}

    def __iter__(self):
        return map(self.__getitem__, range(len(self)))


def collate(items):
    return {"x": torch.stack([one["x"] for one in items]), "labels": torch.stack([one["labels"] for one in items])}


def test_an_order_from_the_global_generator_is_drawn_again(run_dir):
    more = {"evaluates": False, "data": OfLengths, "train_sampling_strategy": "group_by_length", "remove_unused_columns": False,
            "collator": collate}  # fmt: skip
    straight, *_ = train(run_dir / "straight", **more)
    for i, step in enumerate((4, 6, 11, 13, 22)):
        train(run_dir / "killed", at=("step", step, dies if i % 2 else term), seed=1 + i, **more)
    last, *_ = train(run_dir / "killed", seed=9, **more)
    assert end(last) == end(straight)


def test_what_was_evaluated_at_the_start_is_not_in_later_lives(run_dir, capfd):
    more = {"eval_strategy": "steps", "eval_steps": 5, "eval_on_start": True}
    straight, evaluated, _ = train(run_dir / "straight", **more)
    seen = []
    for i in range(3):
        last, some, _ = train(run_dir / "killed", at=("step", 5 + 10 * i, term), seed=1 + i, **more)
        seen += some
        assert last.args.eval_on_start
    last, some, _ = train(run_dir / "killed", seed=9, **more)
    assert seen + some == evaluated and whole(last) == whole(straight)
    train(run_dir / "killed", seed=10, **more)
    assert "evaluates (eval()) in the checkpoint" not in capfd.readouterr().err


def test_data_without_a_length_go_on_when_the_training_is_made_longer(run_dir):
    more = {"evaluates": False, "data": Stream, "lr_scheduler_type": "constant"}
    straight, *_ = train(run_dir / "straight", steps=30, **more)
    with stops_at(14):
        train(run_dir / "longer", steps=20, **more)
    last, *_ = train(run_dir / "longer", seed=5, steps=30, **more)
    assert [entry["loss"] for entry in last.state.log_history if "loss" in entry] == [
        entry["loss"] for entry in straight.state.log_history if "loss" in entry
    ]


def test_data_that_begins_anew_is_said(run_dir, capfd):
    more = {"evaluates": False, "ignore_data_skip": True}
    with stops_at(5):
        train(run_dir, **more)
    assert "begins anew" not in capfd.readouterr().err
    train(run_dir, seed=2, steps=11, **more)
    assert "ignore_data_skip=True: after step 5 the data of epoch 0 begins anew" in capfd.readouterr().err
    train(run_dir, seed=3, steps=14, **more)
    train(run_dir, seed=4, **{**more, "steps": 16, "ignore_data_skip": False})
    assert capfd.readouterr().err.count("begins anew") == 1


def test_a_save_in_an_evaluation_is_of_the_step_evaluated(run_dir):
    class Asks(TrainerCallback):
        def on_evaluate(self, args, state, control, **more):
            if state.global_step == 4:
                saver.run.save(tag="evaluated")

    torch.manual_seed(1)
    arguments = TrainingArguments(output_dir=f"{run_dir}-output", per_device_train_batch_size=4, report_to="none", disable_tqdm=True,
                                  use_cpu=True, log_level="error", max_steps=6, save_strategy="no", eval_strategy="steps",
                                  eval_steps=2)  # fmt: skip
    saver = Callback(run_dir, every=1000)
    trainer = Trainer(Net(), arguments, train_dataset=Data(), eval_dataset=Data(), callbacks=[saver, Asks()])
    trainer.train(resume_from_checkpoint=saver.resume())
    assert unbroken.load(run_dir, at="tag:evaluated").step == 4
