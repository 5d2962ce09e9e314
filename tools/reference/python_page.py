"""python.md: signatures and docstrings of the public names, read without importing anything."""

import ast
import inspect
import textwrap

MADE = "<!-- Made by tools/reference: change what it is made from, then run it. -->"
WIDTH = 116

# What a person calls each name, the file below python/unbroken that defines it, the name there, and which members
# are public: "*" is all that have no underscore in front.
NAMES = {
    "Runs": [("unbroken.Run", "run.py", "Run", "*")],
    "One save": [("unbroken.Saving", "saving.py", "Saving", ["staging_completion", "upload_completion", "wait"])],
    "Without a loop": [
        ("unbroken.save", "functional.py", "save", []),
        ("unbroken.async_save", "functional.py", "async_save", []),
        ("unbroken.load", "loading.py", "load", []),
        ("unbroken.Checkpoint", "loading.py", "Checkpoint", []),
    ],
    "Data": [("unbroken.torch.DataLoader", "torch/loader.py", "DataLoader", ["state_dict", "load_state_dict"])],
    "What is not attached": [("unbroken.audit.Unattached", "audit.py", "Unattached", [])],
    "Loops of others": [
        ("unbroken.lightning.Callback", "_adapters/lightning.py", "Callback", ["run", "ckpt_path"]),
        ("unbroken.lightning.CheckpointIO", "_adapters/lightning.py", "CheckpointIO", []),
        ("unbroken.hf.Callback", "_adapters/hf.py", "Callback", ["run", "resume"]),
        ("unbroken.accelerate.attach", "_adapters/accelerate.py", "attach", []),
        ("unbroken.dcp.Writer", "_adapters/dcp.py", "Writer", []),
        ("unbroken.dcp.Reader", "_adapters/dcp.py", "Reader", []),
    ],
}
ERRORS = ["Error", "NothingToResume", "CorruptCheckpoint", "StateMismatch", "StorageUnavailable", "StorageFull",
          "Misconfigured", "Interrupted", "Superseded"]

PYTHON_INTRO = """\
What can be imported, with what each name promises. Durations are texts with a unit (`"10min"`), sizes are in bytes and
times in seconds where a name ends so. How a checkpoint is named (AT), and what `--json` prints, is on
[the program's page](program.md); [environment variables](environment.md) and [exit statuses](exit-statuses.md) have
pages of their own.
"""


def definition(root, file, name):
    """The node that defines a public name. Errors: SystemExit where it is gone or says nothing of itself."""
    path = root / "python/unbroken" / file
    for node in ast.parse(path.read_text()).body:
        if getattr(node, "name", None) == name:
            return node
    raise SystemExit(f"reference: {path} defines no {name}")


def said(node, name):
    """The docstring. Errors: SystemExit where there is none."""
    text = ast.get_docstring(node)
    if not text:
        raise SystemExit(f"reference: {name} has no docstring")
    return inspect.cleandoc(text)


def signature(name, function):
    """As a call is written: without self, and without what a later version brings."""
    arguments = function.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    if arguments.kwarg is not None and arguments.kwarg.arg == "later":
        arguments.kwarg = None
    end = f" -> {ast.unparse(function.returns)}" if function.returns is not None else ""
    line = f"{name}({ast.unparse(arguments)}){end}"
    return "\n".join(textwrap.wrap(line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False))


def is_property(node):
    return any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)


def member_text(name, node):
    if is_property(node):
        kind = f": {ast.unparse(node.returns)}" if node.returns is not None else ""
        return f"#### {name}\n\n```\n{name}{kind}\n```\n\n{said(node, name)}\n"
    return f"#### {name}\n\n```\n{signature(name, node)}\n```\n\n{said(node, name)}\n"


def name_text(root, called, file, name, members):
    node = definition(root, file, name)
    parts = [f"### {called}\n"]
    functions = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)} if isinstance(node, ast.ClassDef) else {}
    made = functions.get("__init__")
    if isinstance(node, ast.FunctionDef):
        parts.append(f"```\n{signature(called, node)}\n```\n")
    elif made is not None and called not in ("unbroken.Saving", "unbroken.Checkpoint"):  # these two are given, not made
        parts.append(f"```\n{signature(called, made)}\n```\n")
    parts.append(said(node, called) + "\n")
    if members == "*":
        members = [one for one in functions if not one.startswith("_")]
    for one in members:
        if one not in functions:
            raise SystemExit(f"reference: {called} has no {one}")
        parts.append(member_text(one, functions[one]))
    return "\n".join(parts)


def status_of(root, name):
    """The status that an error ends a process with, or None where its class does not say."""
    for one in definition(root, "errors.py", name).body:
        if isinstance(one, ast.Assign) and one.targets[0].id == "exit_code" and name != "Error":
            return one.value.value
    return None


def error_text(root, name):
    status = status_of(root, name)
    heading = f"### unbroken.{name}" + ("" if status is None else f" ({status})")
    return f"{heading}\n\n{said(definition(root, 'errors.py', name), name)}\n"


def python_page(root):
    parts = [f"# Python\n\n{MADE}\n\n{PYTHON_INTRO}"]
    for title, names in NAMES.items():
        parts.append(f"## {title}\n")
        parts += [name_text(root, *one) for one in names]
    errors = ast.get_docstring(ast.parse((root / "python/unbroken/errors.py").read_text()))
    parts.append(f"## Errors\n\n{errors}\n")
    parts += [error_text(root, name) for name in ERRORS]
    return "\n".join(parts)
