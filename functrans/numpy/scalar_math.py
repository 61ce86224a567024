"""Substitutes for functions of `math` in traced functions: ``math.sin(x)`` of a traced number.

As in `math`, the result is a Python number, so its dtype is weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from functrans.lazily import Made
from functrans.numpy.arrays import known
from functrans.ops import HOME as UFUNCS
from functrans.ops.arrays.numbers import as_number
from functrans.trace import protocols
from functrans.trace.operators import python_bool
from functrans.trace.replacement import OF_MATH
from functrans.trace.source import user_frame
from functrans.trace.tracer import Tracer

_OTHERS = frozenset(("ceil", "comb", "floor", "frexp", "gcd", "lcm", "ldexp", "trunc"))
"""Functions of integers, and those that give integers."""

_FLOAT = np.dtype(np.float64)


def _is_traced_number(x: Any) -> bool:
    return isinstance(x, Tracer) and x.ndim == 0 and x.dtype.kind in "biuf"


def _number(x: Any) -> Any:
    # float() would accept strings
    return as_number(x, dtype=_FLOAT) if _is_traced_number(x) else math.ldexp(x, 0)


def _substitute(name: str, ufunc: str) -> Callable[..., Any]:
    of_math = getattr(math, name)
    operands = getattr(getattr(np, ufunc, None), "nin", 1)  # SciPy's functions take one

    def substitute(*args: Any) -> Any:
        if name == "log" and len(args) == 2:
            return substitute(args[0]) / substitute(args[1])
        if name == "hypot" and len(args) != 2 and any(map(_is_traced_number, args)):
            return reduce(substitute, args, 0.0)
        if len(args) != operands or not any(map(_is_traced_number, args)):
            return of_math(*args)
        numbers = tuple(map(_number, args))
        values = [known(x) for x in numbers]
        if None not in values:
            of_math(*map(float, values))  # raises outside of the domain
        result = protocols.ufuncs[ufunc](*numbers)
        return tuple(map(_python, result)) if isinstance(result, tuple) else _python(result)

    return substitute


def _python(x: Any) -> Any:
    """A result as a bool or float of Python, whose dtype is weak."""
    is_bool = x.dtype == np.bool_
    return python_bool(x, user_frame()) if is_bool else as_number(x, dtype=_FLOAT)


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    given = {"a": a, "b": b, "rel_tol": rel_tol, "abs_tol": abs_tol}
    if not any(map(_is_traced_number, given.values())):
        return math.isclose(**given)
    plain = {name: x for name, x in given.items() if not _is_traced_number(x)}
    math.isclose(**{"a": 0.0, "b": 0.0, **plain})  # raises for a negative tolerance
    x, y, relative, absolute = map(_number, given.values())
    maximum = protocols.ufuncs["maximum"]
    allowed = maximum(relative * maximum(abs(x), abs(y)), absolute)
    finite = (abs(x) < math.inf) & (abs(y) < math.inf)
    return _python((x == y) | finite & (abs(x - y) <= allowed))


def _dist(p: Any, q: Any) -> Any:
    p, q = tuple(p), tuple(q)
    if len(p) != len(q) or not any(map(_is_traced_number, (*p, *q))):
        return math.dist(p, q)
    return _substitute("hypot", "hypot")(*(a - b for a, b in zip(p, q, strict=True)))


def _ldexp(x: Any, i: Any, /) -> Any:
    if not (_is_traced_number(x) or _is_traced_number(i)):
        return math.ldexp(x, i)
    x = _number(x)
    values = known(x), known(i)
    if None not in values:
        math.ldexp(float(values[0]), int(values[1]))  # raises where it overflows
    return _python(protocols.ufuncs["ldexp"](x, i))


def substitutes() -> dict[str, Any]:
    """The substitutes of `math`'s functions, by their names."""
    ufuncs = {name: new.rpartition(".")[2] for name, new in OF_MATH.items()}
    found: dict[str, Any] = {
        name: Made(partial(_substitute, name, ufunc))
        for name, ufunc in ufuncs.items()
        if ufunc in UFUNCS and name not in _OTHERS and hasattr(math, name)
    }
    return {**found, "dist": _dist, "isclose": _isclose, "ldexp": _ldexp}
