"""The seams, checked in the objects: what a module's code really asks the system for, whatever its text says."""

import re
import subprocess

# Undefined symbols that only os/ may need, demangled or not.
BANNED = re.compile(
    r"^(?:clock_gettime|gettimeofday|time|nanosleep|clock_nanosleep|usleep|sleep|poll|select|epoll_\w+"
    r"|rand|srand|random|getrandom|getentropy|getenv|secure_getenv|setenv"
    r"|open(?:at)?(?:64)?|creat|fopen(?:64)?|fdopen|read|pread(?:64)?|pwrite(?:64)?|readv|writev|fsync|fdatasync"
    r"|rename(?:at2?)?|link(?:at)?|unlink(?:at)?|mkdir(?:at)?|rmdir|opendir|readdir(?:64)?"
    r"|stat(?:x)?|fstat(?:at)?(?:64)?"
    r"|f?truncate(?:64)?|socket|connect|accept|pipe2?|fork|vfork|execv?[elp]*|posix_spawnp?|kill|raise|signal|sigaction"
    r"|waitpid|pthread_create|pthread_kill|_exit|exit"
    r"|std::chrono::_V2::\w+_clock::now\(\)|std::thread::.*|std::random_device::.*|std::filesystem::.*"
    r"|std::basic_(?:i|o)?(?:fstream|filebuf)<.*)$")
# `syscall` is not here: std::stop_callback brings one. The text may not say it.
# What some modules are for. A world is exempt; so are the roots that put worlds and people together.
ALLOWED = {
    "os": re.compile(".*"),
    "sim": re.compile("^$"),
}
ROOTS = ("session", "cli", "bindings")


def is_banned(module, symbol):
    """Whether objects of a module may not need this symbol."""
    if module in ROOTS:
        return False
    return bool(BANNED.match(symbol)) and not (module in ALLOWED and ALLOWED[module].match(symbol))


def symbols(build, modules, finding):
    """Findings in the objects of a build tree, and a note where there are none to look at."""
    objects = [path for path in build.glob("CMakeFiles/unbroken_*.dir/src/**/*.o")]
    if not objects:
        return [], ["no objects in build/: symbols were not checked (`./dev build`)"]
    listed = subprocess.run(["nm", "--undefined-only", "--demangle", "--print-file-name", *objects], text=True,
                            errors="replace", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    found, line_of = [], re.compile(r"^.*?[.]dir/src/(\w+)/([\w./]+)\.o:\s+[UwW]\s+(.*)$")
    for line in listed.splitlines():
        matched = line_of.match(line)
        if matched and matched[1] in modules:
            module, source, symbol = matched[1], matched[2], matched[3].split("@")[0]
            is_stale = not (build.parent / f"src/{module}/{source}").exists()
            if is_banned(module, symbol) and not is_stale:
                found.append(finding(f"src/{module}/{source}", 1, "symbol",
                                     f"needs {symbol}: only os/ may ask the system"))
    return found, []
