"""Rules for Python: the package never unpickles, never evaluates, imports frameworks only where they are used, and adapters
keep to the face of a Run."""

import ast
import re

LINE_MAX = 140
# Modules that turn bytes into objects by running what the bytes say.
UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle"}
EVALUATORS = {"eval", "exec", "compile", "__import__"}
LOADERS = {("torch", "load"), ("torch", "save"), ("np", "load"), ("numpy", "load")}
MAY_CALL = {"python/unbroken/_adapters/dcp.py": {("torch", "save")}}  # in memory, for a planner that wants it so
FRAMEWORKS = {"torch", "jax", "lightning", "transformers", "accelerate"}
ADAPTERS = "python/unbroken/_adapters/"  # each of them needs its framework
INSIDE_RUN = re.compile(r"\brun\._(?!inside\b|_)\w+")


def python_rules(files, finding):
    for file in files:
        if not (file.suffix == ".py" or file.text.startswith("#!/usr/bin/env python3")):
            continue
        try:
            tree = ast.parse(file.text)
        except SyntaxError as wrong:
            yield finding(file.path, wrong.lineno or 1, "python", f"does not parse: {wrong.msg}")
            continue
        for number, line in enumerate(file.lines, 1):
            if len(line) > LINE_MAX:
                yield finding(file.path, number, "python", f"{len(line)} columns: {LINE_MAX} at most")
        if file.lines and not ast.get_docstring(tree) and not file.path.startswith("tests/"):
            yield finding(file.path, 1, "header", "a docstring says what this is")
        if file.path.startswith("python/unbroken/"):
            yield from package_rules(file, tree, finding)
        if file.path.startswith((ADAPTERS, "bench/")):
            for number, line in enumerate(file.lines, 1):
                if INSIDE_RUN.search(line):
                    yield finding(file.path, number, "face", f"{INSIDE_RUN.search(line).group()}: take it from run._inside")
        if file.path.startswith("tests/") or file.path.startswith("examples/"):
            for number, line in enumerate(file.lines, 1):
                if re.search(r"\btime\.sleep\(", line) and file.path.startswith("tests/python/"):
                    yield finding(file.path, number, "seam", "no sleeps in tests: wait for the thing itself")


def package_rules(file, tree, finding):
    def found(node, what):
        return finding(file.path, node.lineno, "pickle", what)
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        for name in names:
            if name.split(".")[0] in UNPICKLERS:
                yield found(node, f"import {name}: the package never unpickles")
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in EVALUATORS:
                yield found(node, f"{called.id}(): the package never evaluates anything")
            if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                if (called.value.id, called.attr) in LOADERS - MAY_CALL.get(file.path, set()):
                    yield found(node, f"{called.value.id}.{called.attr}(): the package never unpickles")
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and not (isinstance(keyword.value, ast.Constant) and
                                                          keyword.value.value is False):
                    yield found(node, "allow_pickle: the package never unpickles")
    for node in tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
            [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module else [])
        for name in names:
            framework = name.split(".")[0]
            is_needed = file.path.startswith(ADAPTERS) or framework in file.path.removeprefix("python/unbroken/")
            if framework in FRAMEWORKS and not is_needed:
                yield finding(file.path, node.lineno, "framework",
                              f"import {name} inside the function that needs it: the package imports without it")
