"""import: what the trainers of two frameworks write, as they wrote it."""

import pytest
import torch
from program import unbroken_json
from test_import import brought_in, refused, same


def plain(value):
    """With parameters as the tensors that they come back as."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(plain(item) for item in value)
    return value


def whole(path, tmp_path):
    """The file comes back as torch itself reads it."""
    found, _ = brought_in(path, tmp_path / f"{path.name}.run")
    same(plain(torch.load(path, weights_only=False)), plain(dict(found)))


def test_a_checkpoint_of_lightning(tmp_path):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self, hidden=4):
            super().__init__()
            self.save_hyperparameters()
            self.layers = torch.nn.Sequential(torch.nn.Linear(3, hidden), torch.nn.BatchNorm1d(hidden), torch.nn.Linear(hidden, 1))

        def training_step(self, batch, _):
            loss = self.layers(batch[0]).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters())
            return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)]

    callbacks = lightning.pytorch.callbacks
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[callbacks.ModelCheckpoint(tmp_path, filename="a", monitor="loss"), callbacks.EarlyStopping("loss"),
                   callbacks.StochasticWeightAveraging(0.1, swa_epoch_start=1)])  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 3)), 8))
    whole(tmp_path / "a.ckpt", tmp_path)


def test_a_checkpoint_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
                                     vocab_size=16, max_position_embeddings=16)  # fmt: skip
    data = [{"input_ids": torch.randint(0, 16, (8,)), "labels": torch.tensor(i % 2)} for i in range(16)]
    arguments = transformers.TrainingArguments(tmp_path, max_steps=2, save_steps=2, per_device_train_batch_size=4, report_to=[],
                                               use_cpu=True, disable_tqdm=True)  # fmt: skip
    transformers.Trainer(transformers.BertForSequenceClassification(config), arguments, train_dataset=data).train()
    folder = tmp_path / "checkpoint-2"
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        whole(folder / name, tmp_path)
    found, _ = brought_in(folder / "model.safetensors", tmp_path / "model")
    assert "classifier.weight" in found
    refused(folder / "training_args.bin", tmp_path / "none", "object (transformers.training_args.TrainingArguments)")
    assert unbroken_json("import", folder / "training_args.bin", "--to", tmp_path / "none")[1]["error"]["next_command"].startswith("ls ")
