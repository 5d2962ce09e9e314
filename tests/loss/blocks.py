"""Every write and flush that a saving run sends to its disk, in order, and the disks that a power cut could leave of it.

qemu-storage-daemon stands between the file system and its image and keeps the log, in the layout of dm-log-writes.
"""

import contextlib
import os
import random
import shutil
import struct
import subprocess
import time

import program
from filesystem import BASE, mounted, new_image, sh
from life import LONG, SAVER, Life, Oracle, Violation, die_with_parent
from losses import check_storage

FLUSH, FUA, DISCARD = 1, 2, 4
BLOCK = 4096  # a write is kept or lost in parts of this size
STEPS = 12  # of the run that is recorded
DAEMON = "qemu-storage-daemon"


def why_not():
    return None if shutil.which(DAEMON) else f"{DAEMON} is not installed (package qemu-system-common)"


class Log:
    """What the daemon has written so far."""

    def __init__(self, path):
        self.path = path

    def count(self):
        """Entries that are there by now."""
        with open(self.path, "rb") as log:
            return struct.unpack("<QQQI", log.read(28))[2]

    def entries(self):
        """(flags, offset in bytes, data) in order."""
        with open(self.path, "rb") as log:
            _, _, count, sector = struct.unpack("<QQQI", log.read(28))
            at = sector
            for _ in range(count):
                log.seek(at)
                start, sectors, flags, _ = struct.unpack("<QQQQ", log.read(32))
                log.seek(at + sector)
                data = b"" if flags & DISCARD else log.read(sectors * sector)
                at += sector + len(data)
                yield flags, start * sector, data


@contextlib.contextmanager
def recording(image):
    """(path of the same image with a recorder in front of it, the log)."""
    front, log = image.with_suffix(".front"), image.with_suffix(".log")
    for path, size in ((front, 0), (log, 1 << 30)):
        with open(path, "wb") as out:
            out.truncate(size)
    daemon = subprocess.Popen(
        [DAEMON, "--blockdev", f"node-name=disk,driver=file,filename={image}",
         "--blockdev", f"node-name=log,driver=file,filename={log}",
         "--blockdev", "node-name=both,driver=blklogwrites,file=disk,log=log,log-append=off,log-super-update-interval=1",
         "--export", f"type=fuse,id=front,node-name=both,mountpoint={front},writable=on"],
        preexec_fn=die_with_parent)  # fmt: skip
    try:
        while front.stat().st_size == 0:
            assert daemon.poll() is None, "the recorder did not start"
            time.sleep(0.01)
        yield front, Log(log)
    finally:
        daemon.terminate()
        daemon.wait()


def record(kind, chance, env):
    """(oracle, [(entries in the log, step that was acknowledged by then)], base image, entries) of a run of two lives."""
    image, base = new_image(kind), BASE / "base"
    sh("cp", "--sparse=always", image, base)
    oracle, told = Oracle(SAVER), []
    with recording(image) as (front, log):
        with mounted(front) as filesystem:
            for is_last in (False, True):
                life = Life(filesystem.root / "run", STEPS if is_last else LONG, training=SAVER, env=env)
                count = chance.randint(3, 6)
                while not life.is_over and (is_last or len(life.acked) < count):
                    before = len(life.acked)
                    life.read(1)
                    if len(life.acked) > before:
                        told.append((log.count(), life.acked[-1]))
                status, err = life.finish() if is_last else life.kill()
                assert not is_last or status == 0, err
                oracle.take(life, err)
        entries = list(log.entries())
    return oracle, told, base, entries


def write_all(image, writes):
    with open(image, "r+b") as out:
        for _, at, data in writes:
            out.seek(at)
            out.write(data)


def torn(entries, chance):
    """Of writes that no flush followed, any part may be there."""
    kept = chance.choice((0.2, 0.5, 0.8))
    for flags, at, data in entries:
        for start in range(0, len(data), BLOCK):
            if flags & FUA or chance.random() < kept:
                yield flags, at + start, data[start : start + BLOCK]


def check_disk(image, newest, want, last):
    """Mounts it, looks at what is there, and trains on to the end; whether from a checkpoint."""
    with mounted(image) as filesystem:
        directory = filesystem.root / "run"
        check_storage(directory, newest)
        life = Life(directory, last, training=SAVER)
        status, err = life.finish()
        if status != 0 or life.resumed < newest or "put aside" in err:
            raise Violation(f"resumed from {life.resumed}, though {newest} was acknowledged; ended with {status}\n{err}")
        if any(want[step] != digest for step, digest in life.digests.items()):
            raise Violation("the states are not those of an undisturbed run")
        return life.resumed > 0


def cut_power(kind, seed, disks_max, env):
    """Records one run and looks at what power cuts leave of it: at each flush, and with parts of what followed it.

    How many disks it looked at, how many were gone on from a checkpoint, and its violations.
    """
    chance = random.Random(seed)
    oracle, told, base, entries = record(kind, chance, env)
    last = max(STEPS, *oracle.digests) + 2
    with program.memory_folder() as outside:
        quiet = Life(outside / "run", last, LONG, training=SAVER)
        status, err = quiet.finish()
        assert status == 0, err
    flushes = [i + 1 for i, (flags, _, _) in enumerate(entries) if flags & FLUSH]
    cuts = [(flush, False) for flush in flushes]
    cuts += [(flush, True) for flush, following in zip(flushes, flushes[1:]) if following > flush + 1]
    if len(cuts) > disks_max:
        cuts = chance.sample(cuts, disks_max)
    image, done, resumes, violations = BASE / "state", 0, 0, []
    for flush, is_torn in sorted(cuts):
        write_all(base, entries[done:flush])
        done = flush
        sh("cp", "--sparse=always", base, image)
        newest = max((step for count, step in told if count <= flush), default=0)
        if is_torn:
            following = min(f for f in flushes if f > flush) - 1
            write_all(image, torn(entries[flush : chance.randint(flush + 1, following)], chance))
        try:
            resumes += check_disk(image, newest, quiet.digests, last)
        except (Violation, OSError) as violation:  # the latter: not even the file system is whole
            violations.append(f"{'after' if is_torn else 'at'} flush {flush} of {len(entries)} entries: {violation}")
    return len(cuts), resumes, violations
