"""A small file system in memory that can lose, at any instant, all that was not synced. For root on Linux.

Image, mounts and loop device live in a mount namespace of this process: they end with it, however it ends.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

from life import LIBC

KINDS = ("ext4", "xfs")
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F", "-m", "0"], "xfs": ["mkfs.xfs", "-q", "-f"]}
IMAGE_BYTES = {"ext4": 64 << 20, "xfs": 300 << 20}  # mkfs.xfs makes none that is smaller; sparse, so it costs little
BASE = Path("/media")  # inside the namespace alone

FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
BLKFLSBUF = 0x1261
LOOP_CTL_GET_FREE, LOOP_CONFIGURE, LO_FLAGS_AUTOCLEAR = 0x4C82, 0x4C0A, 4


def why_not(kind):
    """Why there can be no such file system here; None where there can."""
    if os.geteuid() != 0:
        return "only root can mount file systems"
    if not shutil.which(MKFS[kind][0]):
        return f"{MKFS[kind][0]} is not installed"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    if kind not in Path("/proc/filesystems").read_text().split():
        return f"the kernel has no {kind}"
    tried = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", BASE], capture_output=True, text=True)
    return f"no mount namespace of one's own: {tried.stderr.strip()}" if tried.returncode else None


def sh(*command):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


def enter_namespace():
    """From here on this process mounts what it likes under BASE, and nobody else sees it."""
    if LIBC.unshare(0x00020000) != 0:  # CLONE_NEWNS
        raise OSError("unshare failed")
    sh("mount", "--make-rprivate", "/")
    sh("mount", "-t", "tmpfs", "-o", "size=2g,mode=755", "none", BASE)


def attach_loop(image):
    """(descriptor, path) of a loop device that frees itself once neither the descriptor nor a mount holds it."""
    control, backing = os.open("/dev/loop-control", os.O_RDWR), os.open(image, os.O_RDWR)
    try:
        while True:
            path = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
            device = os.open(path, os.O_RDWR)
            try:
                # struct loop_config: backing file, block size, struct loop_info64, reserved.
                fcntl.ioctl(device, LOOP_CONFIGURE, struct.pack("2I5Q4I64s64s32s2Q8Q", backing, 0, 0, 0, 0, 0, 0, 0, 0,
                                                                0, LO_FLAGS_AUTOCLEAR, b"", b"", b"", *[0] * 10))
                return device, path
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:  # somebody else took it
                    raise
    finally:
        os.close(control)
        os.close(backing)


class FileSystem:
    """On an image: `root` is where it is while mounted."""

    def __init__(self, image):
        self.root = image.with_suffix(".mounted")
        self.root.mkdir(exist_ok=True)
        self.device, self.path = attach_loop(image)
        self.is_mounted = False  # os.path.ismount() says no of one that was lost

    def mount(self):
        fcntl.ioctl(self.device, BLKFLSBUF)
        sh("mount", self.path, self.root)
        self.is_mounted = True

    def unmount(self):
        if self.is_mounted:
            sh("umount", self.root)
            self.is_mounted = False

    def lose(self):
        """What was not synced is gone from here on, and nothing can be written any more until it is mounted again."""
        opened = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(opened)

    def close(self):
        self.unmount()
        os.close(self.device)


def new_image(kind):
    """A file with an empty file system of that kind."""
    image = BASE / f"image-{os.getpid()}"  # whose it is can be seen from outside
    with open(image, "wb") as out:
        out.truncate(IMAGE_BYTES[kind])
    sh(*MKFS[kind], image)
    return image


@contextlib.contextmanager
def mounted(image):
    filesystem = FileSystem(image)
    try:
        filesystem.mount()
        yield filesystem
    finally:
        filesystem.close()
