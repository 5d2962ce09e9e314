"""The process of one entrant: it holds the state and obeys orders. The clock is with whoever gives them.

    python child.py ORDERS ANSWERS      two descriptors; an order and an answer is a line of JSON

What an entrant prints goes to its standard error. An order that fails is answered with {"error"}.
"""

import json
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import rivals  # noqa: E402
from race import loop  # noqa: E402
from race import state as states  # noqa: E402


class Child:
    def __init__(self):
        self.rival = self.state = self.loaded = self.saved = self.loop = None

    def open(self, name, folder, shape, mib):
        """Makes the state, and the entrant for it."""
        self.state = states.tensors(states.sizes(shape, mib))
        self.rival = rivals.ENTRANTS[name].make(Path(folder), self.state)
        return {"bytes": sum(tensor.numel() * tensor.element_size() for tensor in self.state.values()),
                "tensors": len(self.state), "version": self.rival.version()}

    def change(self):
        states.change(self.state)

    def save(self, folder):
        self.rival.save(Path(folder))

    def settle(self):
        self.rival.settle()

    def remember(self):
        """What a load has to give back; the live state is spoiled, so that nothing comes from there."""
        if self.saved is None:
            self.saved = states.digests(self.state)
        self.loaded = None
        states.spoil(self.state)

    def load(self, folder):
        self.loaded = self.rival.load(Path(folder))

    def check(self):
        """Whether the load gave back every tensor; its memory is given up."""
        missing = self.saved - states.digests(self.loaded)
        self.loaded = None
        return {"equal": not missing, "missing": sum(missing.values())}

    def train(self, compute_s, updates):
        """Begins a training."""
        self.loop = loop.Loop(self.rival, self.state, compute_s, updates)

    def steps(self, count):
        return {"s": self.loop.steps(count)}

    def save_beside(self, folder, remembers):
        if remembers:
            self.saved = states.digests(self.state)
        return self.loop.save(Path(folder))

    def pace(self, bytes_per_s, nbytes):
        self.rival.pace(bytes_per_s, nbytes)

    def close(self):
        self.rival.close()


def main():
    orders, answers = os.fdopen(int(sys.argv[1]), "r"), os.fdopen(int(sys.argv[2]), "w")
    child = Child()
    for line in orders:
        order = json.loads(line)
        try:
            answer = getattr(child, order.pop("do"))(**order) or {}
        except BaseException as error:
            traceback.print_exc()
            text = str(error).strip().splitlines() or [""]
            answer = {"error": f"{type(error).__name__}: {text[0]}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)  # whatever threads an entrant left


if __name__ == "__main__":
    os.dup2(2, 1)
    main()
