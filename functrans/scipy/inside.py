"""Functions that replace one of SciPy's within a trace, whatever their arguments.

If a function (an integrand, an equation) is an argument, the arguments do not show whether values
are traced: the function may read traced values from its closure. So SciPy's implementation is used
outside of a trace, and ours inside of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Any

from functrans.errors import FunctransError
from functrans.ir.on_device import callers, holds_device
from functrans.ir.primitive import current
from functrans.lazily import lazy
from functrans.numpy.define import refuse
from functrans.scipy.along_a_path import on_a_path_if_needed
from functrans.scipy.entries import enter as enter_scipys
from functrans.scipy.entries import of_the_user
from functrans.trace.delegation import own
from functrans.trace.notes import SLIPS, raise_theirs
from functrans.trace.tracer import Tracer

Function = Callable[..., Any]

refusals: dict[str, str] = {}
"""What to write instead of a function without a traced form, by the name of SciPy's function."""


def within_traces(path: str) -> Callable[[Function], Function]:
    """Replace a function of SciPy's by the decorated function within traces.

    Calls that it refuses, and functions that cannot be traced (``float(x)``), are left to SciPy,
    whose result is the same if no argument is traced, and which raises an error otherwise.
    """
    scipys = lazy(path)

    def enter(implementation: Function) -> Function:
        inside = or_scipys(path, implementation)

        @wraps(implementation)
        def public(*args: Any, **kwargs: Any) -> Any:
            if current.get() is None and holds_device(args, kwargs):
                return callers[-1](implementation, args, kwargs, path.replace(":", "."))
            return (scipys if current.get() is None else inside)(*args, **kwargs)

        public.__name__ = public.__qualname__ = scipys.name
        enter_scipys(path, public, of_the_user)
        return public

    return enter


def or_scipys(path: str, ours: Function) -> Function:
    """Our function or class; SciPy's where ours refuses a call and no argument is traced.

    If a function that is an argument branches on values, ours runs along the path of the call.
    """
    scipys = lazy(path)
    attempt = on_a_path_if_needed(ours)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return attempt(*args, **kwargs)
        except FunctransError as refusal:
            try:
                return own(scipys.resolve())(*args, **kwargs)
            except Exception as failure:
                raise refusal from failure
        except SLIPS as error:
            raise_theirs(error, own(scipys.resolve()), args, kwargs)
            raise

    return call


def refused(path: str, instead: str) -> Function:
    """SciPy's function; within a trace it raises an error that says what to write instead.

    Calls in which no traced value occurs are computed by SciPy.
    """
    scipys = lazy(path)
    name = path.replace(":", ".")
    refusals[name] = instead

    def inside(*args: Any, **kwargs: Any) -> Any:
        refuse(name, instead)

    inside_or_scipys = or_scipys(path, inside)

    def public(*args: Any, **kwargs: Any) -> Any:
        if current.get() is None:
            return (inside if holds_device(args, kwargs) else scipys)(*args, **kwargs)
        return inside_or_scipys(*args, **kwargs)

    public.__name__ = public.__qualname__ = scipys.name
    public.__doc__ = f"`{name}`, for plain arrays only: {instead}."
    enter_scipys(path, public, of_the_user)
    return public


def all_refused(module: str, instead: Mapping[str, str]) -> dict[str, Function]:
    """`refused` of several functions of a module, by their names."""
    return {name: refused(f"{module}:{name}", words) for name, words in instead.items()}


def arguments(args: Any) -> tuple[Any, ...]:
    """The additional arguments (``args``) of a user's function, as a tuple."""
    return args if isinstance(args, tuple) else () if args is None else (args,)


def check_one_of(name: str, given: Any, allowed: Collection[Any]) -> None:
    """Raise unless an option has one of the values that it may have."""
    if given not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {given!r}")


def check_tolerance(name: str, given: Any, least: float = 0.0) -> None:
    """Raise in SciPy's words if a tolerance or a count is known to be 0 or less, or too small."""
    if not isinstance(given, Tracer) and (given <= 0 or given < least):
        raise ValueError(f"{name} too small ({given:g} {'<' if least else '<='} {least:g})")


def refuse_options(function: str, given: Iterable[tuple[str, Any, str]]) -> None:
    """Raise if an option that has no traced form is given: its name, its value and what to do."""
    for name, value, instead in given:
        if value is not None and value is not False:
            refuse(f"{function}(..., {name}=...)", instead)
