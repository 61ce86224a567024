"""Objects of `numpy.polynomial` and `np.poly1d` with traced coefficients, and their methods.

Integrals, derivatives and conversions of a series are linear, and products bilinear, in its
coefficients: NumPy's own functions give their matrices. Traced coefficients that may be 0 are
not trimmed; those of roots are, where they are known.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
from numpy.polynomial import polyutils
from numpy.polynomial._polybase import ABCPolyBase

from functrans.lazily import lazy
from functrans.numpy.arrays import array, duplicate, inexact, known, operand, with_axes
from functrans.numpy.contraction import tensordot
from functrans.numpy.define import refuse
from functrans.numpy.series import BASES, Basis, clenshaw, value, vandermonde
from functrans.ops.arrays.shape import concatenate, holds_tracer, with_tracers
from functrans.ops.arrays.structural import astype, reshape, zeros
from functrans.ops.linalg.products import matmul
from functrans.trace.delegation import delegate, own

Function = Callable[..., Any]
_convolve = lazy("functrans.numpy.sequences:convolve")
_poly = lazy("functrans.numpy.polynomial_roots:poly")
_eigenvalues = lazy("functrans.numpy.decompositions:real_if_known")
_lstsq = lazy("functrans.numpy.linalg:lstsq")


def _vector(c: Any) -> Any:
    found = with_axes(c)
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
    return vars(sys.modules[f"numpy.polynomial.{name}"])[basis.prefix + kind]


def _add(basis: Basis, x: Any, y: Any) -> Any:
    return _longer(x, y.size) + _longer(y, x.size)


def _sub(basis: Basis, x: Any, y: Any) -> Any:
    return _longer(x, y.size) - _longer(y, x.size)


def _mul(basis: Basis, x: Any, y: Any) -> Any:
    if basis is BASES["polynomial"]:
        return _convolve(x, y)
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


def _derivative(basis: Basis, c: Any, m: int = 1, scl: Any = 1, axis: int = 0) -> Any:
    if m < 0:
        raise ValueError("The order of derivation must be non-negative")
    c = duplicate(inexact(_vector(c)))
    for _ in range(m):
        if c.size == 1:
            return c * 0
        c = matmul(_numpys(basis, "der")(np.eye(c.size, dtype=c.dtype)), c) * scl
    return c


def _antiderivative(
    basis: Basis, c: Any, m: int = 1, k: Any = (), lbnd: Any = 0, scl: Any = 1, axis: int = 0
) -> Any:
    """The antiderivative with the constants ``k`` at ``lbnd``."""
    constants = list(k) if np.iterable(k) else [k]
    if m < 0 or len(constants) > m:
        raise ValueError("The order of integration must be that of the constants, or more")
    c = duplicate(inexact(_vector(c)))
    for i in range(m):
        whole = matmul(_numpys(basis, "int")(np.eye(c.size, dtype=c.dtype)), c) * scl
        constant = constants[i] if i < len(constants) else 0
        first = np.eye(1, whole.size, dtype=c.dtype)[0]
        c = whole + (constant - value(basis, lbnd, whole)) * first
    return c


def _fit(
    basis: Basis, x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None
) -> Any:
    """The coefficients of the least-squares fit, of columns of the Vandermonde matrix."""
    if full:
        refuse(f"np.polynomial's {basis.prefix}fit(..., full=True)", "use np.linalg.lstsq")
    points, values = inexact(array(x)), inexact(array(y))
    degrees = np.sort(deg) if np.ndim(deg) else np.arange(deg + 1)
    matrix = vandermonde(basis, points, int(degrees[-1]))[:, degrees]
    if w is not None:
        weights = inexact(array(w))
        matrix, values = matrix * weights[:, None], (values.T * weights).T
    squares = np.sum(abs(matrix) ** 2, axis=0)
    norms = np.sqrt(np.where(squares == 0, 1, squares))
    cutoff = points.size * np.finfo(points.dtype).eps if rcond is None else rcond
    fitted = (_lstsq(matrix / norms, values, cutoff)[0].T / norms).T
    every = np.eye(degrees[-1] + 1, dtype=fitted.dtype)[:, degrees]
    return matmul(every, fitted) if np.ndim(deg) else fitted


def _line(basis: Basis, off: Any, scl: Any) -> Any:
    """The series of ``off + scl x``."""
    steep = holds_tracer(scl) or scl != 0
    off = inexact(array(off))
    return (off * np.eye(1, 2, dtype=off.dtype)[0] + scl * _numpys(basis, "line")(0, 1))[
        : 1 + steep
    ]


def _converted(numpys: Function, c: Any) -> Any:
    """A conversion between a basis and powers of ``x``, as a product by its triangular matrix."""
    c = inexact(_vector(c))
    matrix = np.zeros((c.size, c.size), c.dtype)
    for power, unit in enumerate(np.eye(c.size)):
        column = numpys(unit)
        matrix[: column.size, power] = column
    return matmul(matrix, c)


def _trimmed(c: Any) -> Any:
    c = inexact(_vector(c))
    while c.size > 1 and known(c[-1]) == 0:
        c = c[:-1]
    return c


def _companion(basis: Basis, c: Any) -> Any:
    """The matrix whose eigenvalues are the roots; only its last column depends on ``c``."""
    c = _trimmed(c)
    companion, last = _numpys(basis, "companion"), np.eye(1, c.size, c.size - 1)[0]
    constant = companion(last)
    factors = companion(np.ones(c.size))[:, -1:] - constant[:, -1:]
    return constant + (c[:-1] / c[-1])[:, None] * factors * last[1:]


def _roots(basis: Basis, c: Any) -> Any:
    c = _trimmed(c)
    if c.size < 2:
        return c[1:]
    # rotated as in NumPy, whose errors are smaller then
    matrix = _companion(basis, c)[::-1, ::-1]
    return matrix[0] if c.size == 2 else np.sort(_eigenvalues(matrix))


def _from_roots(x: Any, r: Any, tensor: bool = True) -> Any:
    """The product of all ``x - r[k]``; with ``tensor``, for each column of ``r`` at each place."""
    at, roots = operand(x), with_axes(inexact(r))
    if tensor:
        roots = reshape(roots, shape=roots.shape + (1,) * np.ndim(at))
    elif np.ndim(at) >= roots.ndim:
        raise ValueError("x.ndim must be < r.ndim when tensor == False")
    return np.prod(at - roots, axis=0)


def _of_two(operation: Function) -> Function:
    return lambda basis, c1, c2: operation(basis, *(inexact(_vector(c)) for c in (c1, c2)))


_FUNCTIONS: dict[str, Function] = {
    "val": value,
    "vander": vandermonde,
    "line": _line,
    "companion": _companion,
    "roots": _roots,
    "add": _of_two(_add),
    "sub": _of_two(_sub),
    "mul": _of_two(_mul),
    "pow": lambda basis, c, pow, maxpower=None: _times(basis, inexact(_vector(c)), int(pow)),
    "der": _derivative,
    "int": _antiderivative,
    "fit": _fit,
}
"""NumPy's functions of vectors of coefficients, by their names without prefix."""


def answer_for_functions(name: str) -> None:
    """Install the dispatch in the functions of a module of `numpy.polynomial`."""
    basis, module = BASES[name], vars(sys.modules[f"numpy.polynomial.{name}"])
    for kind, ours in _FUNCTIONS.items():
        delegate(_numpys(basis, kind), partial(ours, basis), with_tracers)
    if name == "polynomial":
        delegate(module["polyvalfromroots"], _from_roots, with_tracers)
    for kind in (f"{basis.prefix}2poly", f"poly2{basis.prefix}"):
        if kind in module:
            delegate(module[kind], partial(_converted, module[kind]), with_tracers)


def _as_series(alist: Any, trim: bool = True) -> Any:
    found = [inexact(_vector(c)) for c in alist]
    dtype = np.result_type(*(c.dtype for c in found))
    return [duplicate(astype(c, dtype)) for c in found]  # NumPy sorts them in place


def _mapdomain(x: Any, old: Any, new: Any) -> Any:
    shift, scale = polyutils.mapparms(array(old), array(new))
    return shift + scale * array(x)


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
    return _made(self, _derivative(basis, self.coef, m, self.mapparms()[1]))


def _integ(basis: Basis, self: Any, m: int = 1, k: Any = (), lbnd: Any = None) -> Any:
    shift, scale = self.mapparms()
    start = 0 if lbnd is None else shift + scale * lbnd
    return _made(self, _antiderivative(basis, self.coef, m, k, start, 1 / scale))


def _called(basis: Basis, self: Any, arg: Any) -> Any:
    shift, scale = self.mapparms()
    if isinstance(arg, ABCPolyBase):
        return clenshaw(basis, shift + scale * arg, self.coef)
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
    self.coef = duplicate(inexact(_vector(coef)))


def _has_traced_coefficients(
    caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    return holds_tracer(kwargs["coef"] if "coef" in kwargs else args[1])


def answer_for_methods() -> None:
    """Install the dispatch in what the modules and classes of polynomials share."""
    delegate(polyutils.as_series, _as_series, with_tracers)
    delegate(polyutils.mapdomain, _mapdomain, with_tracers)
    delegate(ABCPolyBase.__init__, _init, _has_traced_coefficients)
    for name, ours in _METHODS.items():
        delegate(getattr(ABCPolyBase, name), _with_basis(ours), _concerned)


# -- the highest power first -----------------------------------------------------------------------


def initialize_poly1d(self: Any, c_or_r: Any, r: bool = False, variable: Any = None) -> None:
    """Initialise an ``np.poly1d``, whose methods call functions that dispatch on arguments."""
    own(np.poly1d.__init__)(self, [1.0], variable=variable)
    c = array(_poly(c_or_r) if r else c_or_r)
    self._coeffs = _vector(c if c.shape != (0,) else zeros((1,), c.dtype))
