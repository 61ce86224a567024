"""What the lines of a traced function get for ``np.zeros(3)``, ``np.array([x, y])``, ``np.r_[x]``.

Where a traced value is among the arguments, also in a list, it is our function, unless the value is
a known one without a derivative. Else it is NumPy's function, and a new array that it makes is one
that traced values may be assigned to.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from functrans.ir.types import is_supported
from functrans.numpy import building, creation, text
from functrans.numpy.arrays import traced_copy
from functrans.numpy.define import beyond_numpy, creating
from functrans.numpy.vectorizing import call_vectorized, numpys_call
from functrans.ops.arrays.shape import holds_tracer
from functrans.trace import protocols
from functrans.trace.assignable import Assignable, assignable, loses, plain
from functrans.trace.forms import binary, unary
from functrans.trace.tracer import Tracer

Function = Callable[..., Any]


def _any_lost(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(map(loses, args)) or any(map(loses, kwargs.values()))


def _of_new_arrays(numpys: Function) -> Function:
    """The substitute of a function that makes new arrays."""

    def substitute(*args: Any, **kwargs: Any) -> Any:
        if _any_lost(args, kwargs):
            return protocols.apply_function(numpys, args, kwargs)
        result = numpys(*map(plain, args), **{k: plain(x) for k, x in kwargs.items()})
        if isinstance(result, tuple):
            return tuple(map(_new, result))
        return result if any(result is x for x in args) else _new(result)

    return substitute


def _new(x: Any) -> Any:
    # NumPy may have made it as a view of something else that it has made
    return assignable(x if getattr(x, "base", None) is None else np.array(x))


def _of_conversions(numpys: Function) -> Function:
    """The substitute of a function that gives an array as it is, if it can."""

    def substitute(a: Any, *args: Any, **kwargs: Any) -> Any:
        if _any_lost((a, *args), kwargs):
            return protocols.apply_function(numpys, (a, *args), kwargs)
        result = numpys(a, *args, **kwargs)
        if type(a) is Assignable and type(result) is not Assignable:
            own, given = a.__array_interface__, result.__array_interface__
            return a if own == given else assignable(result)
        return result if isinstance(a, np.ndarray) and result is a else assignable(result)

    return substitute


def _of_others(numpys: Function) -> Function:
    """The substitute of a function that asks its arguments, but not the elements of lists."""
    beyond = beyond_numpy.get(numpys, ())

    def substitute(*args: Any, **kwargs: Any) -> Any:
        if (
            any(map(holds_tracer, args))
            or any(map(holds_tracer, kwargs.values()))
            or (beyond and not kwargs.keys().isdisjoint(beyond))
        ):
            return protocols.apply_function(numpys, args, kwargs)
        result = numpys(*args, **kwargs)
        if type(result) is Assignable and result.base is None:
            # NumPy makes new arrays of the class of some that can be assigned to
            return assignable(np.array(result))
        return result if any(result is x for x in args) else assignable(result)

    return substitute


def _of_ufunc(ufunc: np.ufunc) -> Function:
    """The substitute of a ufunc, which asks its arguments, but not the elements of lists."""
    # a look-up by the types of tracers, if the ufunc is a primitive and nothing more
    name = getattr(protocols.ufuncs[ufunc.__name__], "name", "")

    def substitute(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            result = None
            if len(args) == 1:
                if type(args[0]) is Tracer:
                    result = unary(name, args[0])
            elif len(args) == 2:
                x, y = args
                if type(x) is Tracer:
                    result = binary(name, x, y)
                elif type(y) is Tracer:
                    result = binary(name, y, x, True)
            if result is not None:
                return protocols.strengthened(result) if result._variable.aval.weak else result
        for x in args:
            if (type(x) is list or type(x) is tuple) and holds_tracer(x):
                return protocols.apply_ufunc(ufunc, "__call__", args, kwargs)
        result = ufunc(*args, **kwargs)
        return result if kwargs else assignable(result)

    return substitute


def _is_dtype(x: Any) -> bool:
    return isinstance(x, type) and x in _DTYPES


def _of_dtype(numpys: Function) -> Function:
    """The substitute of a dtype that is called, which converts."""

    def substitute(*args: Any) -> Any:
        if len(args) == 1 and loses(args[0]):
            return protocols.strengthened(creation.array(args[0], dtype=numpys))
        return numpys(*args)

    return substitute


_CONVERSIONS = (
    np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require,
    np.asarray_chkfinite,
)  # fmt: skip
_DTYPES = {t for t in np.sctypeDict.values() if is_supported(np.dtype(t))}
_OBJECTS = ("r_", "c_", "mgrid", "ogrid", "fromiter")
_QUESTIONS = ("isscalar", "ndenumerate")


def _substitute(numpys: Function) -> Function | None:
    if isinstance(numpys, np.ufunc):
        return _of_ufunc(numpys) if numpys.__name__ in protocols.ufuncs else None
    if _is_dtype(numpys):
        return _of_dtype(numpys)
    if numpys in _CONVERSIONS:
        return _of_conversions(numpys)
    if numpys in creating or numpys is np.array:
        return _of_new_arrays(numpys)
    return _of_others(numpys) if numpys in protocols.functions else None


def _numpys(namespace: ModuleType) -> dict[str, Any]:
    """What is NumPy's own in our namespace, and yet takes traced values if it is called."""
    everything = vars(namespace).items()
    return {name: f for name, f in everything if _is_dtype(f) or isinstance(f, np.ufunc)}


def fill_tables(namespace: ModuleType) -> None:
    """Enter what this namespace has by now in the tables that a trace goes by."""
    protocols.namespace[:] = [namespace]
    for module in (namespace, np, np.linalg, np.fft):
        # a dtype or a ufunc that is not called has to be NumPy's in our namespace, too
        kept = vars(module) if module is not namespace else _numpys(namespace)
        found = {name: _substitute(f) for name, f in kept.items() if callable(f)}
        protocols.replacements[module] = {n: f for n, f in found.items() if f is not None}
    protocols.replacements[np].update(
        {name: getattr(building, name) for name in _OBJECTS},
        **{name: getattr(text, name) for name in _QUESTIONS},
        **{name: text.refusing(name, instead) for name, instead in text.REFUSED.items()},
    )
    protocols.replaced_methods[np.vectorize, "__call__"] = (numpys_call, call_vectorized)
    protocols.operators["traced"] = traced_copy


protocols.implements(np.asfortranarray)(creation.asanyarray)
