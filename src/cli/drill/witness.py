"""Put before a training of which a drill has found that it does not continue: what its state is at the start of each step.

Python imports it as `sitecustomize`; the training needs no change and no package. For each step, before the model is first
called, a line goes to RECORD: a digest of everything that a training is made of and that can be reached from outside, and
the states of the generators to a file beside it. It draws no random number and, without STATES, changes nothing; what fails
in it is left out.
"""

import contextlib
import hashlib
import importlib.abc
import importlib.util
import json
import os
import random
import sys
import sysconfig
import weakref

RECORD = "{record}"
STATES = "{states}"  # a file: what the generators get once the first step was told of
OBJECTS_MAX = 20_000


def wrapped(function, before):
    def call(*arguments, **more):
        with contextlib.suppress(Exception):
            before(arguments)
        return function(*arguments, **more)

    call.__wrapped__ = function
    return call


class Witness:
    def __init__(self):
        self.kinds = []  # (class, what to call it, what its state is)
        self.objects = []  # weak references to instances of them
        self.file = None
        self.step = 0
        self.is_due = True  # nothing was told of this step yet
        self.record = None  # of this step, as long as its batch was not seen
        self.libraries = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

    # How it gets to know.

    def know(self, kind, name, state):
        """Instances of `kind` are remembered from now on."""
        self.kinds.append((kind, name, state))
        kind.__init__ = wrapped(kind.__init__, lambda arguments: self.objects.append(weakref.ref(arguments[0])))

    def on_optimizer(self, module):
        module.register_optimizer_step_pre_hook(lambda *_: self.before_update())
        self.know(module.Optimizer, "optimizer", moments)

    def on_scaler(self, module):
        # It leaves an update out where a gradient overflowed.
        module.GradScaler.update = wrapped(module.GradScaler.update, lambda _: self.before_update())
        self.know(module.GradScaler, "scaler", lambda scaler: scaler.state_dict())

    def on_module(self, module):
        module.register_module_forward_pre_hook(self.before_forward)

    def before_update(self):
        with contextlib.suppress(Exception):
            self.write()
        self.is_due = True

    def before_forward(self, module, inputs):
        torch = sys.modules["torch"]
        if torch.compiler.is_compiling() or not module.training or not torch.is_grad_enabled():
            return
        with contextlib.suppress(Exception):
            if self.is_due:
                self.is_due = False
                self.step += 1
                self.record = self.look(module, sys._getframe(1))
                self.keep_generators()
            if self.record is not None and (batch := digest(inputs)) is not None:
                self.record["the position in the data"] = batch
                self.write()

    def write(self):
        record, self.record = self.record, None
        if record is None:
            return
        if self.file is None:  # of several processes the first one tells
            self.file = open(RECORD, "x")
        line = {"metrics": {}, "step": self.step, "tensors": {}, "values": record}
        print(json.dumps(line), file=self.file, flush=True)

    # What it sees.

    def look(self, module, frame):
        torch = sys.modules["torch"]
        self.generators = {
            "torch's generator": (torch.get_rng_state, torch.set_rng_state),
            "Python's generator": (random.getstate, random.setstate),
        }
        if torch.cuda.is_initialized():
            self.generators["CUDA's generators"] = (torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all)
        if "numpy" in sys.modules:
            numpys = sys.modules["numpy"].random
            self.generators["numpy's generator"] = (numpys.get_state, numpys.set_state)
        found = {name: digest(get()) for name, (get, _) in self.generators.items()}
        paths, values = self.reach(frame)
        trained = {}
        for value in {id(value): value for reference in self.objects if (value := reference()) is not None}.values():
            kind, state = next((name, state) for one, name, state in self.kinds if isinstance(value, one))
            path = paths.get(id(value)) or type(value).__name__
            found[unused(found, kind if path == kind else f"{kind} {path}")] = digest(state(value)) or "nothing"
            if kind == "optimizer":
                trained.update((id(p), p) for group in value.param_groups for p in group["params"])
                found[unused(found, "learning rate")] = digest([group["lr"] for group in value.param_groups])
        found["the model"] = digest([*trained.values(), *module.buffers()])
        own = {id(part) for part in module.modules()}
        for path, value in values:
            if isinstance(value, torch.nn.Module):
                parameters = list(value.parameters())
                if id(value) in own or not parameters or any(id(p) in trained for p in parameters):
                    continue
                found[unused(found, f"module {path}")] = digest([*parameters, *value.buffers()])
            elif isinstance(value, torch.Tensor):
                if id(value) not in trained and value.grad_fn is None:
                    found[unused(found, f"tensor {path}")] = digest(value)
            elif (reached := self.generator(value)) is not None:
                name = unused(found, f"generator {path}")
                self.generators[name], found[name] = reached, digest(reached[0]())
            else:
                found[unused(found, f"array {path}")] = digest(value)
        return {name: state for name, state in found.items() if state is not None}

    def generator(self, value):
        """What gives the state of a generator, and what sets it; None for anything else."""
        if isinstance(value, sys.modules["torch"].Generator):
            return value.get_state, value.set_state
        if isinstance(value, random.Random):
            return value.getstate, value.setstate
        if not type(value).__module__.startswith("numpy.random"):
            return None
        if hasattr(value, "get_state"):  # RandomState
            return value.get_state, value.set_state
        bits = getattr(value, "bit_generator", value)
        return (lambda: bits.state, lambda state: setattr(bits, "state", state)) if hasattr(bits, "state") else None

    def keep_generators(self):
        with contextlib.suppress(Exception):
            with open(f"{RECORD}.{self.step}", "x") as file:
                json.dump({name: plain(get()) for name, (get, _) in self.generators.items()}, file)
        if not STATES or self.step > 1:
            return
        with contextlib.suppress(Exception), open(STATES) as file:
            for name, state in json.load(file).items():
                with contextlib.suppress(Exception):
                    self.generators[name][1](made(state))

    def is_own(self, path):
        return not path.startswith((*self.libraries, "<frozen"))

    def reach(self, frame):
        """(paths of the objects that are known, by id; what else has a state), from the variables of the script's frames."""
        torch = sys.modules["torch"]
        pending, seen, paths, values = [], set(), {}, []
        while frame is not None:
            if self.is_own(frame.f_code.co_filename):
                pending += [(name, value) for name, value in frame.f_locals.items() if not name.startswith("__")]
            frame = frame.f_back
        known = tuple(kind for kind, _, _ in self.kinds)
        for path, value in pending:  # grows
            if len(seen) > OBJECTS_MAX or id(value) in seen:
                continue
            seen.add(id(value))
            name = type(value).__module__
            if isinstance(value, known):
                paths[id(value)] = path
            elif isinstance(value, (torch.nn.Module, torch.Tensor, torch.Generator, random.Random)):
                values.append((path, value))
            elif name.startswith("numpy") and (name.startswith("numpy.random") or hasattr(value, "tobytes")):
                values.append((path, value))
            elif isinstance(value, dict):
                pending += [(f"{path}[{key!r}]", item) for key, item in value.items() if isinstance(key, (str, int))]
            elif isinstance(value, (list, tuple)):
                pending += [(f"{path}[{i}]", item) for i, item in enumerate(value)]
            elif not isinstance(value, type) and self.is_opened(type(value)):
                hidden = "_" if self.is_derived(type(value)) else "\0"
                held = getattr(value, "__dict__", {}).items()
                pending += [(f"{path}.{key}", item) for key, item in held if not key.startswith(hidden)]
        return paths, values

    def is_opened(self, kind):
        """Are its attributes of interest: of the script's own classes, and of what gives out data."""
        if kind.__module__.startswith(("torch.utils.data", "torchdata")):
            return True
        return self.is_scripts(kind)

    def is_scripts(self, kind):
        path = getattr(sys.modules.get(kind.__module__), "__file__", None)
        return kind.__module__ == "__main__" or (path is not None and self.is_own(path))

    def is_derived(self, kind):
        """Does a library keep things of its own in it: a sum of losses to be logged, say."""
        return self.is_scripts(kind) and not all(base is object or self.is_scripts(base) for base in kind.__mro__)


def unused(found, name):
    number, free = 1, name
    while free in found:
        number += 1
        free = f"{name} ({number})"
    return free


def moments(optimizer):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return [optimizer.state.get(p, {}) for p in parameters]


def digest(value):
    """Of tensors, arrays, numbers and texts in containers; None where there is none of them."""
    sum, count = hashlib.blake2b(digest_size=16), 0
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += [item for key in sorted(value, key=str) for item in (str(key), value[key])]
            continue
        if isinstance(value, (list, tuple)):
            pending += value
            continue
        if isinstance(value, (bool, int, float, str)):
            sum.update(repr(value).encode())
        elif hasattr(value, "detach"):
            value = getattr(value, "to_local", lambda value=value: value)().detach().cpu().contiguous()
            sum.update(f"{value.dtype} {tuple(value.shape)}".encode())
            sum.update(value.reshape(-1).view(sys.modules["torch"].uint8).numpy())
        elif hasattr(value, "tobytes") and hasattr(value, "dtype"):
            sum.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
        else:
            continue
        count += 1
    return sum.hexdigest() if count else None


def plain(state):
    """A state of a generator as JSON, which made() reads back."""
    if isinstance(state, dict):
        return {"dict": {name: plain(item) for name, item in state.items()}}
    if isinstance(state, (list, tuple)):
        return {type(state).__name__: [plain(item) for item in state]}
    if hasattr(state, "detach"):
        return {"tensor": state.tolist()}
    if hasattr(state, "tobytes") and hasattr(state, "tolist"):
        return {"array": state.tolist(), "of": str(state.dtype)}
    return state


def made(plain):
    if not isinstance(plain, dict):
        return plain
    (kind, items), *more = plain.items()
    if kind == "dict":
        return {name: made(item) for name, item in items.items()}
    if kind == "tensor":
        return sys.modules["torch"].tensor(items, dtype=sys.modules["torch"].uint8)
    if kind == "array":
        return sys.modules["numpy"].array(items, dtype=more[0][1])
    return {"list": list, "tuple": tuple}[kind](made(item) for item in items)


class Imports(importlib.abc.MetaPathFinder):
    """Tells when a module of interest was imported."""

    def __init__(self, told):
        self.told = told

    def find_spec(self, name, path, target=None):
        then = self.told.pop(name, None)
        if then is None:
            return None
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            with contextlib.suppress(Exception):
                then(module)

        spec.loader.exec_module = exec_module
        return spec


def begin():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    witness = Witness()
    sys.meta_path.insert(0, Imports({
        "torch.nn.modules.module": witness.on_module,
        "torch.optim.optimizer": witness.on_optimizer,
        "torch.optim.lr_scheduler": lambda module: witness.know(module.LRScheduler, "scheduler", simple),
        "torch.amp.grad_scaler": witness.on_scaler,
        "torch.optim.swa_utils": lambda module: witness.know(
            module.AveragedModel, "average", lambda model: [*model.parameters(), *model.buffers()]),
    }))  # fmt: skip
    # The one that would have been imported without this.
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        sys.modules["sitecustomize"] = ours


def simple(scheduler):
    """Of a scheduler: what it counts."""
    return {name: value for name, value in vars(scheduler).items() if isinstance(value, (bool, int, float, list, str))}


with contextlib.suppress(Exception):
    begin()
