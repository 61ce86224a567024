"""Dispatch of NumPy's operations on device arrays: tables that implementing modules fill.

An operation without an entry is an error: its operands are never copied to the host implicitly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import UnsupportedAttributeError, UnsupportedNumPyError
from functrans.spelling import nearest
from functrans.trace.protocols import name_of, name_of_ufunc
from functrans.trace.source import here

Answer = Callable[..., Any]

ufunc: list[Answer] = []
"""Implementations of all ufuncs, called with (ufunc, method, inputs, kwargs); the last is used."""

function: list[Answer] = []
"""Implementations of NumPy's other functions, called with (function, args, kwargs)."""

operators: dict[str, Answer] = {}
"""Implementations of ``x[i]`` and iteration, by the names of Python's methods."""

methods: dict[str, Answer] = {}
"""The methods of a device array, as functions of the array and the method's arguments."""

attributes: dict[str, Callable[[Any], Any]] = {}
"""The computed attributes, such as ``T``."""

_INSTEAD = "functrans.jit compiles a function for the device, np.asarray(x) copies x to the host"


def apply_ufunc(of: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply ``of(...)`` or ``of.method(...)`` to device arrays."""
    if ufunc:
        return ufunc[-1](of, method, inputs, kwargs)
    raise unsupported(name_of_ufunc(of, method))


def apply_function(of: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a NumPy function to arguments that include device arrays."""
    if function:
        return function[-1](of, args, kwargs)
    raise unsupported(name_of(of))


def apply_operator(name: str, written: str, *args: Any) -> Any:
    """Apply one of Python's own operators; messages show it as ``written``."""
    answer = operators.get(name)
    if answer is None:
        raise unsupported(written)
    return answer(*args)


def attribute(array: Any, name: str) -> Any:
    """A method or computed attribute of a device array."""
    method = methods.get(name)
    if method is not None:
        return method.__get__(array)
    computed = attributes.get(name)
    if computed is not None:
        return computed(array)
    if not name.startswith("_") and hasattr(np.ndarray, name):
        raise UnsupportedAttributeError(_words(f"ndarray.{name}"))
    close = nearest(name, {**methods, **attributes})
    meant = f"; did you mean {close}?" if close else ""
    raise AttributeError(f"a device array has no attribute {name!r}{meant}")


def unsupported(what: str) -> UnsupportedNumPyError:
    """The error of an operation without an implementation."""
    return UnsupportedNumPyError(_words(what))


def _words(what: str) -> str:
    return f"{what} is not supported on device arrays{here()}: {_INSTEAD}"
