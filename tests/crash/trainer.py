"""A saving NumPy training that tells the outside what was acknowledged, the moment it is.

    trainer.py DIR STEPS          # every step is saved; `save(wait=True)` now and then

Lines on stdout: `resumed STEP`, `ack NAME` for each checkpoint that is durable, `step N`, `final DIGEST`.
The first line waits for a `go` on stdin where STARTED is asked for, so that starts need not be timed.
"""

import hashlib
import os
import sys

import numpy as np
import unbroken

directory, steps = sys.argv[1], int(sys.argv[2])


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


w = np.zeros((16, 16))
chance = np.random.default_rng(1)
run = unbroken.Run(directory, every=1, keep_last=3)
run.attach(w=w, chance=chance)
with run:
    tell("resumed", run.restore())
    told = run.newest
    for step in run.steps(steps):
        w += chance.standard_normal(w.shape)
        if step % 7 == 3:
            run.save()  # waits at the end of this body
        if run.newest != told:
            told = run.newest
            tell("ack", told)
        tell("step", step)
tell("ack", run.newest)
tell("final", hashlib.sha256(w.tobytes() + repr(chance.bit_generator.state).encode()).hexdigest())
