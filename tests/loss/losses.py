"""Lives of a run, each ended by a file system that loses what was not synced, at a moment drawn by chance."""

import collections
import functools
import random
import signal

import program
from filesystem import mounted, new_image
from life import LONG, SAVER, Life, Violation


@functools.lru_cache(maxsize=1)
def points():
    """Names of the points that two short lives of a run pass, with how often they do."""
    with program.memory_folder() as folder:
        log = folder / "points"
        for steps in (10, 20):
            status, err = Life(folder / "run", steps, training=SAVER, env={"UNBROKEN_POINT_LOG": str(log)}).finish()
            assert status == 0, err
        return collections.Counter(log.read_text().split())


def some_point(chance):
    name = chance.choice(sorted(points()))
    return f"{name}:{chance.randint(1, (points()[name] + 1) // 2)}"


def begin(directory, training, chance, env, at):
    """Starts a life and lets it come to the moment of its loss, `at` a pass of a named point or drawn by chance."""
    kind = chance.random()
    if at or kind < 0.35:  # at a named point, where it then stands still
        stop = {"UNBROKEN_KILL": f"{at or some_point(chance)}:stop"}
        life = Life(directory, LONG, training=training, env=env | stop)
        life.run_until_stopped(2)
        return life
    life = Life(directory, LONG, training=training, env=env)
    if kind < 0.5:  # at any time: while it starts, opens, restores
        life.run_for(chance.random() * 0.2)
    elif kind < 0.7:  # while it saves
        life.run_for(chance.random() * 0.2, is_ready=lambda life: life.resumed is not None)
    else:  # when it was told just now that a save is durable, and little else was synced since
        count = chance.randint(1, 6)
        life.run_for(0, is_ready=lambda life: len(life.acked) >= count)
    return life


def check_storage(directory, newest):
    """All that the journal has is whole, and what was acknowledged or something newer is among it."""
    status, said = program.unbroken_json("verify", directory)
    if status != 0 and newest == 0 and "error" in said:
        return  # lost before there was a run
    steps = [int(c["name"].split(".")[0]) for c in said.get("checkpoints", [])]
    if status != 0 or max(steps, default=0) < newest:
        raise Violation(f"after the loss, with {newest} acknowledged, verify ends with {status}\n{said}")


def lose_often(kind, oracle, seed, losses, env, at=None):
    """One run on one file system, with that many losses, then brought to its end; raises Violation."""
    chance = random.Random(seed)
    with mounted(new_image(kind)) as filesystem, program.memory_folder() as outside:
        directory = filesystem.root / "run"
        for _ in range(losses):
            life = begin(directory, oracle.training, chance, env, at)
            if life.is_over:
                raise Violation(f"a life ended by itself: {life.finish()}")
            filesystem.lose()
            oracle.ended += 1
            if chance.random() < 0.5:  # whatever it claims from now on has to be true as well
                life.process.send_signal(signal.SIGCONT)
                life.run_for(chance.random() * 0.05)
            _, err = life.kill()
            oracle.take(life, err)
            filesystem.unmount()
            filesystem.mount()
            check_storage(directory, oracle.newest)
        oracle.finish(directory, outside / "run")
        check_storage(directory, oracle.newest)
