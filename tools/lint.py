"""`dev lint`: the house rules that a machine can check (STYLE.md). Prints `path:line: rule: what to do`.

A rule takes the files of a tree and yields findings; tests/tools/test_lint.py plants one line for each rule.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time
import typing

import reference
from known_failures import known_failures
from lint_imports import circles
from lint_python import python_rules
from lint_symbols import symbols
from reference.tree import ROOT, Finding, is_text, tracked
from rules.names import one_home

CLANG_FORMAT = "clang-format-19"
FILE_LINES_MAX = 600
FOLDER_LINES_MAX = 2500
BINDING_LINES_MAX = 1000
CODE = (".h", ".cc", ".py")


class Source:
    """One file: its text, and for C++ the same text with comments and strings blanked, line for line."""

    def __init__(self, root, path):
        self.path = path
        self.suffix = pathlib.PurePath(path).suffix
        self.raw = (root / path).read_bytes()
        self.text = self.raw.decode(errors="replace")
        self.lines = self.text.splitlines()
        self.code = blank(self.text) if self.suffix in (".h", ".cc") else self.text
        self.code_lines = self.code.splitlines()

    @property
    def is_test(self):
        """Tests, and the headers that only tests include."""
        return (self.path.startswith("tests/") or self.path.endswith(("_test.cc", "_fuzz.cc"))
                or os.path.basename(self.path).startswith("test_"))

    @property
    def module(self):
        parts = self.path.split("/")
        return parts[1] if parts[0] == "src" and len(parts) > 2 else None


TOKENS = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/'
                    r'|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'')


def blank(text):
    """C++ text with comments and literals replaced by spaces; include lines keep their names."""
    def hide(match):
        return re.sub(r"[^\n]", " ", match.group())
    kept = "\n".join("" if line.startswith("#include") else line for line in text.split("\n"))
    hidden = TOKENS.sub(hide, kept).split("\n")
    return "\n".join(line if line.startswith("#include") else hidden[index]
                     for index, line in enumerate(text.split("\n")))


def cpp_files(root):
    return [path for path in tracked(root) if path.endswith((".h", ".cc"))]


# --- Seams: only os/ talks to the machine --------------------------------------------------------------------

# What each line may not say, and the seam that gives it. The object files are checked as well (lint_symbols.py).
CALLS = [
    (r"\b(?:steady|system|high_resolution|utc|file)_clock\b", "time comes from Clock"),
    (r"\b(?:sleep|usleep|nanosleep|sleep_for|sleep_until)\s*\(", "waiting goes through Executor::wait"),
    (r"\b(?:rand|srand|drand48|getrandom)\s*\(|\brandom_device\b|\bmt19937", "chance comes from Random"),
    (r"\b(?:secure_)?getenv\s*\(", "the environment comes from Process::env"),
    (r"\bstd::(?:thread|jthread|async)\b|\bpthread_create\b", "work runs on Executor"),
    (r"\b(?:i|o)?fstream\b|\bfopen\s*\(|\bstd::filesystem\b|(?<![\w.>:])::(?:open|openat|read|write|unlink|rename|mkdir"
     r"|fsync|link)\s*\(", "files are reached through Fs or Store"),
    (r"(?<![\w.>])(?:::)?(?:fork|vfork|execv|execve|execvp|posix_spawnp?|syscall)\s*\(",
     "processes and system calls belong to os/"),
    (r"#include <(?:thread|fstream|filesystem|random|ctime|unistd\.h|fcntl\.h|dirent\.h|signal\.h|csignal"
     r"|sys/(?!types\.h|uio\.h)[\w/]+\.h|time\.h|pthread\.h|linux/[\w/]+\.h)>", "only os/ includes this"),
]
CALLS = [(re.compile(pattern), seam) for pattern, seam in CALLS]
SLEEP = CALLS[1]
# The worlds; and the composition roots, whose job is to speak with a terminal and to be killed.
OUTSIDE = {
    "os": None,
    "sim": re.compile(r"#include <sys/mman\.h>"),
    "base": re.compile(r"#include <sys/mman\.h>"),
    "cli": re.compile(r"#include <(?:unistd|signal|sys/ioctl)\.h>|#include <csignal>"),
    "session": re.compile(r"#include <(?:signal|unistd)\.h>|#include <csignal>"),
}


def seams(files):
    for file in files:
        if file.suffix not in (".h", ".cc"):
            continue
        if file.is_test:
            rules = [SLEEP]
        elif file.module or file.path.startswith(("include/", "bindings/")):
            rules = CALLS
        else:
            continue
        allowed = OUTSIDE.get(file.module, False)
        if allowed is None and not file.is_test:
            continue
        for number, line in enumerate(file.code_lines, 1):
            for pattern, seam in rules:
                if pattern.search(line) and not (allowed and allowed.search(line)):
                    yield Finding(file.path, number, "seam", f"`{pattern.search(line).group().strip()}`: {seam}")


RULES_TAKE_NO_SEAM = re.compile(r"\b(?:Clock|Random|Executor|Store|Fs|Process)\s*[&*]")
# A snapshot copies and hashes on the lanes of an executor; it decides nothing there.
MOVES_BYTES = {"snapshot": re.compile(r"\bExecutor\s*[&*]")}


def rules_without_seams(files, modules):
    """Rules and protocols are values in, values out: they are handed no seam."""
    for file in files:
        if file.module in modules and modules[file.module].layer in ("L2", "L3") and not file.is_test:
            for number, line in enumerate(file.code_lines, 1):
                line = MOVES_BYTES[file.module].sub("", line) if file.module in MOVES_BYTES else line
                if RULES_TAKE_NO_SEAM.search(line):
                    yield Finding(file.path, number, "no-io",
                                  f"`{RULES_TAKE_NO_SEAM.search(line).group()}` in {modules[file.module].layer}: take "
                                  "a value, or answer with Actions")


# --- Layers --------------------------------------------------------------------------------------------------

class Module(typing.NamedTuple):
    name: str
    layer: str
    needs: tuple
    line: int


def read_modules(text):
    """The modules of cmake/modules.cmake, in order, with the layer that the comment above them names."""
    modules, layer = {}, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            named = re.match(r"# (L\d)\b", line)
            layer = named.group(1) if named else "" if line.startswith("# The") and number > 1 else layer
        found = re.match(r"unbroken_module\((\w+)([^)]*)\)", line)
        if found:
            needs = re.search(r"(?<!TEST_)DEPENDS\s+([\w\s]+?)(?=\s+(?:LIBRARIES|TEST_DEPENDS)|\s*$)", found.group(2))
            names = tuple(needs.group(1).split()) if needs else ()
            modules[found.group(1)] = Module(found.group(1), layer, names, number)
    return modules


def below(modules, name):
    """A module and all that it may include; needs that are not above it in the file are not followed."""
    found = {name}
    for need in modules[name].needs:
        if need in modules and modules[need].line < modules[name].line:
            found |= below(modules, need)
    return found


def layers(files, modules):
    order = list(modules)
    for module in modules.values():
        for need in module.needs:
            if need not in modules or order.index(need) >= order.index(module.name):
                yield Finding("cmake/modules.cmake", module.line, "layer",
                              f"{module.name} needs {need}, which is not above it")
        if module.layer == "L3":
            for other in below(modules, module.name) - {module.name}:
                if modules[other].layer == "L3":
                    yield Finding("cmake/modules.cmake", module.line, "layer",
                                  f"{module.name} includes {other}: protocols never include each other")
    reach = {name: below(modules, name) for name in modules}
    for file in files:
        for number, line in enumerate(file.lines, 1):
            if re.match(r'\s*#\s*include\s+"\.\.?/', line):
                yield Finding(file.path, number, "include", "name the module: #include \"module/file.h\"")
            named = re.match(r'\s*#\s*include\s+"(\w+)/', line)
            if named and file.module in reach and not file.is_test and named.group(1) in modules:
                if named.group(1) not in reach[file.module]:
                    yield Finding(file.path, number, "layer", f"{file.module} may not include {named.group(1)}")


# --- Size, text, words ---------------------------------------------------------------------------------------

def sizes(files):
    folders = {}
    for file in files:
        if file.suffix not in CODE:
            continue
        if len(file.lines) > FILE_LINES_MAX:
            yield Finding(file.path, FILE_LINES_MAX + 1, "size",
                          f"{len(file.lines)} lines: split it, {FILE_LINES_MAX} at most")
        # Tests beside their sources are counted apart.
        folder = (os.path.dirname(file.path), file.is_test)
        folders[folder] = folders.get(folder, 0) + len(file.lines)
    for (folder, _), lines in folders.items():
        limit = BINDING_LINES_MAX if folder == "bindings" else FOLDER_LINES_MAX
        if lines > limit:
            yield Finding(folder, 1, "size", f"{lines} lines: one idea a folder, {limit} at most")


def ascii_only(files):
    for file in files:
        if any(byte > 126 or byte < 32 and byte not in (9, 10) for byte in file.raw):
            for number, line in enumerate(file.raw.split(b"\n"), 1):
                bad = [byte for byte in line if byte > 126 or byte < 32 and byte != 9]
                if bad:
                    yield Finding(file.path, number, "ascii", f"byte 0x{bad[0]:02x}: plain ASCII only, \\n ends a line")
        if file.raw and not file.raw.endswith(b"\n"):
            yield Finding(file.path, len(file.lines), "ascii", "the last line has no end")


# Spelled in halves, so that this file may be checked by itself.
WORDS = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + "X|HA" + "CK|WI" + "P|TB" + r"D)\b")
PATHS = re.compile("/" + r"work/(?:main|shared)\b")
MACRO = re.compile(r"^\s*#\s*define\s+(?!UNBROKEN_)([A-Z]\w+)")


def words(files):
    for file in files:
        for number, line in enumerate(file.lines, 1):
            if WORDS.search(line):
                yield Finding(file.path, number, "word",
                              f"{WORDS.search(line).group()}: do it, or write down the decision")
            if PATHS.search(line):
                yield Finding(file.path, number, "word", "a path of one machine")
        if file.suffix in (".h", ".cc"):
            for number, line in enumerate(file.code_lines, 1):
                named = MACRO.match(line)
                if named and not file.is_test:
                    yield Finding(file.path, number, "name", f"macro {named.group(1)}: macros are UNBROKEN_X")
                if re.search(r"\bis_simulated\b", line):
                    yield Finding(file.path, number, "name", "nothing asks whether it is simulated")


def headers(files):
    """Each file opens by saying what it is: headers, and sources that have no header of their own."""
    paths = {file.path for file in files}
    for file in files:
        if file.suffix == ".h":
            if file.lines[:1] != ["#pragma once"]:
                yield Finding(file.path, 1, "header", "the first line is #pragma once")
            elif not file.lines[1:2] or not file.lines[1].startswith("//"):
                yield Finding(file.path, 2, "header", "a paragraph says what this is and what it refuses to be")
        elif file.suffix == ".cc" and not file.is_test:
            own = {file.path[:-3] + ".h", "include/unbroken/" + pathlib.PurePath(file.path).stem + ".h"}
            if not own & paths and not file.text.startswith("//"):
                yield Finding(file.path, 1, "header",
                              "no header of its own: it opens with a comment that says what it is")


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def links(root, files):
    """Links between the pages lead somewhere."""
    for file in files:
        if file.suffix == ".md":
            for number, line in enumerate(file.lines, 1):
                for target in LINK.findall(line):
                    if ":" not in target and not (root / os.path.dirname(file.path) / target).exists():
                        yield Finding(file.path, number, "link", f"{target} is not there")


def reference_pages(root):
    """Pages that are made from the sources say what the sources say."""
    for page, what in reference.findings(root):
        yield Finding(page, 1, "reference", what)


def formatting(root, files):
    """clang-format, pinned, over every C++ file, on all cores."""
    paths = [file.path for file in files if file.suffix in (".h", ".cc")]
    def check(some):
        done = subprocess.run([CLANG_FORMAT, "--dry-run", *some], cwd=root, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return re.findall(r"^(.+?):(\d+):\d+: warning: code should be clang-formatted", done.stderr, re.MULTILINE)
    seen = set()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for found in pool.map(check, [paths[start::4] for start in range(4) if paths[start::4]]):
            for path, line in found:
                if path not in seen:
                    seen.add(path)
                    yield Finding(path, int(line), "format", "run `./dev fmt`")


def lint(root, with_objects=True):
    """All findings in a tree, and notes about what was not checked."""
    files = [Source(root, path) for path in tracked(root) if is_text(path)]
    modules_file = root / "cmake/modules.cmake"
    modules = read_modules(modules_file.read_text()) if modules_file.exists() else {}
    found = [*seams(files), *rules_without_seams(files, modules), *layers(files, modules), *sizes(files),
             *ascii_only(files), *words(files), *headers(files), *links(root, files), *python_rules(files, Finding),
             *circles(files, Finding), *one_home(files, Finding), *reference_pages(root),
             *known_failures(root, ((file.path, file.text) for file in files), Finding)]
    notes = []
    try:
        found += formatting(root, files)
    except FileNotFoundError:
        notes.append(f"{CLANG_FORMAT} is not installed: formatting was not checked (`./dev setup`)")
    if with_objects:
        in_objects, note = symbols(root / "build", modules, Finding)
        found += in_objects
        notes += note
    return found, notes


def main():
    began = time.monotonic()
    found, notes = lint(ROOT)
    for finding in sorted(set(found)):
        print(finding)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    rules = len({finding.rule for finding in found})
    print(f"lint: {len(found)} findings by {rules} rules, {time.monotonic() - began:.1f} s" if found
          else f"lint: clean, {time.monotonic() - began:.1f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
