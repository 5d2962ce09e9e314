"""Every rule of `dev lint` fires on a planted line, and says nothing about the line beside it."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import lint  # noqa: E402
import lint_symbols  # noqa: E402

MODULES = """# The layers: one after the other.
# L0
unbroken_module(base LIBRARIES fmt::fmt)
# L1
unbroken_module(world DEPENDS base)
# L2: rules
unbroken_module(journal DEPENDS world)
# L3: protocols
unbroken_module(commit DEPENDS journal)
unbroken_module(restore DEPENDS journal)
# The worlds
unbroken_module(os DEPENDS world LIBRARIES Threads::Threads)
"""


@pytest.fixture
def tree(tmp_path):
    """A repository with one module list; `plant` adds a file and returns the findings about it."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake/modules.cmake").write_text(MODULES)

    def plant(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        found, _ = lint.lint(tmp_path, with_objects=False)
        return [finding for finding in found if finding.path == path]
    plant.root = tmp_path
    return plant


def rules(found):
    return {finding.rule for finding in found}


def source(line):
    return f"// What this is.\n{line}\n"


SEAM_LINES = [
    "auto t = std::chrono::steady_clock::now();",
    "std::this_thread::sleep_for(d);",
    "int r = rand();",
    'auto* e = std::getenv("HOME");',
    "std::thread worker;",
    'std::ofstream out("x");',
    'int fd = ::open("x", 0);',
    "if (fork() == 0) return;",
    "syscall(SYS_futex, 0);",
    "#include <unistd.h>",
    "#include <sys/stat.h>",
]


@pytest.mark.parametrize("line", SEAM_LINES)
def test_only_the_os_module_talks_to_the_machine(tree, line):
    assert "seam" in rules(tree("src/journal/planted.cc", source(line)))
    assert "seam" not in rules(tree("src/os/planted.cc", source(line)))


@pytest.mark.parametrize("line", [
    "auto t = clock.now();",
    "UNBROKEN_TRY(auto file, fs.open_read(path));",
    "// Never calls std::getenv() or fork().",
    'auto text = "steady_clock::now()";',
    "auto strand = operand(1);",
    "#include <sys/types.h>",
])
def test_seams_words_in_names_comments_and_strings_are_fine(tree, line):
    assert "seam" not in rules(tree("src/journal/planted.cc", source(line)))


def test_a_cpp_test_may_touch_files_but_not_sleep(tree):
    assert "seam" not in rules(tree("src/journal/a_test.cc", "std::ofstream out;\n"))
    assert "seam" in rules(tree("src/journal/b_test.cc", "void f() { usleep(1); }\n"))


def test_rules_and_protocols_are_handed_no_seam(tree):
    assert "no-io" in rules(tree("src/journal/a.cc", source("void fold(Store& store);")))
    assert "no-io" in rules(tree("src/commit/a.cc", source("void fold(const Clock& clock);")))
    assert "no-io" not in rules(tree("src/world/a.cc", source("void fold(Store& store);")))


@pytest.mark.parametrize("folder", ["bench", "python/unbroken/_adapters"])
def test_adapters_and_measurements_keep_to_the_face_of_a_run(tree, folder):
    assert "face" in rules(tree(f"{folder}/a.py", '"""A."""\nstep = self.run._step\n'))
    assert "face" not in rules(tree(f"{folder}/a.py", '"""A."""\nstep = self.run._inside.step\nself.run.__exit__()\n'))
    assert "face" not in rules(tree("tests/a.py", '"""A."""\nstep = self.run._step\n'))


def test_includes_name_their_module(tree):
    assert "include" in rules(tree("src/journal/a.cc", source('#include "../world/fs.h"')))
    assert "include" in rules(tree("tests/sim/a.cc", '#include "./b.h"\n'))


def test_includes_go_down_only(tree):
    assert "layer" in rules(tree("src/world/a.cc", source('#include "journal/record.h"')))
    assert "layer" in rules(tree("src/commit/a.cc", source('#include "restore/load.h"')))
    assert "layer" not in rules(tree("src/commit/b.cc", source('#include "base/error.h"')))


def test_protocols_never_depend_on_each_other(tree):
    changed = MODULES.replace("restore DEPENDS journal", "restore DEPENDS journal commit")
    assert "layer" in rules(tree("cmake/modules.cmake", changed))


def test_a_module_depends_only_on_modules_above_it(tree):
    assert "layer" in rules(tree("cmake/modules.cmake", MODULES.replace("world DEPENDS base", "world DEPENDS journal")))


def test_files_and_folders_have_a_largest_size(tree):
    assert "size" not in rules(tree("src/journal/a.cc", "// What this is.\n" + "int i;\n" * 599))
    assert "size" in rules(tree("src/journal/a.cc", "// What this is.\n" + "int i;\n" * 600))
    for name in "abcde":
        tree(f"src/commit/{name}.cc", "// What this is.\n" + "int i;\n" * 550)
    found, _ = lint.lint(tree.root, with_objects=False)
    assert any(finding.path == "src/commit" and finding.rule == "size" for finding in found)


def test_text_is_ascii(tree):
    assert "ascii" in rules(tree("docs/a.md", "na\u00efve\n"))
    assert "ascii" in rules(tree("docs/a.md", b"one\r\n"))
    assert "ascii" in rules(tree("docs/a.md", "no end"))
    assert not tree("docs/a.md", "plain\n")
    assert not tree("tests/hostile/a.md", "na\u00efve\n")


def test_links_lead_somewhere(tree):
    assert "link" in rules(tree("docs/a.md", "[b](b.md)\n"))
    assert "link" not in rules(tree("docs/a.md", "[a](a.md#top) [web](https://example.org)\n"))


@pytest.mark.parametrize("word", ["TO" + "DO: later", "FIX" + "ME", "XX" + "X", "see /work" + "/shared/x.md"])
def test_notes_to_oneself_do_not_stay(tree, word):
    assert "word" in rules(tree("docs/a.md", word + "\n"))


def test_macros_carry_the_projects_name(tree):
    assert "name" in rules(tree("src/base/a.cc", source("#define UB_X 1")))
    assert "name" not in rules(tree("src/base/a.cc", source("#define UNBROKEN_X 1")))


def header(line, namespace="unbroken"):
    return f"#pragma once\n// What this is.\nnamespace {namespace} {{\n\n{line}\n\n}}\n"


@pytest.mark.parametrize("line", ["struct Life {\n  int a;\n};", "class Life final : public Base {};",
                                  "enum class Life : std::uint8_t { a };", "template <class T>\nstruct Life {};"])
def test_a_type_is_defined_in_one_header(tree, line):
    tree("src/journal/a.h", header("struct Life {};\nstruct Other {};"))
    assert "home" in rules(tree("src/restore/b.h", header(line)))
    assert "home" not in rules(tree("src/restore/b.h", header(line, "unbroken::toy")))
    assert "home" not in rules(tree("src/restore/b.h", header("class Mine {\n  struct Other {};\n};")))


@pytest.mark.parametrize("line", ["struct Life;", "enum class Life : std::uint8_t;", "class Life* f(int a);",
                                  "template <>\nstruct Life<int> {};", "// struct Life {"])
def test_a_type_may_be_announced_anywhere(tree, line):
    tree("src/journal/a.h", header("struct Life {};"))
    assert "home" not in rules(tree("src/restore/b.h", header(line)))


def test_nothing_asks_whether_it_is_simulated(tree):
    assert "name" in rules(tree("src/base/a.cc", source("if (clock.is_simulated()) return;")))


def test_files_say_what_they_are(tree):
    assert "header" in rules(tree("src/base/a.h", "#pragma once\nint x;\n"))
    assert "header" in rules(tree("src/base/a.h", "// What this is.\n"))
    assert "header" not in rules(tree("src/base/a.h", "#pragma once\n// What this is.\n"))
    assert "header" not in rules(tree("src/base/a.cc", "int x;\n"))
    assert "header" in rules(tree("src/base/b.cc", "int x;\n"))
    assert "header" in rules(tree("tools/a.py", "x = 1\n"))


@pytest.mark.skipif(not shutil.which(lint.CLANG_FORMAT), reason="needs the pinned clang-format")
def test_cpp_is_formatted(tree):
    shutil.copy(ROOT / ".clang-format", tree.root)
    assert "format" in rules(tree("src/base/a.cc", source("int  x;")))
    assert "format" not in rules(tree("src/base/a.cc", source("int x;")))


@pytest.mark.parametrize("line", [
    "import pickle", "from marshal import loads", "import torch\ntorch.load(x)", "eval(x)", "exec(x)",
    "import numpy as np\nnp.load(x)", "f(x, allow_pickle=True)",
])
@pytest.mark.failure("huggingface/transformers#40500")
def test_the_package_never_unpickles_or_evaluates(tree, line):
    assert "pickle" in rules(tree("python/unbroken/planted.py", f'"""What."""\n{line}\n'))
    assert "pickle" not in rules(tree("examples/planted.py", f'"""What."""\n{line}\n'))


def test_frameworks_are_imported_where_they_are_used(tree):
    assert "framework" in rules(tree("python/unbroken/run.py", '"""What."""\nimport torch\n'))
    assert "framework" not in rules(tree("python/unbroken/torch.py", '"""What."""\nimport torch\n'))
    assert "framework" not in rules(tree("python/unbroken/run.py", '"""What."""\ndef f():\n    import torch\n'))


def test_the_package_imports_in_one_direction(tree):
    assert not tree("python/unbroken/below.py", '"""Below."""\nimport sys\n')
    assert not tree("python/unbroken/middle.py", '"""Between."""\nfrom unbroken import below\n')
    found = tree("python/unbroken/below.py", '"""Below."""\n\n\ndef late():\n    from unbroken.middle import x\n')
    assert [(one.rule, one.line) for one in found] == [("circle", 5)]


def test_python_parses_and_fits(tree):
    assert "python" in rules(tree("tools/a.py", '"""What."""\ndef\n'))
    assert "python" in rules(tree("tools/a.py", '"""What."""\n' + "x" * 141 + "\n"))


def test_objects_are_checked_too(tmp_path):
    """What a macro hides from the text shows in the object."""
    folder = tmp_path / "build/CMakeFiles/unbroken_journal.dir/src/journal"
    folder.mkdir(parents=True)
    (tmp_path / "src/journal").mkdir(parents=True)
    code = tmp_path / "src/journal/a.cc"
    code.write_text("#include <time.h>\nlong f() { timespec t; clock_gettime(0, &t); return t.tv_sec; }\n")
    subprocess.run(["g++", "-c", code, "-o", folder / "a.cc.o"], check=True)
    modules = lint.read_modules(MODULES)
    found, notes = lint_symbols.symbols(tmp_path / "build", modules, lint.Finding)
    assert rules(found) == {"symbol"} and "clock_gettime" in found[0].what and not notes
    assert not lint_symbols.is_banned("os", "clock_gettime")
    assert not lint_symbols.is_banned("journal", "memcpy")
    assert lint_symbols.is_banned("journal", "std::chrono::_V2::steady_clock::now()")


def test_missing_objects_are_said(tmp_path):
    found, notes = lint_symbols.symbols(tmp_path / "build", {}, lint.Finding)
    assert not found and notes
