"""A saving NumPy training that tells the outside what was acknowledged, the moment it is.

    trainer.py DIR STEPS [EVERY]     the state is saved every EVERY steps, 1 unless said; some saves are waited for

Lines on stdout, each written at once: `resumed STEP`, `step STEP DIGEST` for the state that was resumed and after each
step, `ack NAME` for each checkpoint that is durable, `final DIGEST`.
"""

import hashlib
import os
import sys

import numpy as np
import unbroken

directory, steps, every = sys.argv[1], int(sys.argv[2]), int((*sys.argv, 1)[3])


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def digest():
    return hashlib.sha256(w.tobytes() + repr(chance.bit_generator.state).encode()).hexdigest()


w = np.zeros((16, 16))
chance = np.random.default_rng(1)
run = unbroken.Run(directory, every=every, keep_last=3)
run.attach(w=w, chance=chance)
with run:
    began = run.restore()
    tell("resumed", began)
    tell("step", began, digest())
    told = run.newest
    for step in run.steps(steps):
        w += chance.standard_normal(w.shape)
        if step % 7 == 3 and every == 1:
            run.save()  # waits at the end of this body
        if run.newest != told:
            told = run.newest
            tell("ack", told)
        tell("step", step + 1, digest())
tell("ack", run.newest)
tell("final", digest())
