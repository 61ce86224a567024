"""Piecewise polynomials: values, derivatives, integrals."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.numpy.arrays import array, axis_of, inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.indexing import take
from functrans.numpy.joining import concatenate
from functrans.ops.arrays.shape import holds_tracer
from functrans.scipy.define import double

_scipys_ppoly = lazy("scipy.interpolate:PPoly")


class Piecewise:
    """What piecewise polynomials and splines have in common: where values are NaN, and periods.

    `_at` gives the values at a vector of points, which continue outside of the ``ends``.
    """

    extrapolate: Any
    axis: int

    @property
    def ends(self) -> Any: ...

    def _at(self, x: Any) -> Any: ...

    def derivative(self, nu: int = 1) -> Any: ...

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """The values, or the ``nu``-th derivatives, at points of any shape."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if operator.index(nu) < 0:
            raise ValueError("Order of derivative cannot be negative")
        if nu:
            return self.derivative(nu)(x, 0, extrapolate)
        places = array(x)
        flat = must_be_real(inexact(places)).reshape(-1)
        first, last = self.ends
        if extrapolate == "periodic":
            flat = first + (flat - first) % (last - first)
        value = self._at(flat)
        outside = np.isnan(flat)
        if not extrapolate:
            # breakpoints may decrease
            outside = outside | (flat < np.minimum(first, last)) | (flat > np.maximum(first, last))
        value = np.where(outside.reshape(-1, *[1] * (value.ndim - 1)), np.nan, value)
        return placed(value, places.shape, self.axis)

    def _over_periods(self, whole: Any, a: Any, b: Any) -> Any:
        """The integral from a to b, from an antiderivative on the base interval."""
        first, last = self.ends

        def since_the_first(x: Any) -> Any:
            turns, there = np.divmod(x - first, last - first)
            return turns * (whole(last) - whole(first)) + whole(first + there) - whole(first)

        return since_the_first(inexact(b)) - since_the_first(inexact(a))


class PPoly(Piecewise):
    """A polynomial on each of several intervals, as `scipy.interpolate.PPoly`.

    Coefficients, breakpoints and evaluation points may be plain or traced; the result is
    differentiable in all of them. At a breakpoint, the derivative is the one to its right.

    Parameters
    ----------
    c : array of shape (k, m, ...)
        Coefficients of the powers k - 1, ..., 1, 0 of the distance from the left end of each
        interval; with ``axis``, of shape (..., k, m, ...).
    x : array of shape (m + 1,)
        Breakpoints, in increasing or decreasing order.
    extrapolate : bool or "periodic"
        Whether the first and the last polynomial continue outside; otherwise values there are NaN.
    axis : int
        The position of the axis of evaluation points in the values, and of that of powers in ``c``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import PPoly
    >>> p = PPoly(np.array([[1.0, 0.0], [0.0, 3.0]]), np.array([0.0, 1.0, 2.0]))
    >>> p(np.array([0.5, 1.5]))
    array([0.5, 3. ])
    >>> grad(p)(0.5)
    np.float64(1.0)
    """

    def __init__(self, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
        c, x = double(c), must_be_real(double(x), "`x`")
        if x.ndim != 1 or x.shape[0] < 2:
            raise ValueError("`x` must be 1-dimensional and have at least 2 elements")
        if c.ndim < 2 or not 0 <= axis < c.ndim - 1:
            raise ValueError(
                f"`c` has the shape {c.shape}: `axis` and the axis after it must be those of the "
                f"powers and of the intervals, and axis={axis}"
            )
        c = np.moveaxis(c, (axis, axis + 1), (0, 1))
        if c.shape[0] == 0 or c.shape[1] != x.shape[0] - 1:
            raise ValueError("`c` must have a coefficient of each power for each interval")
        steps = known(np.diff(x))
        if steps is not None and not (np.all(steps >= 0) or np.all(steps <= 0)):
            raise ValueError("`x` must be strictly increasing or decreasing.")
        self._set(c, x, extrapolate, axis)

    def _set(self, c: Any, x: Any, extrapolate: Any, axis: int) -> None:
        self.c, self.x = double(c), double(x)
        self.extrapolate = True if extrapolate is None else extrapolate
        self.axis = axis

    @classmethod
    def construct_fast(cls, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> PPoly:
        """The polynomial with coefficients of shape (k, m, ...) for any ``axis``, unchecked."""
        self = object.__new__(cls)
        self._set(c, x, extrapolate, axis)
        return self

    def _like(self, c: Any, extrapolate: Any = None) -> PPoly:
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        return PPoly.construct_fast(c, self.x, extrapolate, self.axis)

    def _scipys(self) -> Any:
        return _scipys_ppoly.resolve().construct_fast(self.c, self.x, self.extrapolate, self.axis)

    @property
    def ends(self) -> tuple[Any, Any]:
        return self.x[0], self.x[-1]

    def _at(self, x: Any) -> Any:
        i = np.searchsorted(*_increasing(self.x, x), side="right") - 1
        i = np.clip(i, 0, self.x.shape[0] - 2)
        distance = (x - take(self.x, i)).reshape(-1, *[1] * (self.c.ndim - 2))
        coefficients = take(self.c, i, axis=1)
        value = coefficients[0]
        for coefficient in coefficients[1:]:
            value = value * distance + coefficient
        return value

    def __getattr__(self, name: str) -> Any:
        """Other methods are SciPy's, and need plain coefficients."""
        if name.startswith("_") or not {"c", "x"} <= vars(self).keys():
            raise AttributeError(name)
        return getattr(self._scipys(), name)

    def solve(self, y: Any = 0.0, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """The points where the polynomial has a value, by SciPy: of plain numbers only."""
        if holds_tracer((self.c, self.x, y)):
            refuse(
                "scipy.interpolate.PPoly.solve (or roots) of traced numbers",
                "find each root by functrans.scipy.optimize.brentq",
            )
        return self._scipys().solve(y, discontinuity, extrapolate)

    def roots(self, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """The points where the polynomial is 0; see `solve`."""
        return self.solve(0.0, discontinuity, extrapolate)

    def derivative(self, nu: int = 1) -> PPoly:
        """The derivative, as a piecewise polynomial of a lower order."""
        if nu < 0:
            return self.antiderivative(-nu)
        order = self.c.shape[0]
        if nu >= order:
            return self._like(np.zeros_like(self.c[:1]))
        powers = range(order - 1, nu - 1, -1)
        factors = np.array([math.perm(power, nu) for power in powers], float)
        return self._like(self.c[: order - nu] * factors.reshape(-1, *[1] * (self.c.ndim - 1)))

    def antiderivative(self, nu: int = 1) -> PPoly:
        """An integral that is continuous, and 0 at the first breakpoint."""
        if nu <= 0:
            return self.derivative(-nu)
        order = self.c.shape[0]
        tail = [1] * (self.c.ndim - 1)
        c = self.c / np.arange(order, 0, -1.0).reshape(-1, *tail)
        steps = np.diff(self.x).reshape(-1, *tail[1:])
        over = c[0]
        for coefficient in c[1:]:
            over = over * steps + coefficient
        reached = np.cumsum(over * steps, axis=0)
        start = concatenate([np.zeros_like(reached[:1]), reached[:-1]])
        periodic = self.extrapolate == "periodic"
        result = self._like(concatenate([c, start[None]]), False if periodic else None)
        return result if nu == 1 else result.antiderivative(nu - 1)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self._like(self.c, True).antiderivative()
        if extrapolate == "periodic":
            return self._over_periods(whole, a, b)
        bounds = None if extrapolate else False
        return whole(b, extrapolate=bounds) - whole(a, extrapolate=bounds)


class BPoly(PPoly):
    """A piecewise polynomial whose coefficients are of Bernstein polynomials.

    Its values only; `scipy.interpolate.BPoly` implements the other methods, for plain coefficients.
    """

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        """The values, or the ``nu``-th derivatives, at points of any shape."""
        return self._in_powers()(x, nu, extrapolate)

    def _in_powers(self) -> PPoly:
        """The same polynomial by its coefficients of powers: the scaled differences of ``c``."""
        degree = self.c.shape[0] - 1
        steps = np.diff(self.x).reshape(-1, *[1] * (self.c.ndim - 2))
        powers = [
            math.comb(degree, n) * np.diff(self.c, n, axis=0)[0] / steps**n
            for n in range(degree, -1, -1)
        ]
        return self._like(np.stack(powers))


def _increasing(x: Any, t: Any) -> tuple[Any, Any]:
    """Breakpoints and evaluation points, with the opposite sign if the breakpoints decrease."""
    plain = known(x)
    if plain is not None and plain[0] <= plain[-1]:
        return x, t
    way = np.where(x[0] > x[-1], -1.0, 1.0)
    return way * x, way * t


def placed(values: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Reshape the first axis of values to the evaluation points' shape, and move it to ``axis``."""
    values = values.reshape((*shape, *values.shape[1:]))
    if axis == 0:
        return values
    order = list(range(values.ndim))
    inner, order = order[: len(shape)], order[len(shape) :]
    return np.transpose(values, [*order[:axis], *inner, *order[axis:]])


def check_increasing(x: Any) -> None:
    """Raise if abscissas are known not to increase."""
    plain = known(x)
    if plain is not None and np.any(np.diff(plain) <= 0):
        raise ValueError("`x` must be strictly increasing sequence.")


def must_be_finite(x: Any, name: str) -> None:
    """Raise if values are known not to be finite."""
    plain = known(x)
    if plain is not None and not np.all(np.isfinite(plain)):
        raise ValueError(f"`{name}` must contain only finite values.")


def must_be_real(x: Any, name: str = "the points of evaluation") -> Any:
    """The array itself; raises for complex numbers, which have no order."""
    if x.dtype.kind == "c":
        raise ValueError(f"{name} must be real, and the dtype is {x.dtype}: pass the real part")
    return x


def check_periodic(y: Any) -> None:
    """Raise if the ends of periodic data are known to differ."""
    plain = known(y)
    if plain is not None and not np.allclose(plain[0], plain[-1], rtol=1e-15, atol=1e-15):
        raise ValueError("The first and last `y` point must be identical if they are periodic.")


def check_real(y: Any, name: str) -> None:
    """Raise if values that are compared with each other are complex."""
    if y.dtype.kind == "c":
        raise ValueError(
            f"`{name}` only works with real values for `y`: interpolate y.real and y.imag"
        )


def data_of(x: Any, y: Any, axis: int, check_finite: bool = True) -> tuple[Any, Any, int]:
    """Abscissas, and the data with the interpolation axis moved to the front."""
    x, y = must_be_real(double(x), "`x`"), double(y)
    axis = axis_of(axis, y.ndim)
    y = np.moveaxis(y, axis, 0)
    if x.ndim != 1 or x.shape[0] != y.shape[0]:
        raise ValueError(
            f"`x` of shape {x.shape} and `y` with {y.shape[0]} values along the axis do not fit"
        )
    if check_finite:
        must_be_finite(x, "x")
        must_be_finite(y, "y")
    check_increasing(x)
    return x, y, axis


def hermite(x: Any, y: Any, slopes: Any, axis: int, extrapolate: Any) -> tuple[Any, Any, Any, int]:
    """The arguments of the `PPoly` of the cubics with given values and slopes at breakpoints."""
    h = np.diff(x).reshape(-1, *[1] * (y.ndim - 1))
    secant = np.diff(y, axis=0) / h
    bend = (slopes[:-1] + slopes[1:] - 2 * secant) / h
    c = np.stack([bend / h, (secant - slopes[:-1]) / h - bend, slopes[:-1], y[:-1]])
    return c, x, extrapolate, axis
