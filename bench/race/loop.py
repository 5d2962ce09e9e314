"""A training in one thread, in the process of an entrant: matrices are multiplied for a while, then AdamW changes parameters and its
own state in place. The state that is saved is theirs. It clocks itself."""

import time

SIZE = 256  # of the matrices: about a millisecond
STEPS_MIN, STEPS_MAX = 3, 400  # beside one save


class Loop:
    """`every`: steps between two saves of an entrant that decides itself when it saves."""

    def __init__(self, rival, state, compute_s, every):
        import torch

        torch.set_num_threads(1)
        self.torch, self.rival, self.every, self.done = torch, rival, every, 0
        self.model, self.optimizer = self._trained(list(state.values()))
        self.matrix, self.count = torch.rand(SIZE, SIZE) / SIZE, 20
        self.count = max(1, round(self.count * compute_s / min(self._compute_s() for _ in range(5))))
        rival.train(self)

    def _trained(self, tensors):
        """Parameters in the memory of a third of the tensors, and the two averages that AdamW keeps of each in the others."""
        torch, third = self.torch, len(tensors) // 3
        model = torch.nn.ParameterList([torch.nn.Parameter(tensor) for tensor in tensors[:third]])
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for parameter, *averages in zip(model, tensors[third:], tensors[2 * third:]):
            parameter.grad = torch.full_like(parameter, 1e-3)
            optimizer.state[parameter] = {"step": torch.zeros(()), **dict(zip(("exp_avg", "exp_avg_sq"), averages, strict=True))}
        return model, optimizer

    def compute(self):
        at = self.matrix
        for _ in range(self.count):
            at = self.torch.mm(at, self.matrix)

    def _compute_s(self):
        began = time.perf_counter()
        self.compute()
        return time.perf_counter() - began

    def step(self, save_into=None, look=None):
        """Seconds of a step, and those of them that it waited for a save. With a folder a save begins at its end; `look` is
        called just before."""
        began = time.perf_counter()
        self.compute()
        asked = time.perf_counter()
        self.rival.before_update()
        free = time.perf_counter()
        self.optimizer.step()
        updated = time.perf_counter()
        if look is not None:
            look()
            updated = time.perf_counter()
        self.done += 1
        self.rival.after_step()
        if save_into is not None:
            self.rival.start(save_into)
        ended = time.perf_counter()
        return ended - began, free - asked + ended - updated

    def steps(self, count):
        return [self.step()[0] for _ in range(count)]

    def until_due(self, left):
        """Up to where so many steps are left before the one that ends with a save by `every`."""
        if self.rival.saves_when_due:
            self.steps((self.every - 1 - left - self.done) % self.every)

    def save(self, folder, look=None):
        """A step that ends with a save, and steps until nothing of the save goes on any more. `busy`: how many of them ended
        before that. The first step is clocked but for what it was before the save."""
        blocked = call_s = self.step(folder, look)[1]
        began = time.perf_counter()
        steps, busy = [], 0
        most = self.every - 1 if self.rival.saves_when_due else STEPS_MAX
        while len(steps) < STEPS_MIN or (self.rival.is_busy() and len(steps) < most):
            taken, waited = self.step()
            steps.append(taken)
            blocked += waited
            busy += self.rival.is_busy()
        wall_s = call_s + time.perf_counter() - began
        self.rival.wait()
        return {"call_s": call_s, "blocked_s": blocked, "steps_s": steps, "busy": busy, "wall_s": wall_s}
