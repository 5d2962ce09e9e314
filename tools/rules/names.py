"""A rule for C++: a type has one home. Two headers that define one name make two types that a program may link as one."""

import re

NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
# At the start of a line, where members never stand. A name that is only announced, or made special, is not defined.
TYPE = re.compile(r"^(?:enum\s+(?:class|struct)|enum|struct|class)\s+([A-Z]\w*)\b(?!\s*<)(?=[^;({]*(?:\{|$))")


def named_types(file):
    """(name with its namespace, line) of each type that a header defines at the scope of a namespace."""
    namespace = ""
    for number, line in enumerate(file.code_lines, 1):
        if opened := NAMESPACE.match(line):
            namespace = opened.group(1)
        if named := TYPE.match(line):
            yield f"{namespace}::{named.group(1)}", number


def one_home(files, finding):
    """A finding for each type whose name another header before it defines in the same namespace."""
    homes = {}
    for file in files:
        if file.suffix != ".h":
            continue
        for name, number in named_types(file):
            home = homes.setdefault(name, file.path)
            if home != file.path:
                yield finding(file.path, number, "home", f"{home} defines {name} too: give one of them another name")
