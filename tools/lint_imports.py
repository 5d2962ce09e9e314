"""A rule for the package: its modules import in one direction, inside functions as well."""

import ast

PACKAGE = "python/"


def module_of(path):
    """unbroken.errors, of python/unbroken/errors.py."""
    return path.removeprefix(PACKAGE).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(text, modules):
    """(line, module) of every import of one of `modules`; none where the text does not parse, which is said elsewhere."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in inner]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name in modules)


def circles(files, finding):
    """A finding for each import that leads back to the module which imports."""
    package = [file for file in files if file.path.startswith(PACKAGE + "unbroken/") and file.suffix == ".py"]
    modules = {module_of(file.path): file for file in package if not file.path.endswith("__init__.py")}
    edges = {name: list(imports(file.text, modules)) for name, file in modules.items()}

    def reaches(start, goal):
        seen, pending = set(), [start]
        while pending:
            name = pending.pop()
            if name == goal:
                return True
            if name not in seen:
                seen.add(name)
                pending += [target for _, target in edges[name]]
        return False

    for name, targets in edges.items():
        for line, target in targets:
            if reaches(target, name):
                yield finding(modules[name].path, line, "circle", f"{target} imports {name} again, by whatever way")
