"""What `./dev bench` measures: its help, its page and its parser are made of these."""

CASES = {
    "save": "(300 tensors until they are durable, beside others and beside the device)",
    "load": "(the same, read from a cold cache and verified)",
    "small": "(both, of tensors of 20 KiB)",
    "scale": "(the same bytes in one tensor and in ever more of them)",
    "ettr": "(the share of time that was training, with kills; options of its own)",
    "step": "(what a step costs that saves nothing; options of its own)",
    "venvs": "(installs those that are raced)",
}
BESIDE = ("ettr", "step", "venvs")  # in files of their own
LATER = ("stall", "interference")  # known, and refused
