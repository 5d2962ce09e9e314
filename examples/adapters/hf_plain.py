"""A training by transformers.Trainer: the twin of hf.py without Unbroken."""

import hashlib
import os
import sys
from pathlib import Path

sys.path = [path for path in sys.path if Path(path) != Path(__file__).parent]  # a library has a name from this folder

import torch
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Data:
    """200 regressions."""

    def __init__(self):
        self.x = torch.randn(200, 8)

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


def digest(model):
    """Of all parameters, in hex."""
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data, model = Data(), Net()
    path = os.environ.get("UNBROKEN_DIR", "runs/hf")
    arguments = TrainingArguments(
        output_dir=path, max_steps=60, learning_rate=1e-2, per_device_train_batch_size=16, logging_steps=1,
        save_strategy="steps", save_steps=5, report_to="none", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(path) if os.path.isdir(path) else None)
    print(f"final step={trainer.state.global_step} digest={digest(model)}")


if __name__ == "__main__":
    main()
