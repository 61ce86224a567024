"""How a function takes the place of one of SciPy's within a trace, whatever its arguments.

What is given a function (an integrand, an equation) cannot tell by its arguments whether values are
traced: the function may have them from around it. So outside of a trace SciPy computes, and inside
of one ours does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from functrans.errors import FunctransError, UnsupportedNumPyError
from functrans.ir.primitive import current
from functrans.ops.define import lazy
from functrans.trace import protocols
from functrans.trace.absent import UNKNOWN
from functrans.trace.source import located, user_source
from functrans.trace.tracer import Tracer

Function = Callable[..., Any]


implementations: dict[str, Function] = {}
"""What takes the place of SciPy's functions, by their paths: ``"scipy.integrate:quad"``."""


def within_traces(path: str) -> Callable[[Function], Function]:
    """Let the decorated function do, within a trace, what SciPy's does outside of one.

    What it refuses, and functions that cannot be traced (``float(x)``), are left to SciPy: it gives
    the same if nothing that is traced is among its arguments, and raises if something is.
    """
    scipys = lazy(path)

    def enter(implementation: Function) -> Function:
        inside = or_scipys(path, implementation)

        @wraps(implementation)
        def public(*args: Any, **kwargs: Any) -> Any:
            return (scipys if current.get() is None else inside)(*args, **kwargs)

        implementations[path] = public
        return public

    return enter


def or_scipys(path: str, ours: Function) -> Function:
    """A function or class of ours, and SciPy's for what ours refuses and nothing traced is in."""
    scipys = lazy(path)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except FunctransError as refusal:
            try:
                return scipys(*args, **kwargs)
            except Exception as failure:
                raise refusal from failure

    return call


def take_the_place(name: str) -> None:
    """Let a traced function's own calls ``scipy.integrate.quad(...)``, by the module, be ours.

    The module of SciPy's has been imported, and ours is now.
    """
    import_module(f"functrans.scipy.{name}")
    module = f"scipy.{name}"
    found = {
        path.partition(":")[2]: function
        for path, function in implementations.items()
        if path.partition(":")[0] == module
    }
    protocols.replacements[sys.modules[module]] = {
        function: ours for function, ours in found.items() if function in vars(sys.modules[module])
    }


class Late:
    """An object of one of our modules, which is imported when it is first asked for something."""

    def __init__(self, module: str, name: str) -> None:
        self._path = module, name

    def _resolved(self) -> Any:
        module, name = self._path
        return getattr(import_module(module), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._resolved()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resolved(), name)

    def __repr__(self) -> str:
        return repr(self._resolved())


def answer_for(name: str) -> None:
    """Let a traced function's own calls ``scipy.linalg.solve(...)``, by the module, be ours.

    That is for modules whose functions, where ours are called, are SciPy's on plain arrays. Ufuncs
    ask their arguments themselves.
    """
    module = sys.modules[f"scipy.{name}"]
    public = {key: getattr(module, key) for key in module.__all__}
    protocols.replacements[module] = {
        key: _late(f"functrans.scipy.{name}", key, x)
        for key, x in public.items()
        if callable(x) and not isinstance(x, (type, np.ufunc))
    }


def _late(module: str, name: str, scipys: Any) -> Any:
    ours = Late(module, name)
    if hasattr(scipys, "rvs"):
        return ours  # a distribution, which is asked for its methods

    @wraps(scipys)
    def call(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    return call


def refused(path: str, instead: str) -> Function:
    """SciPy's function, which within a trace says what to write instead."""
    scipys = lazy(path)
    name = path.replace(":", ".")

    def public(*args: Any, **kwargs: Any) -> Any:
        if current.get() is not None:
            refuse(name, instead)
        return scipys(*args, **kwargs)

    public.__name__ = public.__qualname__ = scipys.name
    public.__doc__ = f"`{name}`, for plain arrays only: {instead}."
    return public


def refuse(what: str, instead: str) -> NoReturn:
    """Raise: something of SciPy's has no traced form."""
    raise UnsupportedNumPyError(
        f"{what} is not supported on traced values{located(user_source())}: {instead}"
    )


def refuse_options(function: str, given: Iterable[tuple[str, Any, str]]) -> None:
    """Raise if an option that has no traced form is given: its name, its value and what to do."""
    for name, value, instead in given:
        if value is not None and value is not False:
            refuse(f"{function}(..., {name}=...)", instead)


def known(x: Any) -> Any:
    """The plain array behind a value, or None if a trace does not know it."""
    if not isinstance(x, Tracer):
        return np.asarray(x)
    value = x._known_value
    return None if value is UNKNOWN else np.asarray(value)
