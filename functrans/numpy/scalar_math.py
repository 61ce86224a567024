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
from functrans.trace.replacement import OF_MATH
from functrans.trace.tracer import Tracer

_OTHERS = frozenset(("ceil", "comb", "floor", "frexp", "gcd", "lcm", "ldexp", "modf", "trunc"))
"""Functions of integers, and those that give integers or two results."""

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
        return result if result.dtype == np.bool_ else as_number(result, dtype=_FLOAT)

    return substitute


def _dist(p: Any, q: Any) -> Any:
    p, q = tuple(p), tuple(q)
    if len(p) != len(q) or not any(map(_is_traced_number, (*p, *q))):
        return math.dist(p, q)
    return _substitute("hypot", "hypot")(*(a - b for a, b in zip(p, q, strict=True)))


def substitutes() -> dict[str, Any]:
    """The substitutes of `math`'s functions, by their names."""
    ufuncs = {name: new.rpartition(".")[2] for name, new in OF_MATH.items()}
    found: dict[str, Any] = {
        name: Made(partial(_substitute, name, ufunc))
        for name, ufunc in ufuncs.items()
        if ufunc in UFUNCS and name not in _OTHERS and hasattr(math, name)
    }
    return {**found, "dist": _dist}
