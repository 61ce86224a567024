"""Names that a module has bound to NumPy's functions: ``from numpy import zeros``.

The patched modules (`functrans.trace.patch`) do not see calls by such names. So while a function
is traced, the names of some namespaces refer to other functions: these call this library's within a
trace, and NumPy's for all other callers. Only namespaces are changed whose code has refused a
traced value (`functrans.trace.adoption`).
"""

from __future__ import annotations

import builtins
from functools import wraps
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from functrans.ir.primitive import current
from functrans.lazily import Made
from functrans.trace import patch, protocols
from functrans.trace.bytecode import global_names
from functrans.trace.trace import Trace

_FUNCTIONS = (FunctionType, BuiltinFunctionType, type(np.sum))

_bound: dict[int, tuple[dict[str, Any], dict[str, tuple[Any, Any]]]] = {}
"""Namespaces by their ids, each with the value of a name outside of traces, and during them."""


def bind(namespace: dict[str, Any]) -> bool:
    """Replace a namespace's functions of NumPy in all later traces; return whether it has any."""
    if id(namespace) in _bound:
        return False
    ours = {
        id(vars(module)[name]): replacement
        for module, replacements in protocols.replacements.copy().items()
        for name, replacement in replacements.items()
        if isinstance(vars(module).get(name), _FUNCTIONS)
    }
    compiled = _read_by_numba(namespace)
    chosen = {
        name: (value, _choosing(value, ours[id(value)]))
        for name, value in namespace.copy().items()
        if id(value) in ours and name not in compiled
    }
    if chosen:
        _bound[id(namespace)] = namespace, chosen
    return bool(chosen)


def bind_numbers(namespace: dict[str, Any]) -> bool:
    """As `bind`, for ``float`` and ``complex``, and names of NumPy's classes of such numbers."""
    bind(namespace)
    _, chosen = _bound.setdefault(id(namespace), (namespace, {}))
    others = chosen.keys() | _read_by_numba(namespace)
    new = {
        name: (own, protocols.numbers[own])
        for name, own in {**vars(builtins), **namespace}.items()
        if type(own) is type and own in protocols.numbers and name not in others
    }
    chosen.update(new)
    return bool(new)


def _read_by_numba(namespace: dict[str, Any]) -> set[str]:
    """The names that functions read which Numba compiles, perhaps during tracing."""
    functions = [
        value.py_func
        for value in [*namespace.values()]
        if type(value).__module__.startswith("numba.") and hasattr(value, "py_func")
    ]
    return {name for function in functions for name in global_names(function.__code__)}


def release(namespace: dict[str, Any]) -> None:
    """Leave the names of a namespace alone from now on, though other threads may be tracing."""
    _, chosen = _bound.pop(id(namespace), (namespace, {}))
    _restore(namespace, chosen)


def _choosing(numpys: Any, ours: Any) -> Any:
    """A function that calls ours in a trace, and NumPy's elsewhere."""

    @wraps(numpys)
    def choosing(*args: Any, **kwargs: Any) -> Any:
        trace = current.get()
        if not isinstance(trace, Trace) or trace.rewriting:
            return numpys(*args, **kwargs)
        return (ours.make() if type(ours) is Made else ours)(*args, **kwargs)

    return choosing


def enter() -> None:
    """Put the replacements in the place of the names' own values."""
    for namespace, chosen in [*_bound.values()]:
        for name, (own, ours) in [*chosen.items()]:
            if namespace.get(name, own) is own:
                namespace[name] = ours


def leave() -> None:
    """Undo `enter`, for names that the code has not changed itself."""
    for namespace, chosen in [*_bound.values()]:
        _restore(namespace, chosen)


def _restore(namespace: dict[str, Any], chosen: dict[str, tuple[Any, Any]]) -> None:
    for name, (own, ours) in [*chosen.items()]:
        if namespace.get(name) is ours and vars(builtins).get(name) is own:
            del namespace[name]
        elif namespace.get(name) is ours:
            namespace[name] = own


patch.namespaces.append((enter, leave))
