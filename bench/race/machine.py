"""What is read from the kernel: what processes spent, which written pages are not on storage, and what machine this is."""

import contextlib
import ctypes
import datetime
import os
import platform
import subprocess
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CACHESTAT = 451  # the number of the system call, on every architecture; Linux 6.5


def family(pid):
    """A process and all its living descendants."""
    found, at = [pid], 0
    while at < len(found):
        for listed in Path(f"/proc/{found[at]}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(word) for word in listed.read_text().split()]
        at += 1
    return found


def spent_by(pid):
    """{"cpu_s", "written_bytes"} of a process, its descendants and those of them that ended."""
    cpu_s = written = 0
    for member in family(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
            cpu_s += sum(map(int, fields[11:15])) / TICKS  # user, system, and both of children that were waited for
            for line in Path(f"/proc/{member}/io").read_text().splitlines():
                written += int(line.split()[1]) if line.startswith("write_bytes") else 0
    return {"cpu_s": cpu_s, "written_bytes": written}


class _Range(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class _Pages(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")]


def files_below(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]


def _pages(folder, *kinds):
    """Bytes of the pages of the files in `folder`; None where the kernel does not say."""
    libc, pages = ctypes.CDLL(None, use_errno=True), 0
    for path in files_below(folder):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # an old one that was just removed
        try:
            seen = _Pages()
            if libc.syscall(CACHESTAT, descriptor, ctypes.byref(_Range(0, 0)), ctypes.byref(seen), 0):
                return None
            pages += sum(getattr(seen, kind) for kind in kinds)
        finally:
            os.close(descriptor)
    return pages * PAGE_BYTES


def unsynced_bytes(folder):
    """What is in memory alone."""
    return _pages(folder, "dirty", "writeback")


def cached_bytes(folder):
    """What need not be read from storage."""
    return _pages(folder, "cached")


def sync(path):
    """fsync of a file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder):
    """fsync of every file and directory in `folder`, and of the directory that it is in."""
    for path in files_below(folder):
        sync(path)
    for root, _, _ in os.walk(folder, topdown=False):
        sync(root)
    sync(Path(folder).parent)


def make_cold(folder, drops_all=False):
    """Puts the files of `folder` out of the page cache; with `drops_all` all that the kernel caches, as root. Bytes that
    stayed there, or None where the kernel does not say."""
    for path in files_below(folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # a page that waits to be written stays
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    if drops_all:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    return cached_bytes(folder)


def available_bytes():
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def _said(*command, default="unknown"):
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    return done.stdout.strip() or default


def description(folder):
    """Whatever a reader needs to place the figures."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    memory = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines())
    return {"date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "commit": _said("git", "rev-parse", "--short=12", "HEAD"),
            "changed": bool(_said("git", "status", "--porcelain", "--untracked-files=no", default="")),
            "cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory / (1 << 20), 1),
            "kernel": platform.release(), "file_system": _said("stat", "-f", "-c", "%T", str(folder)),
            "python": platform.python_version(), "load": round(os.getloadavg()[0], 2)}
