"""The drill for trainings that keep their checkpoints with other libraries: examples/drill, and all that they might forget."""

import html
import json
import os
import sys
from pathlib import Path

import pytest
from program import ROOT, unbroken

IS_FULL = os.environ.get("UNBROKEN_TESTS") == "full"
PRINTED = ["--loss-regex", r"step (?P<step>\d+) loss (?P<loss>\S+)"]
#: script -> (the package it needs, where its losses are, its final state)
SCRIPTS = {
    "dcp": ("torch", PRINTED, "{dir}/final.pt"),
    "torch_save": ("torch", PRINTED, "{dir}/final.pt"),
    "lightning_fit": ("lightning", PRINTED, "{dir}/final.ckpt"),
    "hf_trainer": ("transformers", ["--metrics", "{dir}/metrics.jsonl"], "{dir}/final.pt"),
}

#: the script with torch.distributed.checkpoint, by torch.save
TORCH_SAVE = [
    ("*/.metadata", "*.pt"),
    ("done = sorted(folder.glob", "done = sorted(set(folder.glob"),
    ('"*.pt"))', '"*.pt")) - {folder / "final.pt"})'),
    ("        saved = state()\n        dcp.load(saved, checkpoint_id=done[-1].parent)\n", "        saved = torch.load(done[-1])\n"),
    ('dcp.save(state(), checkpoint_id=folder / f"{step:06}")',
     'torch.save(state(), folder / "new")\n            (folder / "new").rename(folder / f"{step:06}.pt")'),
]  # fmt: skip


def left_out(name):
    """It is in no checkpoint."""
    return [
        ("saved = state()", f'saved = state()\n        del saved["{name}"]'),
        ("dcp.save(state(),", f'dcp.save({{name: part for name, part in state().items() if name != "{name}"}},'),
    ]


def on_load(line):
    """Of what Lightning has read, something is lost."""
    hook = f"    def on_load_checkpoint(self, checkpoint):\n        {line}\n\n"
    return [("    def configure_optimizers", hook + "    def configure_optimizers")]


def instead_of_loading(line):
    """Trainer brings its optimizer and its scheduler back, and something is lost."""
    return [("    def training_step", f"""    def _load_optimizer_and_scheduler(self, checkpoint):
        new = self.lr_scheduler.state_dict()
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint:
            {line}

    def training_step""")]  # fmt: skip


def no_line(line):
    return [(line, "pass")]


ORDER = ["generator order.generator", "the position in the data"]
#: (script, forgotten, what is named, changes)
FORGETFUL = [
    ("dcp", "optimizer", ["optimizer"],
     [*left_out("optimizer"), ('optim_state_dict=saved["optimizer"]', "optim_state_dict=get_state_dict(model, optimizer)[1]")]),
    ("dcp", "scheduler", ["scheduler"], no_line('scheduler.load_state_dict(saved["scheduler"])')),
    ("dcp", "scaler", ["scaler"], no_line('scaler.load_state_dict(saved["scaler"])')),
    ("dcp", "ema", ["average ema"], [*left_out("ema"), *no_line('ema.load_state_dict(saved["ema"])')]),
    ("dcp", "order", ORDER, no_line('order.load_state_dict(saved["order"])')),
    ("dcp", "generator of the order", ["generator order.generator"], no_line('self.generator.set_state(state["generator"])')),
    ("dcp", "torch's generator", ["torch's generator"], no_line('torch.set_rng_state(saved["rng"])')),
    ("torch_save", "model", ["the model"], [('model_state_dict=saved["model"]', 'model_state_dict=model.state_dict()')]),
    ("torch_save", "optimizer", ["optimizer"],
     [('optim_state_dict=saved["optimizer"]', "optim_state_dict=get_state_dict(model, optimizer)[1]")]),
    ("torch_save", "scheduler", ["scheduler"], no_line('scheduler.load_state_dict(saved["scheduler"])')),
    ("torch_save", "scaler", ["scaler"], no_line('scaler.load_state_dict(saved["scaler"])')),
    ("torch_save", "ema", ["average ema"], no_line('ema.load_state_dict(saved["ema"])')),
    ("torch_save", "order", ORDER, no_line('order.load_state_dict(saved["order"])')),
    ("torch_save", "torch's generator", ["torch's generator"], no_line('torch.set_rng_state(saved["rng"])')),
    ("lightning_fit", "optimizer", ["optimizer AdamW"], on_load('checkpoint["optimizer_states"] = []')),
    ("lightning_fit", "scheduler", ["scheduler CosineAnnealingLR"], on_load('checkpoint["lr_schedulers"] = []')),
    ("lightning_fit", "scaler", ["scaler"], on_load('checkpoint.pop("MixedPrecision")')),
    ("lightning_fit", "ema", ["average AveragedModel"], on_load('checkpoint["state_dict"] = checkpoint["current_model_state"]')),
    ("lightning_fit", "order", ["the position in the data"], [("StatefulDataLoader(data", "torch.utils.data.DataLoader(data")]),
    ("lightning_fit", "torch's generator", ["torch's generator"], [("ema, Generator(), saver", "ema, saver")]),
    ("hf_trainer", "optimizer", ["optimizer AdamW"], instead_of_loading("self.optimizer.state.clear()")),
    ("hf_trainer", "scheduler", ["scheduler self.lr_scheduler"], instead_of_loading("self.lr_scheduler.load_state_dict(new)")),
    ("hf_trainer", "ema", ["average average.ema"], no_line("average.ema.load_state_dict(torch.load(done[-1]))")),
    # Where it skips nothing it takes the loader's seed after the generator came back, not before.
    ("hf_trainer", "order", ["torch's generator", "the position in the data"],
     [("save_steps=EVERY,", "save_steps=EVERY, ignore_data_skip=True,")]),
    ("hf_trainer", "torch's generator", ["torch's generator"],
     [("    trainer.train(", '    if done:\n        done[-1].with_name("rng_state.pth").unlink()\n    trainer.train(')]),
]  # fmt: skip
IN_SHORT = [("dcp", "scaler"), ("torch_save", "ema")]


@pytest.fixture
def tmp_path(in_memory):
    """Processes are killed here and no power is lost."""
    return in_memory


def drill(tmp_path, script, changes, *options):
    """(status, result, stderr)."""
    package, losses, final = SCRIPTS[script]
    pytest.importorskip(package, reason=f"{package} is not installed: ./dev setup --adapters")
    code = (ROOT / "examples/drill" / f"{'dcp' if script == 'torch_save' else script}.py").read_text()
    for before, after in [*(TORCH_SAVE if script == "torch_save" else []), *changes]:
        assert code.count(before) == 1, before
        code = code.replace(before, after)
    path = tmp_path / f"{script}.py"
    path.write_text(code)
    command = ["--final", final, "--json", "--dir", tmp_path / "drill", *options, "--", sys.executable, path, "{dir}"]
    status, out, err = unbroken("drill", *losses, *command, timeout=580)
    return status, json.loads(out), err


@pytest.mark.parametrize("script", SCRIPTS)
def test_one_that_forgets_nothing_continues_bit_for_bit(script, tmp_path):
    if not IS_FULL and script != "dcp":
        pytest.skip("one in dev test, all in dev ci --full")
    status, said, err = drill(tmp_path, script, [], "--kills", "2")
    assert status == 0, (said, err)
    assert said["ok"] and said["deterministic"] and said["steps"] == 32 and said["kills"] == 2 and said["resumes"] >= 1
    assert (said["first_difference"], said["final_differs"], said["forgotten"], said["explanation"]) == (None, [], [], "")


@pytest.mark.parametrize(("script", "forgotten", "named", "changes"), FORGETFUL, ids=[f"{one[0]}-{one[1]}" for one in FORGETFUL])
def test_what_one_forgets_is_caught_and_named(script, forgotten, named, changes, tmp_path):
    if not IS_FULL and (script, forgotten) not in IN_SHORT:
        pytest.skip("a sample in dev test, all in dev ci --full")
    # Two: the first one may hit before anything could be resumed from.
    status, said, err = drill(tmp_path, script, changes, "--kills", "2")
    assert status == 65 and said["ok"] is False and said["deterministic"] is True, (said, err)
    assert said["forgotten"] == named, said
    assert f"does not bring back: {', '.join(named)}." in said["explanation"]
    assert said["explanation"] in html.unescape(Path(said["report"]).read_text())
