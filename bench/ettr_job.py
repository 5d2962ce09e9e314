"""The training of the live campaign (ettr.py): steps of known length, a state of known size, every boundary noted.

    python bench/ettr_job.py DIR NOTES EVERY MTTI STEP_S STATE_MIB

NOTES gets 64 bytes when the state is restored, and after each completed step: see Note in ettr_log.py.
"""

import os
import sys
import time

import numpy as np

import unbroken
from ettr_log import NOTE


def main(directory, notes, every, mtti, step_s, state_mib):
    weights = np.zeros(int(float(state_mib) * 131072))
    out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    run = unbroken.Run(directory, every=every, keep_last=1, mtti=mtti)
    run.attach(weights=weights)
    step = run.restore()
    seconds = float(step_s)
    restored = time.monotonic()
    os.write(out, NOTE.pack(step, restored, restored, 0, 0, 0.0, 0.0, 0.0))
    while True:
        time.sleep(seconds)
        weights[step % weights.size] += 1
        begins = time.monotonic()
        step = run.step()
        ends = time.monotonic()
        stats = run.stats()
        last = stats["last"] or {"step": 0, "wait_s": 0.0, "durable_s": 0.0}
        os.write(out, NOTE.pack(step, begins, ends, stats["saves"], last["step"], last["wait_s"],
                                last["durable_s"] - last["wait_s"], stats["interval_s"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
