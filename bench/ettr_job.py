"""The training of the live campaign (ettr.py): steps of known length, a state of known size, every boundary noted.

    python bench/ettr_job.py DIR NOTES EVERY MTTI STEP_S STATE_MIB

NOTES gets one Note (ettr_log.py) when the state is restored, and one after each completed step. Ends by itself only when
nobody is left to kill it.
"""

import os
import sys
import time

import numpy as np

import unbroken
from ettr_log import NOTE


class Witness:
    """Part of the state: it is asked for its own exactly when a save is taken."""

    def __init__(self):
        self.asked = 0

    def state_dict(self):
        self.asked += 1
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked = state["asked"]


def main(directory, notes, every, mtti, step_s, state_mib):
    parent = os.getppid()
    weights, witness = np.zeros(int(float(state_mib) * 131072)), Witness()
    out = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    run = unbroken.Run(directory, every=every, keep_last=1, mtti=mtti)
    run.attach(weights=weights, witness=witness)
    step = run.restore()
    seconds = float(step_s)
    restored = time.monotonic()
    os.write(out, NOTE.pack(step, restored, restored, False, 0, 0, 0.0, 0.0, 0.0))
    while os.getppid() == parent:
        time.sleep(seconds)
        weights[step % weights.size] += 1
        asked, begins = witness.asked, time.monotonic()
        step = run.step()
        ends = time.monotonic()
        stats = run.stats()
        last = stats["last"] or {"step": 0, "wait_s": 0.0, "durable_s": 0.0}
        os.write(out, NOTE.pack(step, begins, ends, witness.asked > asked, stats["saves"], last["step"], last["wait_s"],
                                last["durable_s"] - last["wait_s"], stats["interval_s"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
