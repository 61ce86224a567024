"""Registration of the traced form of a NumPy function.

The traced form is a function with the parameters that it supports, under NumPy's names, the
positional ones first and in NumPy's order. Other parameters of NumPy's function are refused if they
are given a value. This module handles ``out=`` for all functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from functrans.errors import TracerIndexError, UnsupportedNumPyError
from functrans.ir.on_device import callers, holds_device
from functrans.ir.primitive import current
from functrans.numpy.arrays import accumulated_in, duplicate, known
from functrans.numpy.signatures import signature_of, with_signature
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.indexing.views import as_array
from functrans.trace import protocols
from functrans.trace.absent import holds
from functrans.trace.notes import NUMPYS, SLIPS, add_place, raise_theirs
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

Function = Callable[..., Any]

Meaningless = dict[str, tuple[Any, ...] | None]
"""The values of keywords that have no meaning for traced values; None for any."""

implementations: dict[Function, Function] = {}
"""The decorated implementations, by NumPy's function."""

_OF_ARRAYS = {
    np.block, np.copy, np.cov, np.cross, np.empty, np.empty_like, np.full, np.full_like, np.i0,
    np.isin, np.ones, np.ones_like, np.pad, np.piecewise, np.real_if_close, np.require, np.resize,
    np.roll, np.select, np.tensordot, np.tile, np.where, np.zeros, np.zeros_like,
}  # fmt: skip
"""NumPy's functions whose results without axes are arrays, not numbers."""

creating: set[Function] = set()
"""NumPy's functions that make new arrays."""

beyond_numpy: dict[Function, tuple[str, ...]] = {}
"""The keywords that are accepted in addition to those of NumPy's function."""


def answers(
    *numpy_functions: Function,
    creates: bool = False,
    views: bool = False,
    beyond: tuple[str, ...] = (),
) -> Callable[[Function], Function]:
    """Dispatch calls of a NumPy function with traced arguments to the decorated function.

    The function that is returned has the name and signature of the first one, and passes calls
    without traced arguments to NumPy.

    Parameters
    ----------
    *numpy_functions : callable
        NumPy's function, and its aliases.
    creates : bool
        Whether it creates new arrays, to which a traced function may assign: within a trace, they
        are traced whatever the arguments are.
    views : bool
        Whether NumPy's result shares memory with an argument. Otherwise the result is a copy, even
        if it equals the argument.
    beyond : tuple of str
        Keywords, or values of keywords, that NumPy's function lacks. If one is given, plain arrays
        are not passed to NumPy.
    """

    def enter(implementation: Function) -> Function:
        model = numpy_functions[0]
        traced = traced_form(model, implementation, views)
        implementations[model] = implementation
        beyond_numpy[model] = beyond
        protocols.implements(*numpy_functions)(traced)

        def public(*args: Any, **kwargs: Any) -> Any:
            if holds_device(args, kwargs):
                return callers[-1](traced, args, kwargs, f"np.{model.__name__}")
            if (
                (creates and current.get() is not None)
                or (beyond and not kwargs.keys().isdisjoint(beyond))
                or any(map(holds_tracer, args))
                or any(map(holds_tracer, kwargs.values()))
            ):
                try:
                    return traced(*args, **kwargs)
                except NUMPYS as error:
                    add_place(error, f"np.{model.__name__}", args)
                    raise
            return model(*args, **kwargs)

        # inspect.signature follows this on demand, at no cost at import
        vars(public)["__wrapped__"] = implementation if beyond else with_signature(model)
        public.__name__ = public.__qualname__ = model.__name__
        public.__module__ = implementation.__module__
        public.__doc__ = implementation.__doc__
        creating.update(numpy_functions if creates else ())
        return public

    return enter


def traced_form(
    model: Function,
    implementation: Function,
    views: bool,
    without_meaning: Meaningless | None = None,
) -> Function:
    """A function with NumPy's signature that passes on the arguments with a meaning."""
    meaningless = _WITHOUT_MEANING if without_meaning is None else without_meaning
    code = implementation.__code__
    positional = code.co_argcount
    names = code.co_varnames[: positional + code.co_kwonlyargcount]
    if code.co_flags & inspect.CO_VARARGS:
        positional = 1_000_000
    supported = frozenset(names)
    is_array = model in _OF_ARRAYS
    takes_any = bool(code.co_flags & inspect.CO_VARKEYWORDS)

    def traced(*args: Any, **kwargs: Any) -> Any:
        out = None
        plain_call = kwargs.keys() <= supported or (takes_any and "out" not in kwargs)
        if len(args) > positional or not plain_call:
            args, kwargs, out = _without_the_rest(model, supported, args, kwargs, meaningless)
        try:
            result = implementation(*args, **kwargs)
        except SLIPS as error:
            own = beyond_numpy.get(model, ())
            theirs = {name: x for name, x in kwargs.items() if name not in own}
            raise_theirs(error, model, args, theirs)
            raise
        if isinstance(result, Tracer) and result._variable.aval.weak:
            # NumPy's functions never return weakly typed numbers
            result = protocols.strengthened(result)
        if out is not None:
            return protocols.operators["store"](numpy_name(model), result, (out,), True)
        if not views and isinstance(result, Tracer) and _is_among(result, args):
            result = duplicate(result)
        return as_array(result) if is_array else result

    return traced


def _is_among(result: Tracer, args: tuple[Any, ...]) -> bool:
    """Whether a result is one of the arguments, or an element of a sequence among them."""
    for arg in args:
        if arg is result:
            return True
        # a traced argument would be asked for its class by `isinstance`
        if type(arg) is not Tracer and isinstance(arg, protocols.SEQUENCES) and holds(arg, result):
            return True
    return False


def _without_the_rest(
    model: Function,
    supported: frozenset[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    meaningless: Meaningless,
) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Remove arguments without a meaning; raise if one of them is not at a default value."""
    signature = signature_of(model)
    own = {name: value for name, value in kwargs.items() if name not in signature.parameters}
    own = own if own.keys() <= supported else {}
    bound = signature.bind(*args, **{k: v for k, v in kwargs.items() if k not in own})
    out = bound.arguments.get("out")
    for name, value in list(bound.arguments.items()):
        parameter = signature.parameters[name]
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if variadic or name in supported:
            continue
        if name != "out" and not _says_nothing(name, value, parameter.default, meaningless):
            refuse_keyword(model, name)
        del bound.arguments[name]
    if model in _ACCUMULATING and bound.arguments.get("dtype") is None:
        bound.arguments["dtype"] = accumulated_in(out, bound.args[0])
    # parameters after a removed one are passed by name
    return bound.args, bound.kwargs | own, out


_ACCUMULATING = {
    np.sum, np.prod, np.cumsum, np.cumprod, np.cumulative_sum, np.cumulative_prod,
    np.nansum, np.nanprod, np.nancumsum, np.nancumprod,
}  # fmt: skip
"""The functions that add up, or multiply, in the dtype of ``out`` if they are given no other."""

ORDERS = (*"CFKAcfka", None)
"""The accepted layouts of new arrays. Functions whose result would depend on the layout, such as
``ravel(order="K")``, are refused.
"""

_WITHOUT_MEANING: Meaningless = {
    "order": ORDERS,
    "overwrite_input": (True, False),
    "subok": (True, False),
    "device": ("cpu", None),
    "like": (None,),
}
"""Keywords about memory, which have no meaning for traced arrays."""


def _says_nothing(name: str, value: Any, default: Any, meaningless: Meaningless) -> bool:
    if value is default or value is np._NoValue:
        return True
    allowed = meaningless.get(name, (default,))
    if allowed is None:
        return True
    if isinstance(value, Tracer):
        # only `like` may be an array: NumPy has dispatched on it
        return name == "like"
    return isinstance(value, (str, bool, int, type(None))) and value in allowed


def numpy_name(function: Function) -> str:
    """The qualified name of a NumPy or SciPy function."""
    module = getattr(function, "__module__", None) or "numpy"
    public = ".".join(part for part in module.split(".") if not part.startswith("_"))
    return f"{public.replace('numpy', 'np', 1)}.{function.__name__}"


def refuse_keyword(function: Function, keyword: str) -> NoReturn:
    """Raise for a keyword that the traced form does not support."""
    refuse(f"{numpy_name(function)}(..., {keyword}=...)", "leave the keyword out")


def needed(x: Any, what: str, fix: str) -> Any:
    """The plain array behind a value, without which there is no traced form of an expression."""
    value = known(x)
    if value is None:
        refuse(what, fix)
    return value


def sizing(x: Any, unknown: str, fix: str) -> Any:
    """The plain array behind a value that decides the size of a result."""
    value = known(x)
    if value is None:
        raise TracerIndexError(f"{unknown}{here()}.\n{fix}")
    return value


def refuse(what: str, fix: str) -> NoReturn:
    """Raise for an expression that has no traced form."""
    raise UnsupportedNumPyError(f"{what} is not supported on traced values{here()}: {fix}")
