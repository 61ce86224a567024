"""Substitutes for functions of `math` and `cmath`: ``math.sin(x)`` of a traced number.

As in these modules, the result is a Python number, so its dtype is weak.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import partial, reduce
from types import ModuleType
from typing import Any

import numpy as np

from functrans.lazily import Made
from functrans.numpy.arrays import known
from functrans.ops import HOME as UFUNCS
from functrans.ops.arrays.numbers import as_number
from functrans.ops.elementwise.complex_numbers import complex_p
from functrans.trace import protocols
from functrans.trace.operators import python_bool
from functrans.trace.replacement import OF_MATH
from functrans.trace.source import user_frame
from functrans.trace.tracer import Tracer

_OTHERS = frozenset(("ceil", "comb", "floor", "frexp", "gcd", "lcm", "ldexp", "trunc"))
"""Functions of integers, and those that give integers."""

_FLOAT, _COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)


def _is_traced_number(x: Any, kinds: str = "biuf") -> bool:
    return isinstance(x, Tracer) and x.ndim == 0 and x.dtype.kind in kinds


def _real(x: Any) -> Any:
    # float() would accept strings
    return as_number(x, dtype=_FLOAT) if _is_traced_number(x) else math.ldexp(x, 0)


def _complex(x: Any) -> Any:
    return as_number(x, dtype=_COMPLEX) if _is_traced_number(x, "biufc") else complex(x)


def _substitute(module: ModuleType, name: str, ufunc: str) -> Callable[..., Any]:
    plain = getattr(module, name)
    operands = getattr(getattr(np, ufunc, None), "nin", 1)  # SciPy's functions take one
    number, kind, kinds = (_real, float, "biuf") if module is math else (_complex, complex, "biufc")

    def substitute(*args: Any) -> Any:
        if name == "log" and len(args) == 2:
            return substitute(args[0]) / substitute(args[1])
        if name == "hypot" and len(args) != 2 and any(map(_is_traced_number, args)):
            return reduce(substitute, args, 0.0)
        if len(args) != operands or not any(_is_traced_number(x, kinds) for x in args):
            return plain(*args)
        numbers = tuple(map(number, args))
        values = [known(x) for x in numbers]
        if None not in values:
            plain(*map(kind, values))  # raises outside of the domain
        result = protocols.ufuncs[ufunc](*numbers)
        return tuple(map(_python, result)) if isinstance(result, tuple) else _python(result)

    return substitute


def _python(x: Any) -> Any:
    """A result as a bool, float or complex number of Python, whose dtype is weak."""
    if x.dtype == np.bool_:
        return python_bool(x, user_frame())
    return as_number(x, dtype=_COMPLEX if x.dtype.kind == "c" else _FLOAT)


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    given = {"a": a, "b": b, "rel_tol": rel_tol, "abs_tol": abs_tol}
    if not any(map(_is_traced_number, given.values())):
        return math.isclose(**given)
    plain = {name: x for name, x in given.items() if not _is_traced_number(x)}
    math.isclose(**{"a": 0.0, "b": 0.0, **plain})  # raises for a negative tolerance
    x, y, relative, absolute = map(_real, given.values())
    maximum = protocols.ufuncs["maximum"]
    allowed = maximum(relative * maximum(abs(x), abs(y)), absolute)
    finite = (abs(x) < math.inf) & (abs(y) < math.inf)
    return _python((x == y) | finite & (abs(x - y) <= allowed))


def _dist(p: Any, q: Any) -> Any:
    p, q = tuple(p), tuple(q)
    if len(p) != len(q) or not any(map(_is_traced_number, (*p, *q))):
        return math.dist(p, q)
    return _substitute(math, "hypot", "hypot")(*(a - b for a, b in zip(p, q, strict=True)))


def _ldexp(x: Any, i: Any, /) -> Any:
    if not (_is_traced_number(x) or _is_traced_number(i)):
        return math.ldexp(x, i)
    x = _real(x)
    values = known(x), known(i)
    if None not in values:
        math.ldexp(float(values[0]), int(values[1]))  # raises where it overflows
    return _python(protocols.ufuncs["ldexp"](x, i))


def _remainder(x: Any, y: Any, /) -> Any:
    """The distance of x from the closest multiple of y (IEEE 754), exactly, by way of ``fmod``."""
    if not (_is_traced_number(x) or _is_traced_number(y)):
        return math.remainder(x, y)
    x, y = _real(x), _real(y)
    values = known(x), known(y)
    if None not in values:
        math.remainder(*map(float, values))  # raises outside of the domain
    fmod, step, rest = protocols.ufuncs["fmod"], abs(y), abs(x)
    low = fmod(rest, step)
    high = step - low
    half = low - 2.0 * fmod(0.5 * (rest - low), step)  # to the even multiple
    closest = np.where(low < high, low, np.where(low > high, -high, half))
    return _python(protocols.ufuncs["copysign"](1.0, x) * closest)


def _phase(z: Any) -> Any:
    return _substitute(math, "atan2", "arctan2")(z.imag, z.real)


def _polar(z: Any) -> Any:
    return (_python(abs(_complex(z))) if isinstance(z, Tracer) else abs(z)), _phase(z)


def _rect(r: Any, phi: Any) -> Any:
    if not _is_traced_number(r) and not _is_traced_number(phi):
        return cmath.rect(r, phi)
    return of_parts(*(r * _substitute(math, name, name)(phi) for name in ("cos", "sin")))


def of_parts(real: Any = 0.0, imag: Any = 0.0) -> Any:
    """``complex(real, imag)``; arithmetic would lose infinities and the signs of zeros."""
    if np.iscomplexobj(real) or np.iscomplexobj(imag):
        return real + 1j * imag
    return as_number(complex_p(_real(real), _real(imag)), dtype=_COMPLEX)


_OWN = {
    math: {"dist": _dist, "isclose": _isclose, "ldexp": _ldexp, "remainder": _remainder},
    cmath: {"phase": _phase, "polar": _polar, "rect": _rect},
}


def substitutes(module: ModuleType) -> dict[str, Any]:
    """The substitutes of the functions of `math` or `cmath`, by their names."""
    ufuncs = {name: new.rpartition(".")[2] for name, new in OF_MATH.items()}
    found: dict[str, Any] = {
        name: Made(partial(_substitute, module, name, ufunc))
        for name, ufunc in ufuncs.items()
        if ufunc in UFUNCS and name not in _OTHERS and hasattr(module, name)
    }
    return {**found, **_OWN[module]}


class _OfTraced(type):
    """The metaclass of replacements of ``float`` and ``complex``, which convert traced numbers.

    They stand for Python's own classes in every other respect.
    """

    kind: type
    kinds: str

    def __call__(cls, *given: Any, **parts: Any) -> Any:
        if any(_is_traced_number(x, cls.kinds) for x in (*given, *parts.values())):
            if len(given) == 1 and not parts:
                return as_number(given[0], dtype=np.dtype(cls.kind))
            if cls.kind is complex:
                return of_parts(*given, **parts)
        return cls.kind(*given, **parts)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.kind, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.kind

    def __hash__(cls) -> int:
        return hash(cls.kind)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.kind)

    def __instancecheck__(cls, x: Any) -> bool:
        if type(x) is Tracer:
            return x.ndim == 0 and x.dtype == np.dtype(cls.kind)
        return isinstance(x, cls.kind)

    @property
    def dtype(cls) -> Any:
        """The dtype as which NumPy interprets the class."""
        return np.dtype(cls.kind)


class Float(metaclass=_OfTraced):
    """The replacement of ``float``."""

    kind = float
    kinds = "biuf"


class Complex(metaclass=_OfTraced):
    """The replacement of ``complex``."""

    kind = complex
    kinds = "biufc"


class _OfNumPys(_OfTraced):
    """The metaclass of replacements of NumPy's classes of numbers, which convert arrays, too."""

    convert: Callable[..., Any]

    def __call__(cls, *given: Any) -> Any:
        return cls.convert(*given)


def standing_for(numpys: type, convert: Callable[..., Any]) -> type:
    """The replacement of ``np.float64`` or another such class, given what calling it does."""
    body = {"__slots__": (), "kind": numpys, "convert": staticmethod(convert)}
    return _OfNumPys(numpys.__name__, (numpys,), body)  # of its bases, like the class itself
