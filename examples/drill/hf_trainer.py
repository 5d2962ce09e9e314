"""A training by transformers.Trainer that resumes from Trainer's checkpoints, for `unbroken drill`: python hf_trainer.py FOLDER."""

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import Trainer, TrainerCallback, TrainingArguments

STEPS, EVERY = 32, 5


class Data:
    """96 regressions."""

    def __init__(self):
        self.x = torch.randn(96, 8)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.x[i].sum().reshape(1)}


class Net(nn.Module):
    """Two layers, with dropout."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def forward(self, x, labels):
        out = self.layers(x)
        return {"loss": nn.functional.mse_loss(out, labels), "logits": out}


class Average(TrainerCallback):
    """The moving average of the weights, which Trainer does not keep."""

    def __init__(self, model):
        self.ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))

    def on_step_end(self, arguments, state, control, model=None, **_):
        self.ema.update_parameters(model)

    def on_save(self, arguments, state, control, **_):
        torch.save(self.ema.state_dict(), Path(arguments.output_dir, f"checkpoint-{state.global_step}", "ema.pt"))


class Telling(Trainer):
    """Adds every loss with all its digits to a file: Trainer's own log rounds it."""

    def training_step(self, *arguments, **more):
        loss = super().training_step(*arguments, **more)
        with open(Path(self.args.output_dir, "metrics.jsonl"), "a") as file:
            print(json.dumps({"step": self.state.global_step + 1, "loss": loss.item()}), file=file)
        return loss


def main():
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data, model = Data(), Net()
    average = Average(model)
    arguments = TrainingArguments(
        output_dir=folder, max_steps=STEPS, learning_rate=1e-2, per_device_train_batch_size=16, save_steps=EVERY,
        report_to="none", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    # One that was being written when its life ended has no average yet, which is written last.
    done = sorted(folder.glob("checkpoint-*/ema.pt"), key=lambda path: int(path.parent.name.split("-")[1]))
    if done:
        average.ema.load_state_dict(torch.load(done[-1]))
    trainer = Telling(model, arguments, train_dataset=data, callbacks=[average])
    trainer.train(resume_from_checkpoint=str(done[-1].parent) if done else None)
    torch.save(
        {
            "model": model.state_dict(), "optimizer": trainer.optimizer.state_dict(), "ema": average.ema.state_dict(),
            "scheduler": trainer.lr_scheduler.state_dict(), "rng": torch.get_rng_state(),
        },
        folder / "final.pt",
    )  # fmt: skip


if __name__ == "__main__":
    main()
