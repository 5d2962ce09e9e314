"""Lives of a run, each ended by SIGKILL at a moment drawn by chance."""

import random

import program
from life import LONG, Life, Violation


def kill_often(directory, undisturbed, oracle, seed, kills):
    """One run whose lives are killed, then brought to its end; raises Violation."""
    chance = random.Random(seed)
    for _ in range(kills):
        life = Life(directory, LONG, training=oracle.training)
        if chance.random() < 0.25:  # at any time: while it starts, opens, restores
            alive = life.run_for(chance.random() * 0.5)
        else:  # while it saves
            alive = life.run_for(chance.random() * 0.15, is_ready=lambda life: life.resumed is not None)
        if not alive:
            raise Violation(f"a life ended by itself: {life.finish()}")
        _, err = life.kill()
        oracle.ended += 1
        if "error:" in err or "takeover" in err:
            raise Violation(err)
        oracle.take(life, err)
    oracle.finish(directory, undisturbed)
    status, out, err = program.unbroken("verify", directory)
    if status != 0:
        raise Violation(f"verify ends with {status}\n{out}{err}")
