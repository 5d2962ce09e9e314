"""fio in the place of a save: it writes as many bytes, at a rate that is given."""

import subprocess

from rivals.base import Nothing


class Fio(Nothing):
    @classmethod
    def version(cls):
        return subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def pace(self, bytes_per_s, nbytes):
        self.words = ["fio", "--name=pace", "--rw=write", "--direct=1", "--bs=1M", "--iodepth=8", "--ioengine=io_uring",
                      f"--size={nbytes >> 20 << 20}", f"--rate={round(bytes_per_s)}", "--end_fsync=1", "--output=/dev/null"]

    def start(self, folder):
        self._save = subprocess.Popen([*self.words, f"--filename={folder / 'paced'}"])

    def is_busy(self):
        return self._save.poll() is None

    def wait(self):
        if self._save.wait():
            raise OSError(f"fio ended with {self._save.returncode}")
