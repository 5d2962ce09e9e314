"""What a save costs the processors, and how its writes stand beside those of others."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import unbroken


def test_the_processors_time_of_a_save_is_told(run_dir):
    big = np.zeros(4 << 20)
    with unbroken.Run(run_dir, every=1000) as run:
        run.attach(big=big)
        run.restore()
        assert run.stats()["last"] is None
        for step in range(1, 5):
            big += 1
            before = time.process_time()
            run.step()
            run.save()
            run.drain()
            last, within_s = run.stats()["last"], time.process_time() - before
            assert last["step"] == step and 0 < last["cpu_s"] <= within_s
    lines = [json.loads(line) for line in (run_dir / "metrics" / "a0001.saves").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4] and lines[-1]["cpu_s"] == last["cpu_s"]


CLASSES = """
import ctypes, os, platform, sys, threading, numpy, unbroken

ioprio_get = {"x86_64": 252, "aarch64": 31}[platform.machine()]
libc = ctypes.CDLL(None, use_errno=True)
seen = set()


def watch():
    while True:
        for thread in os.listdir("/proc/self/task"):
            priority = libc.syscall(ioprio_get, 1, int(thread))
            if priority > 0 and (priority >> 13, priority & 7) in ((3, 0), (2, 7)):
                seen.add(f"{priority >> 13}.{priority & 7} {open(f'/proc/self/task/{thread}/comm').read().strip()[:11]}")


threading.Thread(target=watch, daemon=True).start()
big = numpy.zeros(1 << 20)
run = unbroken.Run(sys.argv[1], every=1000, max_bandwidth="16MB/s")
run.attach(big=big)
run.restore()
for is_waited_for in (None, False, True):  # the first one is a run's first save, whoever asks
    seen.clear()
    big += 1
    run.step()
    saving = run.save(wait=bool(is_waited_for))
    saving.durable.result()
    print(is_waited_for, sorted(seen), flush=True)
    run.drain()
run.close()
"""


@pytest.mark.parametrize("wanted, seen", [("idle", "3.0 unbroken-io"), ("low", "2.7 unbroken-io"), ("normal", None)])
def test_the_writes_of_a_save_that_nobody_waits_for_are_of_the_class_that_was_asked_for(tmp_path, wanted, seen):
    env = {**os.environ, "UNBROKEN_IO_CLASS": wanted}
    found = subprocess.run([sys.executable, "-c", CLASSES, tmp_path / "run"], env=env, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[1:] == [f"False {[seen] if seen else []}", "True []"], found.stdout + found.stderr
