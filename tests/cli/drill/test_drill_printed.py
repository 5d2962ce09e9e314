"""The drill for checkpoints that are not Unbroken's: scripts with torch.save, right ones and wrong ones."""

import html.parser
import json
import re
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import program
import pytest
from program import unbroken

REGEX = r"step (?P<step>\d+) loss (?P<loss>\S+)"

#: train.py DIR STEPS: a small training that keeps its own checkpoints; the wrong ones are made of it
TORCH = """
import os, sys, time
import torch

folder, steps = sys.argv[1], int(sys.argv[2])
torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Dropout(0.3), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
path, done = f"{folder}/last.pt", 0
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["rng"])
    done = saved["done"]


def state():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(),
            "done": done, "folder": folder}


def save(to):
    torch.save(state(), to + ".tmp")
    os.replace(to + ".tmp", to)


for step in range(done + 1, steps + 1):
    batch = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    done = step
    print(f"step {step} loss {loss.item():.9g}")
    time.sleep(0.006)
    if step % 4 == 0:
        save(path)
torch.save(state(), f"{folder}/final.pt")
"""


@pytest.fixture
def tmp_path(in_memory):
    """Processes are killed here and no power is lost."""
    return in_memory


def write(tmp_path, code):
    path = tmp_path / "train.py"
    path.write_text(code)
    return [sys.executable, path]


def changed(code, *changes):
    for before, after in changes:
        assert before in code, before
        code = code.replace(before, after)
    return code


def drill(tmp_path, command, *options):
    """(status, result, stderr)."""
    status, out, err = unbroken("drill", "--json", "--dir", tmp_path / "drill", *options, "--", *command)
    return status, json.loads(out), err


def drill_torch(tmp_path, *changes, options=(), steps=28):
    pytest.importorskip("torch")
    command = [*write(tmp_path, changed(TORCH, *changes)), "{dir}", str(steps)]
    return drill(tmp_path, command, "--loss-regex", REGEX, "--final", "{dir}/final.pt", *options)


ONCE = ["--kills", "1"]


def test_a_right_one_passes(tmp_path):
    status, said, err = drill_torch(tmp_path)
    assert status == 0, (said, err)
    assert said["ok"] and said["deterministic"] and said["first_difference"] is None
    assert said["kills"] == 3 and said["resumes"] >= 1 and said["steps"] == 28
    assert said["final_differs"] == [] and said["not_attached"] == [] and said["explanation"] == ""
    killed = [life["killed"] for life in said["lives"] if life["killed"]]
    assert {k.split(" at ")[0] for k in killed} == {"SIGKILL", "SIGTERM", "SIGSTOP and SIGKILL"}
    # Each kill is somewhere: at a file that is being written, or at a step.
    assert all(re.search(r" at (the (first write|close|rename) (to|of) \S+|step \d+)$", k) for k in killed), killed
    assert said["lives"][-1]["ended"] == "finished"


class Page(html.parser.HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        fetched = {name for name, _ in attributes} & {"src", "href", "srcset", "data", "action"}
        assert not fetched and tag not in ("script", "link", "iframe", "img", "object"), (tag, attributes)

    def handle_data(self, data):
        self.text += data

    def count(self, tag):
        return sum(found == tag for found, _ in self.tags)


def test_the_report_shows_curves_and_kills_and_nothing_of_the_commands_as_markup(tmp_path):
    evil = "</code><script>alert(1)</script>"
    code = changed(PLAIN, ('"train_loss"', f'"train_loss", "{evil}loss"'), ("step, x,", "step, x, x,"))
    command = [*write(tmp_path, code), "{dir}/m.csv", "40", evil]
    status, said, err = drill(tmp_path, command, "--metrics", "{dir}/m.csv", "--at", "steps")
    assert status == 0, (said, err)
    page = Page(Path(said["report"]))
    assert page.count("svg") == 3 and page.count("polyline") == 2 * (1 + len(said["lives"]))  # two columns, the lives
    for number, life in enumerate(said["lives"], 1):
        assert (f"kill {number}" in page.text) == bool(life["killed"])
        assert not life["killed"] or life["killed"] in page.text
    assert evil in page.text and "continues bit for bit" in page.text
    for drawing in re.findall(r"<svg.*?</svg>", Path(said["report"]).read_text(), re.DOTALL):
        xml.dom.minidom.parseString(drawing)


def test_the_report_of_a_drill_that_failed_names_what_differs(tmp_path):
    forgets = changed(PLAIN, ('x, velocity, done = saved["x"], saved["velocity"], saved["done"]', 'x, done = saved["x"], saved["done"]'))
    command = [*write(tmp_path, forgets), "{dir}/m.csv", "40"]
    status, said, _ = drill(tmp_path, command, "--metrics", "{dir}/m.csv", "--kills", "1")
    page = Page(Path(said["report"]))
    assert status == 65 and "First difference" in page.text and said["explanation"] in page.text
    assert said["first_difference"]["straight"] in page.text and said["first_difference"]["other"] in page.text


def test_a_forgotten_optimizer_is_caught(tmp_path):
    status, said, _ = drill_torch(tmp_path, ('optimizer.load_state_dict(saved["optimizer"])', "pass"), options=ONCE)
    assert status == 65 and said["ok"] is False and said["deterministic"] is True
    began = next(life["began"] for life in said["lives"] if life["began"])
    # The first loss after the resume is computed before the optimizer acts.
    assert (said["first_difference"]["name"], said["first_difference"]["step"]) == ("loss", began + 2)
    assert said["forgotten"] == ["optimizer"] and "does not bring back: optimizer." in said["explanation"]
    assert any(name.startswith("optimizer.state.") for name in said["final_differs"])


def test_a_forgotten_generator_is_caught(tmp_path):
    status, said, _ = drill_torch(tmp_path, ('torch.set_rng_state(saved["rng"])', "pass"), options=ONCE)
    assert status == 65 and said["ok"] is False and said["deterministic"] is True
    began = next(life["began"] for life in said["lives"] if life["began"])
    assert (said["first_difference"]["name"], said["first_difference"]["step"]) == ("loss", began + 1)
    assert said["forgotten"] == ["torch's generator"] and "torch's generator" in said["explanation"]


#: the batch gets noise of generators that are kept, and one of which is not brought back
NOISY = [
    ("import torch\n", "import random\nimport numpy\nimport torch\n"),
    ("torch.set_num_threads(1)\n",
     "torch.set_num_threads(1)\nrandom.seed(1)\nnumpy.random.seed(1)\nnoise = torch.Generator().manual_seed(1)\ndata = list(range(99))\n"),
    ("torch.Generator().manual_seed(step))",
     "torch.Generator().manual_seed(data[place]))\n    place += 1\n"
     "    batch += torch.randn(16, 8, generator=noise) + random.random() + numpy.random.rand()"),
    ("path, done =", "place = 0\npath, done ="),
    ('"done": done,', '''"done": done, "place": place, "noise": noise.get_state(), "python": random.getstate(),
            "numpy": numpy.random.get_state(),'''),
    ("torch.load(path)", "torch.load(path, weights_only=False)"),
]  # fmt: skip
RESTORED = {
    "generator noise": 'noise.set_state(saved["noise"])', "Python's generator": 'random.setstate(saved["python"])',
    "numpy's generator": 'numpy.random.set_state(saved["numpy"])', "the position in the data": 'place = saved["place"]',
}  # fmt: skip


@pytest.mark.parametrize("lost", [
    ["generator noise"], ["Python's generator", "numpy's generator"], ["the position in the data"],
    ["generator noise", "the position in the data"],
])  # fmt: skip
def test_a_generator_that_noises_the_batch_is_no_position_in_the_data(tmp_path, lost):
    back = "".join(f"    {line}\n" for name, line in RESTORED.items() if name not in lost)
    changes = [*NOISY, ('    done = saved["done"]\n', f'    done = saved["done"]\n{back}')]
    status, said, err = drill_torch(tmp_path, *changes, options=ONCE)
    assert status == 65 and said["deterministic"] is True, err
    assert sorted(said["forgotten"]) == sorted(lost), said["forgotten"]


def test_what_only_the_final_state_shows_is_named(tmp_path):
    # Of an average of the weights, which nothing trains with.
    average = ("path, done =", "mean = torch.zeros(64, 8)\npath, done =")
    moved = ("    done = step\n", "    done = step\n    mean = 0.9 * mean + 0.1 * model[0].weight.detach()\n")
    kept = ('"done": done,', '"done": done, "mean": mean,')
    status, said, _ = drill_torch(tmp_path, average, moved, kept, options=ONCE)
    assert status == 65 and said["first_difference"]["name"] == "mean" and said["first_difference"]["step"] == 28
    assert said["final_differs"] == ["mean"] and "mean" in said["explanation"]


def test_a_torn_checkpoint_is_caught_with_the_file_named(tmp_path):
    # A storage that takes a while.
    slowly = """    import io
    buffer = io.BytesIO()
    torch.save(state(), buffer)
    with open(to, "wb") as file:
        file.write(buffer.getvalue()[:5000])
        file.flush()
        time.sleep(0.3)
        file.write(buffer.getvalue()[5000:])"""
    in_place = ('    torch.save(state(), to + ".tmp")\n    os.replace(to + ".tmp", to)', slowly)
    status, said, _ = drill_torch(tmp_path, in_place, options=["--kills", "6"])
    assert status == 65 and said["ok"] is False, said
    assert said["first_difference"]["name"] == "status 1"
    assert "last.pt was being written when life" in said["explanation"] and "rename" in said["explanation"]


#: the same idea without torch, which starts in no time: train.py METRICS STEPS
PLAIN = """
import csv, json, os, random, sys, time
metrics, steps = sys.argv[1], int(sys.argv[2])
folder = os.environ["UNBROKEN_DIR"]
random.seed(3)
x, velocity, done = 1.0, 0.0, 0
if os.path.exists(f"{folder}/state.json"):
    saved = json.load(open(f"{folder}/state.json"))
    x, velocity, done = saved["x"], saved["velocity"], saved["done"]
    state = saved["random"]
    random.setstate((state[0], tuple(state[1]), state[2]))
log = open(metrics, "a", newline="")
rows = csv.writer(log)
if not log.tell():
    rows.writerow(["epoch", "step", "train_loss", "seconds"])
for step in range(done + 1, steps + 1):
    velocity = 0.9 * velocity + random.gauss(0, 1)
    x += velocity
    rows.writerow([0, step, x, time.time()])
    log.flush()
    time.sleep(0.006)
    if step % 3 == 0:
        with open(f"{folder}/state.tmp", "w") as file:
            json.dump({"x": x, "velocity": velocity, "done": step, "random": random.getstate()}, file)
        os.replace(f"{folder}/state.tmp", f"{folder}/state.json")
"""


@pytest.mark.parametrize("at", ["points", "steps", "random"])
def test_metrics_from_a_csv(at, tmp_path):
    command = [*write(tmp_path, PLAIN), "{dir}/metrics.csv", "40"]
    status, said, err = drill(tmp_path, command, "--metrics", "{dir}/metrics.csv", "--at", at)
    assert status == 0, (said, err)
    assert (said["steps"], said["kills"], said["deterministic"]) == (40, 3, True) and said["resumes"] >= 1


def test_what_a_csv_shows_is_caught(tmp_path):
    command = [*write(tmp_path, changed(PLAIN, ('x, velocity, done = saved["x"], saved["velocity"], saved["done"]',
                                                'x, done = saved["x"], saved["done"]'))), "{dir}/metrics.csv", "40"]
    status, said, _ = drill(tmp_path, command, "--metrics", "{dir}/metrics.csv")
    assert status == 65 and said["first_difference"]["name"] == "train_loss"


JSON_LINES = [
    ("rows = csv.writer(log)\n", ""),
    ('if not log.tell():\n    rows.writerow(["epoch", "step", "train_loss", "seconds"])\n', ""),
    ("rows.writerow([0, step, x, time.time()])",
     'print(json.dumps({"step": step, "loss": x if step > 2 else float("nan")}), file=log)'),
]  # fmt: skip


def test_metrics_from_json_lines_with_pythons_nan(tmp_path):
    command = [*write(tmp_path, changed(PLAIN, *JSON_LINES)), "{dir}/m.jsonl", "30"]
    status, said, err = drill(tmp_path, command, "--metrics", "{dir}/m.jsonl", "--kills", "1")
    assert status == 0, (said, err)


def test_a_command_that_is_different_each_time_is_told(tmp_path):
    command = [*write(tmp_path, changed(PLAIN, ("random.seed(3)", "random.seed()"))), "{dir}/m.csv", "6"]
    status, said, _ = drill(tmp_path, command, "--metrics", "{dir}/m.csv")
    assert status == 65 and (said["deterministic"], said["kills"]) == (False, 0)
    assert (said["first_difference"]["step"], said["first_difference"]["name"]) == (1, "train_loss")


def test_a_metrics_file_outside_the_directory_is_one_for_all_runs(tmp_path):
    command = [*write(tmp_path, PLAIN), tmp_path / "all.csv", "40"]
    for _ in range(2):  # the second drill finds what the first one wrote
        status, said, err = drill(tmp_path, command, "--metrics", tmp_path / "all.csv", "--kills", "1")
        assert status == 0 and said["steps"] == 40, (said, err)


def refused(tmp_path, command, *options):
    status, said, _ = drill(tmp_path, command, *options)
    assert status == 78, said
    assert said["error"]["kind"] == "Misconfigured" and said["error"]["next_command"]
    return said["error"]["message"]


@pytest.mark.parametrize(("options", "said"), [
    (["--loss-regex", "(?P<step>"], "--loss-regex"),
    (["--loss-regex", r"step (\d+) loss (\S+)"], "no group named step"),
    (["--loss-regex", r"step (?P<step>\d+)"], "no group named loss"),
    (["--loss-regex", r"(?P<step>\d+)(?=x)(?P<loss>.)"], "--loss-regex"),
    (["--loss-regex", r"(?P<step>\d+)(?P<loss>(((a{100}){100}){100}))"], "--loss-regex"),
    (["--loss-regex", ""], "--loss-regex"),
    (["--loss-regex", REGEX, "--metrics", "m.csv"], "--metrics"),
    (["--metrics", "metrics.txt"], "--metrics"),
    (["--final", "final.pt"], "--final"),
])  # fmt: skip
def test_flags_that_are_wrong_are_78_before_anything_runs(options, said, tmp_path):
    assert said in refused(tmp_path, ["touch", tmp_path / "ran"], *options)
    assert not (tmp_path / "ran").exists()


def test_both_spellings_of_a_group_are_known_and_others_are_compared_too(tmp_path):
    code = changed(PLAIN, ("    log.flush()", '    print("step", step, "loss", x, "acc", step % 5)'))
    command = [*write(tmp_path, code), "{dir}/m.csv", "30"]
    regex = r"step (?<step>\d+) loss (?<loss>\S+) acc (?P<acc>\d)"
    status, said, err = drill(tmp_path, command, "--loss-regex", regex, "--kills", "1")
    assert status == 0 and said["steps"] == 30, (said, err)


def test_a_command_that_prints_no_step_is_78(tmp_path):
    assert "--loss-regex" in refused(tmp_path, ["echo", "nothing"], "--loss-regex", REGEX)
    assert '"one"' in refused(tmp_path, ["echo", "step one loss 1"], "--loss-regex", r"step (?P<step>\S+) loss (?P<loss>.)")
    assert "nothing was written" in refused(tmp_path, ["true"], "--metrics", "{dir}/m.csv")
    command = ["sh", "-c", "echo epoch,accuracy > {dir}/m.csv"]
    assert "epoch, accuracy" in refused(tmp_path, command, "--metrics", "{dir}/m.csv")


def test_a_final_state_that_is_not_there_or_cannot_be_read_is_78(tmp_path):
    message = refused(tmp_path, ["echo", "step 1 loss 1"], "--loss-regex", REGEX, "--final", "{dir}/final.pt")
    assert "--final" in message and "did not write" in message
    (tmp_path / "final.pt").write_text("old")  # of an earlier day
    message = refused(tmp_path, ["echo", "step 1 loss 1"], "--loss-regex", REGEX, "--final", tmp_path / "final.pt")
    assert "did not write" in message
    command = ["sh", "-c", "echo step 1 loss 1; echo junk > {dir}/final.pt"]
    assert "--final" in refused(tmp_path, command, "--loss-regex", REGEX, "--final", "{dir}/final.pt")


def test_a_final_state_that_runs_code_is_refused_and_nothing_runs(tmp_path):
    code = f"""
import os, pickle
class Evil:
    def __reduce__(self):
        return os.system, ("touch {tmp_path}/ran",)
pickle.dump(Evil(), open(os.environ["UNBROKEN_DIR"] + "/final.pt", "wb"))
print("step 1 loss 1")
"""
    message = refused(tmp_path, write(tmp_path, code), "--loss-regex", REGEX, "--final", "{dir}/final.pt")
    assert "--final" in message and not (tmp_path / "ran").exists()


def test_a_drill_that_proves_nothing_is_78(tmp_path):
    never_saves = changed(PLAIN, ("step % 3 == 0", "False"))
    command = [*write(tmp_path, never_saves), "{dir}/m.csv", "10"]
    assert "prove nothing" in refused(tmp_path, command, "--metrics", "{dir}/m.csv")
    # It is killed, and each time it begins again from the start.
    forgets_all = changed(PLAIN, ('if os.path.exists(f"{folder}/state.json"):', "if False:"))
    command = [*write(tmp_path, forgets_all), "{dir}/m.csv", "20"]
    assert "prove nothing" in refused(tmp_path, command, "--metrics", "{dir}/m.csv")


def test_state_that_lies_outside_the_directory_is_78(tmp_path):
    outside = changed(PLAIN, ('folder = os.environ["UNBROKEN_DIR"]', f'folder = "{tmp_path}"'))
    command = [*write(tmp_path, outside), "{dir}/m.csv", "20"]
    message = refused(tmp_path, command, "--metrics", "{dir}/m.csv")
    assert "$UNBROKEN_DIR" in message


def test_output_of_any_kind_and_size_neither_hangs_nor_grows(tmp_path):
    noise = """
    if step == 5:
        out = sys.stdout.buffer
        block = bytes(range(256)).replace(b"\\n", b"") * 4096
        for i in range(100):
            out.write(block)
        out.write(b"\\n" * 1000000 + b"(" * 1000000 + b"\\n")
        out.flush()
    print(f"step {step} loss {x}")
"""
    code = changed(PLAIN, ("    log.flush()\n", noise))
    command = [*write(tmp_path, code), "{dir}/m.csv", "20"]
    # Backtracking would never come to an end in the long line.
    regex = r"(\(+)*(\(*)*x|step (?P<step>\d+) loss (?P<loss>\S+)"
    options = ["--loss-regex", regex, "--kills", "1", "--json", "--dir", tmp_path / "drill"]
    # A small process in between: what is measured of a child begins with the size of whoever starts it.
    measure = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=open(sys.argv[1], "w")).returncode
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    measured = [sys.executable, "-c", measure, tmp_path / "out", program.PROGRAM, "drill", *options, "--", *command]
    done = subprocess.run(list(map(str, measured)), env=program.CLEAN, stdout=subprocess.PIPE, text=True)
    status, kilobytes = map(int, done.stdout.split())
    said = json.loads((tmp_path / "out").read_text())
    assert status == 0 and said["steps"] == 20, said
    assert kilobytes < 90 * 1024  # kilobytes, the command's own too; 100 MB went by


def test_what_is_printed_goes_to_stderr_without_json(tmp_path):
    command = ["sh", "-c", "echo step 1 loss 1; echo bye"]
    status, out, err = unbroken("drill", "--loss-regex", REGEX, "--dir", tmp_path / "drill", "--", *command)
    assert status == 78 and out == "" and err.count("bye") >= 2


def test_a_graceful_stop_with_status_0_is_no_end(tmp_path):
    """A command that saves and leaves with 0 when it is told to stop has not finished."""
    graceful = changed(PLAIN, ("import csv,", "import signal, csv,"),
                       ("for step in range", "told = []\nsignal.signal(signal.SIGTERM, lambda *_: told.append(1))\nfor step in range"),
                       ("step % 3 == 0", "step % 3 == 0 or told"),
                       ('        os.replace(f"{folder}/state.tmp", f"{folder}/state.json")\n',
                        '        os.replace(f"{folder}/state.tmp", f"{folder}/state.json")\n    if told:\n        sys.exit(0)\n'))
    command = [*write(tmp_path, graceful), "{dir}/m.csv", "40"]
    status, said, err = drill(tmp_path, command, "--metrics", "{dir}/m.csv", "--at", "steps")
    assert status == 0, (said, err)
    told = [life for life in said["lives"] if (life["killed"] or "").startswith("SIGTERM")]
    assert told and told[0]["ended"] == "status 0" and said["kills"] == 3


def test_the_files_of_a_drill_with_json(tmp_path):
    command = ["sh", "-c", "echo step 1 loss 1"]
    drill(tmp_path, command, "--loss-regex", REGEX)
    outputs = list((tmp_path / "drill").rglob("*.out"))
    assert outputs and all("step 1" in path.read_text() for path in outputs)
