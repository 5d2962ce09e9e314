"""What `./dev bench` measures: its help, its page and its parser are made of these."""

CASES = {
    "save": "(300 tensors until they are durable, beside others and beside the device)",
    "load": "(the same, read from a cold cache and verified)",
    "small": "(both, of tensors of 20 KiB)",
    "scale": "(the same bytes in one tensor and in ever more of them)",
    "stall": "(what a training waits for a save that goes on behind it)",
    "interference": "(how much slower its steps are meanwhile, beside fio at the same rate)",
    "ettr": "(the share of time that was training, with kills; options of its own)",
    "step": "(what a step costs that saves nothing; options of its own)",
    "blocks": "(whether other blocks than ours would be faster in a directory; options of its own)",
    "venvs": "(installs those that are raced)",
    "page": "(puts results into docs/concepts/speed.md)",
}
BESIDE = ("ettr", "step", "blocks", "venvs", "page")  # in files of their own
