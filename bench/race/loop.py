"""A training in one thread, in the process of an entrant: matrices are multiplied for a while, then the state is updated in
place. It clocks itself."""

import time

SIZE = 256  # of the matrices: about a millisecond
STEPS_MIN, STEPS_MAX = 3, 400  # beside one save


class Loop:
    def __init__(self, rival, state, compute_s, updates):
        import torch

        torch.set_num_threads(1)
        self.torch, self.rival = torch, rival
        self.updated = list(state.values()) if updates else []
        self.matrix, self.count = torch.rand(SIZE, SIZE) / SIZE, 20
        self.compute()
        began = time.perf_counter()
        self.compute()
        self.count = max(1, round(self.count * compute_s / (time.perf_counter() - began)))

    def compute(self):
        at = self.matrix
        for _ in range(self.count):
            at = self.torch.mm(at, self.matrix)

    def step(self):
        """Seconds of a step, and those of them that it waited for a save."""
        began = time.perf_counter()
        self.compute()
        asked = time.perf_counter()
        self.rival.before_update()
        free = time.perf_counter()
        if self.updated:
            self.torch._foreach_add_(self.updated, 1)
        updated = time.perf_counter()
        self.rival.after_step()
        ended = time.perf_counter()
        return ended - began, free - asked + ended - updated

    def steps(self, count):
        return [self.step()[0] for _ in range(count)]

    def save(self, folder):
        """Steps until nothing of the save goes on any more. `busy`: how many of them ended before that."""
        began = time.perf_counter()
        self.rival.start(folder)
        blocked = call_s = time.perf_counter() - began
        steps, busy = [], 0
        while len(steps) < STEPS_MIN or (self.rival.is_busy() and len(steps) < STEPS_MAX):
            taken, waited = self.step()
            steps.append(taken)
            blocked += waited
            busy += self.rival.is_busy()
        wall_s = time.perf_counter() - began
        self.rival.wait()
        return {"call_s": call_s, "blocked_s": blocked, "steps_s": steps, "busy": busy, "wall_s": wall_s}
