"""Substitutes for ``np.zeros(3)``, ``np.array([x, y])``, ``np.r_[x]`` in traced functions.

If a traced value is among the arguments, also inside a list, our function is called, unless the
value is known and has no derivative. Otherwise, NumPy's function is called, and traced values can
be assigned to a new array that it creates.
"""

from __future__ import annotations

import cmath
import math
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from functrans.ir.types import is_supported
from functrans.lazily import Made, lazy
from functrans.numpy import scalar_math
from functrans.numpy.define import beyond_numpy, creating, refuse
from functrans.numpy.tables import HOME, NUMPYS_CALL, answered
from functrans.ops import HOME as UFUNCS
from functrans.ops.arrays.shape import any_traced, holds_tracer, with_tracers
from functrans.trace import protocols
from functrans.trace.assignable import Assignable, assignable, linked, loses, plain
from functrans.trace.bytecode import UFUNC_METHODS
from functrans.trace.delegation import delegate
from functrans.trace.forms import binary, unary
from functrans.trace.tracer import Tracer

Function = Callable[..., Any]


def _any_lost(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(map(loses, args)) or any(map(loses, kwargs.values()))


_COPIES = {np._CopyMode.IF_NEEDED: None, np._CopyMode.NEVER: False, np._CopyMode.ALWAYS: True}
"""NumPy's older values of ``copy=``, which packages use in the place of these."""


def _of_new_arrays(numpys: Function) -> Function:
    """The substitute of a function that creates arrays, except ``np.array(x, copy=None)``."""
    converts = _of_conversions(numpys)

    def substitute(*args: Any, **kwargs: Any) -> Any:
        if numpys is np.array and "copy" in kwargs:
            kwargs["copy"] = _COPIES.get(kwargs["copy"], kwargs["copy"])
            if not kwargs["copy"]:
                return converts(*args, **kwargs)
        if _any_lost(args, kwargs):
            return protocols.apply_function(numpys, args, kwargs)
        result = numpys(*map(plain, args), **{k: plain(x) for k, x in kwargs.items()})
        if isinstance(result, tuple):
            return tuple(map(_new, result))
        return result if any(result is x for x in args) else _new(result)

    return substitute


def _new(x: Any) -> Any:
    # it may be a view of another array that NumPy has created
    return assignable(x if getattr(x, "base", None) is None else np.array(x))


def _of_conversions(numpys: Function) -> Function:
    """The substitute of a function that returns an array itself if possible.

    A known value without a derivative stays traced here, because the result and the array must
    share later assignments.
    """

    def substitute(a: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(a, Tracer) or _any_lost((a, *args), kwargs):
            return protocols.apply_function(numpys, (a, *args), kwargs)
        result = numpys(a, *args, **kwargs)
        if type(a) is Assignable and type(result) is not Assignable:
            own, given = a.__array_interface__, result.__array_interface__
            return a if own == given else linked(assignable(result))
        return result if isinstance(a, np.ndarray) and result is a else assignable(result)

    return substitute


def _of_others(numpys: Function) -> Function:
    """The substitute of a function that dispatches on arguments, but not on elements of lists."""
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
            # NumPy gives new arrays the class of assignable arguments
            return assignable(np.array(result))
        return result if any(result is x for x in args) else assignable(result)

    return substitute


def _of_ufunc(ufunc: np.ufunc) -> Function:
    """The substitute of a ufunc, which dispatches on operands, but not on elements of lists."""
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
            if isinstance(x, protocols.SEQUENCES) and holds_tracer(x):
                return protocols.apply_ufunc(ufunc, "__call__", args, kwargs)
        result = ufunc(*args, **kwargs)
        return result if kwargs else assignable(result)

    vars(substitute).update({method: _of_method(ufunc, method) for method in UFUNC_METHODS})
    return substitute


def _of_method(ufunc: np.ufunc, name: str) -> Function:
    """The substitute of a ufunc's method, which does not dispatch on elements of lists either."""
    method = getattr(ufunc, name)

    def substitute(*args: Any, **kwargs: Any) -> Any:
        operands = (
            _array(x) if isinstance(x, protocols.SEQUENCES) and holds_tracer(x) else x for x in args
        )
        result = method(*operands, **kwargs)
        return result if kwargs else assignable(result)

    return substitute


def _is_dtype(x: Any) -> bool:
    return isinstance(x, type) and x in _DTYPES


def _of_dtype(numpys: Function) -> Function:
    """The substitute of a dtype, which converts when it is called."""

    def substitute(*args: Any) -> Any:
        if len(args) == 2 and numpys in _COMPLEX and any(map(loses, args)):
            args = (scalar_math.of_parts(*args),)
        if len(args) == 1 and loses(args[0]):
            return protocols.strengthened(_array(args[0], dtype=numpys))
        return numpys(*args)

    return substitute


_CONVERSIONS = (
    np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require,
    np.asarray_chkfinite,
)  # fmt: skip
_DTYPES = {t for t in np.sctypeDict.values() if is_supported(np.dtype(t))}
_COMPLEX = (np.complex64, np.complex128)
_OBJECTS = ("r_", "c_", "mgrid", "ogrid")
_QUESTIONS = ("isscalar", "ndenumerate")
_array = lazy("functrans.numpy.creation:array")


def _substitute(numpys: Function) -> Function:
    """The substitute of a NumPy function; imports its traced form."""
    protocols.functions.get(numpys)  # its module has registered it in `creating`
    if numpys in _CONVERSIONS:
        return _of_conversions(numpys)
    if numpys in creating or numpys is np.array:
        return _of_new_arrays(numpys)
    return _of_others(numpys)


def _substitutes(module: ModuleType, content: dict[str, Any] | None = None) -> dict[str, Any]:
    """The substitutes of the functions, ufuncs and dtypes of a module that have one.

    ``content`` are the names to consider, all by default.
    """
    found: dict[str, Any] = {}
    for name, numpys in (vars(module) if content is None else content).items():
        if isinstance(numpys, np.ufunc):
            if numpys.__name__ in UFUNCS:
                found[name] = Made(partial(_of_ufunc, numpys))
        elif _is_dtype(numpys):
            found[name] = _of_dtype(numpys)
        elif answered(module, name, numpys):
            found[name] = Made(partial(_substitute, numpys))
    return found


def _is_taken(x: Any) -> bool:
    return _is_dtype(x) or isinstance(x, np.ufunc)


def _own(path: str, called: bool = True) -> Made:
    return Made(lazy(path).resolve, called)


def _refusing(name: str, instead: str) -> Function:
    """The substitute of a NumPy function that refuses traced values."""
    numpys = getattr(np, name)

    def refuse_traced(*args: Any, **keywords: Any) -> Any:
        if any_traced(args, keywords):
            refuse(f"np.{name}", instead)
        return numpys(*args, **keywords)

    return refuse_traced


_REFUSED = {
    "nditer": "write np.ndenumerate(x), or np.broadcast_arrays(x, y)",
    "broadcast": "write np.broadcast_shapes(x.shape, y.shape), or np.broadcast_arrays(x, y)",
    "matrix": "use arrays, and @ for their product",
    "asmatrix": "use arrays, and @ for their product",
    "bmat": "write np.block, and @ for products",
    "nested_iters": "write loops over np.ndindex(x.shape)",
    "frombuffer": "a traced value has no memory; x.ravel() has its elements",
    "isfortran": "a traced value has no memory, and so no layout",
}
"""Functions that do not dispatch on their arguments, and what to write instead."""


_isscalar = lazy("functrans.numpy.text:isscalar")
_call_vectorized = lazy("functrans.numpy.vectorizing:call_vectorized")
_initialize_poly1d = lazy("functrans.numpy.series_objects:initialize_poly1d")
_as_strided = lazy("functrans.numpy.stride_tricks:as_strided")


def _always(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return True


def answer_for_numpy() -> None:
    """Register the substitutes of NumPy's functions."""
    protocols.replacements[np] = {
        **_substitutes(np),
        **{name: _own(f"functrans.numpy.building:{name}", called=False) for name in _OBJECTS},
        "fromiter": _own("functrans.numpy.building:fromiter"),
        **{name: _own(f"functrans.numpy.text:{name}") for name in _QUESTIONS},
        **{name: _refusing(name, instead) for name, instead in _REFUSED.items()},
    }
    for module in (math, cmath):
        protocols.replacements[module] = scalar_math.substitutes(module)
    protocols.numbers.update({float: scalar_math.Float, complex: scalar_math.Complex})
    protocols.numbers.update({t: scalar_math.standing_for(t, _of_dtype(t)) for t in _DTYPES})
    delegate(NUMPYS_CALL, _call_vectorized, _always)
    delegate(np.isscalar, _isscalar, with_tracers)
    delegate(np.poly1d.__init__, _initialize_poly1d, with_tracers)
    delegate(np.lib.stride_tricks.as_strided, _as_strided, with_tracers)


def answer_for(name: str) -> None:
    """Register the substitutes of the functions of a NumPy module."""
    protocols.replacements[sys.modules[name]] = _substitutes(sys.modules[name])


def answer_for_namespace() -> None:
    """Register the substitutes of NumPy's own objects in our namespace.

    Dtypes and ufuncs in our namespace must be NumPy's objects, unless they are called.
    """
    own = sys.modules["functrans.numpy"]
    # submodules that NumPy imports lazily are not imported for this
    theirs = {*np.__all__} - HOME.keys()
    numpys = {name: x for name, x in vars(np).items() if name in theirs and _is_taken(x)}
    vars(own).update(numpys)
    protocols.replacements[own] = _substitutes(np, numpys)
