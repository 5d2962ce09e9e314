"""The process of one entrant: it holds the state and obeys orders. The clock is with whoever gives them.

    python child.py ORDERS ANSWERS      two descriptors; an order and an answer is a line of JSON

What an entrant prints goes to its standard error. An order that fails is answered with {"error"}.
"""

import json
import os
import resource
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
            self._look()
        self.loaded = None
        states.spoil(self.state)

    def load(self, folder):
        self.loaded = self.rival.load(Path(folder))

    def check(self):
        """Whether the load gave back every tensor; its memory is given up."""
        missing = self.saved - states.digests(self.loaded)
        self.loaded = None
        return {"equal": not missing, "missing": sum(missing.values())}

    def train(self, compute_s, every):
        """Begins a training. How many saves it takes until they cost what they do from then on."""
        self.loop = loop.Loop(self.rival, self.state, compute_s, every)
        return {"saves": self.rival.warm_saves}

    def steps(self, count):
        return {"s": self.loop.steps(count)}

    def until_due(self, left):
        self.loop.until_due(left)

    def save_beside(self, folder, remembers):
        return self.loop.save(Path(folder), self._look if remembers else None)

    def _look(self):
        self.saved = states.digests(self.state)

    def pace(self, bytes_per_s, nbytes):
        self.rival.pace(bytes_per_s, nbytes)

    def close(self):
        self.rival.close()


def main():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # torch_checkpointing shares each tensor as a file
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
