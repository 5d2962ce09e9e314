"""What `./dev bench` measures: its help, its page and its parser are made of these."""

CASES = {
    "save": "(beside PyTorch)",
    "load": "(beside PyTorch)",
    "ettr": "(the share of time that was training, with kills; options of its own)",
    "step": "(what a step costs that saves nothing; options of its own)",
}
BESIDE = ("ettr", "step")  # in files of their own
LATER = ("stall", "small", "scale", "interference")  # known, and refused
