"""Objects of `numpy.polynomial` and `np.poly1d` with traced coefficients, and their methods.

Integrals and derivatives of a series are linear, and products bilinear, in its coefficients:
NumPy's own functions give their matrices. Which traced coefficients are 0 is not known: none is
trimmed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
from numpy.polynomial._polybase import ABCPolyBase

from functrans.numpy.arrays import array, inexact
from functrans.numpy.contraction import tensordot
from functrans.numpy.polynomial_roots import poly
from functrans.numpy.sequences import convolve
from functrans.numpy.series import BASES, Basis, value
from functrans.ops.arrays.shape import concatenate, holds_tracer
from functrans.ops.arrays.structural import expand_axes, zeros
from functrans.ops.linalg.products import matmul
from functrans.trace.delegation import delegate, own

Function = Callable[..., Any]


def _vector(c: Any) -> Any:
    found = array(c)
    found = found if found.ndim else expand_axes(found, (0,))
    if found.ndim != 1 or not found.size:
        raise ValueError(
            f"the coefficients of a polynomial must be a vector, not of the shape {found.shape}"
        )
    return found


def _longer(c: Any, size: int) -> Any:
    return concatenate([c, zeros((size - c.size,), c.dtype)], axis=0) if c.size < size else c


# -- vectors of coefficients, the lowest first -----------------------------------------------------


def _numpys(basis: Basis, kind: str) -> Function:
    name = next(name for name, each in BASES.items() if each is basis)
    found: Function = vars(sys.modules[f"numpy.polynomial.{name}"])[basis.prefix + kind]
    return found


def _add(basis: Basis, x: Any, y: Any) -> Any:
    return _longer(x, y.size) + _longer(y, x.size)


def _sub(basis: Basis, x: Any, y: Any) -> Any:
    return _longer(x, y.size) - _longer(y, x.size)


def _mul(basis: Basis, x: Any, y: Any) -> Any:
    if basis is BASES["polynomial"]:
        return convolve(x, y)
    products = np.zeros((x.size, y.size, x.size + y.size - 1))
    times = _numpys(basis, "mul")
    for i, j in np.ndindex(x.size, y.size):
        both = times(np.eye(1, i + 1, i)[0], np.eye(1, j + 1, j)[0])
        products[i, j, : both.size] = both
    of_x = tensordot(x, products.astype(x.dtype), axes=((0,), (0,)))
    return matmul(y, of_x)


def _times(basis: Basis, c: Any, count: int) -> Any:
    result = _vector(np.ones(1, c.dtype))
    for _ in range(count):
        result = _mul(basis, result, c)
    return result


def _derived(basis: Basis, c: Any, scale: float) -> Any:
    return matmul(_numpys(basis, "der")(np.eye(c.size, dtype=c.dtype), 1, scale), c)


def _integrated(basis: Basis, c: Any, scale: float, start: Any, constant: Any) -> Any:
    """The antiderivative that is ``constant`` at ``start``."""
    matrix = _numpys(basis, "int")(np.eye(c.size, dtype=c.dtype), 1, [], 0, scale)
    whole = matmul(matrix, c)
    shift = constant - value(basis, start, whole)
    return whole + shift * np.eye(1, whole.size, dtype=c.dtype)[0]


# -- methods ---------------------------------------------------------------------------------------


def _made(self: Any, c: Any) -> Any:
    return type(self)(c, self.domain, self.window, self.symbol)


def _binary(operation: Function, reflected: bool = False) -> Function:
    def call(basis: Basis, self: Any, other: Any) -> Any:
        x, y = (inexact(_vector(c)) for c in (self.coef, self._get_coefficients(other)))
        return _made(self, operation(basis, *((y, x) if reflected else (x, y))))

    return call


def _negative(basis: Basis, self: Any) -> Any:
    return _made(self, -self.coef)


def _power(basis: Basis, self: Any, other: Any) -> Any:
    if int(other) != other or other < 0:
        raise ValueError("Power must be a non-negative integer.")
    return _made(self, _times(basis, self.coef, int(other)))


def _deriv(basis: Basis, self: Any, m: int = 1) -> Any:
    if m < 0:
        raise ValueError("The order of derivation must be non-negative")
    c, (_, scale) = self.coef, self.mapparms()
    for _ in range(m):
        c = _derived(basis, c, scale) if c.size > 1 else c * 0
    return _made(self, c)


def _integ(basis: Basis, self: Any, m: int = 1, k: Any = (), lbnd: Any = None) -> Any:
    shift, scale = self.mapparms()
    start = 0 if lbnd is None else shift + scale * lbnd
    constants = list(k) if np.iterable(k) else [k]
    if m < 0 or len(constants) > m:
        raise ValueError("The order of integration must be that of the constants, or more")
    c = inexact(self.coef)
    for i in range(m):
        constant = constants[i] if i < len(constants) else 0
        c = _integrated(basis, c, 1 / scale, start, constant)
    return _made(self, c)


def _called(basis: Basis, self: Any, arg: Any) -> Any:
    shift, scale = self.mapparms()
    return value(basis, shift + scale * array(arg), self.coef)


_METHODS: dict[str, Function] = {
    "__add__": _binary(_add),
    "__radd__": _binary(_add, True),
    "__sub__": _binary(_sub),
    "__rsub__": _binary(_sub, True),
    "__mul__": _binary(_mul),
    "__rmul__": _binary(_mul, True),
    "__neg__": _negative,
    "__pow__": _power,
    "__call__": _called,
    "deriv": _deriv,
    "integ": _integ,
}


def _is_traced(x: Any) -> bool:
    return holds_tracer(x) or holds_tracer(getattr(x, "coef", None))


def _basis_of(series: Any) -> Basis | None:
    return BASES.get(type(series).__module__.removeprefix("numpy.polynomial."))


def _concerned(caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return _basis_of(args[0]) is not None and any(map(_is_traced, (*args, *kwargs.values())))


def _with_basis(ours: Function) -> Function:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ours(_basis_of(self), self, *args, **kwargs)

    return call


def _init(self: Any, coef: Any, *args: Any, **kwargs: Any) -> None:
    own(ABCPolyBase.__init__)(self, [0.0], *args, **kwargs)
    self.coef = inexact(_vector(coef))


def _has_traced_coefficients(
    caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    return holds_tracer(kwargs["coef"] if "coef" in kwargs else args[1])


def answer_for_methods() -> None:
    """Install the dispatch in the common base class of the polynomial objects."""
    delegate(ABCPolyBase.__init__, _init, _has_traced_coefficients)
    for name, ours in _METHODS.items():
        delegate(getattr(ABCPolyBase, name), _with_basis(ours), _concerned)


# -- the highest power first -----------------------------------------------------------------------


def initialize_poly1d(self: Any, c_or_r: Any, r: bool = False, variable: Any = None) -> None:
    """Initialise an ``np.poly1d``, whose methods call functions that dispatch on arguments."""
    own(np.poly1d.__init__)(self, [1.0], variable=variable)
    c = array(poly(c_or_r) if r else c_or_r)
    self._coeffs = _vector(c if c.shape != (0,) else zeros((1,), c.dtype))
