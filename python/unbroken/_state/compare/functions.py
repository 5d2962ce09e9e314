"""What a function holds: what it closes over, its defaults and attributes, the object that a method is bound to, the
arguments of a partial, and the globals that a function of the script names. Nothing is called.
"""

from __future__ import annotations

import functools
import types

from unbroken._state.compare.changed import attributes_of, is_of_script

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
_CODES_MAX = 100


def is_own_function(value) -> bool:
    """True for a function that the script defines, where what it closes over are variables of the script."""
    if isinstance(value, types.MethodType):
        return is_own_function(value.__func__)
    if isinstance(value, functools.partial):
        return True
    return isinstance(value, types.FunctionType) and is_of_script(_module_of(value))


def held_by(value, path) -> list:
    """(path, value) of each; a variable of the function at `f` is called `f.{name}`."""
    if isinstance(value, functools.partial):
        places = [(f"args[{i}]", item) for i, item in enumerate(value.args)]
        places += [(f"keywords[{name!r}]", item) for name, item in value.keywords.items()]
        found = [("func", value.func), *places, *attributes_of(value).items()]
    elif isinstance(value, types.MethodType):
        found = [("__self__", value.__self__), ("__func__", value.__func__)]
    elif isinstance(value, types.FunctionType):
        found = [] if _module_of(value).split(".")[0] == "unbroken" else _variables(value)
    else:
        found = [("__self__", getattr(value, "__self__", None))]
    return [(f"{path}.{name}" if path else name, item) for name, item in found]


def _module_of(function) -> str:
    return str(function.__globals__.get("__name__", ""))


def _variables(function) -> list:
    code = function.__code__
    found = []
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found.append((f"{{{name}}}", cell.cell_contents))
        except ValueError:  # nothing was bound to the name yet, or it was deleted
            continue
    defaults = function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    found += [(f"{{{name}}}", item) for name, item in zip(code.co_varnames[first : code.co_argcount], defaults, strict=False)]
    found += [(f"{{{name}}}", item) for name, item in (function.__kwdefaults__ or {}).items()]
    found += attributes_of(function).items()
    if is_of_script(_module_of(function)):
        variables = function.__globals__
        found += [(f"{{{name}}}", variables[name]) for name in _names_in(code) if name in variables and not name.startswith("__")]
    return found


def _names_in(code) -> list[str]:
    """Those that the code reads as globals or attributes, with the functions that it defines."""
    pending, names, seen = [code], {}, 0
    while pending and seen < _CODES_MAX:
        code, seen = pending.pop(), seen + 1
        names.update(dict.fromkeys(code.co_names))
        pending += [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return list(names)
