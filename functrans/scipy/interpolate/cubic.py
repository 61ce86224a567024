"""Piecewise cubic interpolants: cubic splines, monotone cubics (PCHIP) and Akima's method.

The slopes of cubic splines are found by SciPy's source. Sources of the others: Fritsch and Butland,
SIAM J. Sci. Stat. Comput. 5 (1984) for PCHIP; Akima, J. ACM 17 (1970).
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.lazily import lazy
from functrans.numpy.arrays import inexact
from functrans.numpy.joining import concatenate
from functrans.scipy.interpolate import piecewise
from functrans.scipy.source.reinterpret import module, reinterpreted

solve_banded = lazy("functrans.scipy.linalg:solve_banded")

_CUBIC = "scipy.interpolate._cubic"


class CubicHermiteSpline(piecewise.PPoly):
    """The piecewise cubic with given values and slopes, as `scipy.interpolate.CubicHermiteSpline`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.scipy.interpolate import CubicHermiteSpline
    >>> CubicHermiteSpline(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 3.0]))(0.5)
    array(0.125)
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, values, axis = piecewise.data_of(x, y, axis)
        slopes = np.moveaxis(inexact(dydx), axis, 0)
        piecewise.must_be_finite(slopes, "dydx")
        self._set(*piecewise.hermite(x, values, slopes, axis, extrapolate))


class CubicSpline(CubicHermiteSpline):
    """The cubic spline through data points: piecewise cubic, with two continuous derivatives.

    As `scipy.interpolate.CubicSpline`; differentiable in the evaluation points, the data and the
    boundary conditions.

    Parameters
    ----------
    x : array of shape (n,), increasing
    y : array with n values along an axis
    axis : int
    bc_type : str or pair
        "not-a-knot", "periodic", "clamped" or "natural"; or a condition for each end: one of these
        except "periodic", or a pair of the order of a derivative, 1 or 2, and its value.
    extrapolate : bool or "periodic", optional

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import CubicSpline
    >>> x = np.arange(5.0)
    >>> at = lambda y: CubicSpline(x, y, bc_type="natural")(1.5)
    >>> grad(at)(x**2).round(4)
    array([-0.0737,  0.567 ,  0.6071, -0.1205,  0.0201])
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        _by_source()(self, x, y, axis, bc_type, extrapolate)

    def _validate_bc(self, bc_type: Any, y: Any, *expected: Any) -> Any:
        if isinstance(bc_type, str) and bc_type == "periodic":  # whether it is, may be unknown
            piecewise.check_periodic(y)
            return [bc_type, bc_type], y
        scipys = module(_CUBIC).CubicSpline
        return reinterpreted(scipys._validate_bc)(bc_type, y, *expected)


@cached(1)
def _by_source() -> Any:
    """SciPy's `CubicSpline.__init__`, whose ``super()`` is that of our class."""
    copied = reinterpreted(module(_CUBIC).CubicSpline.__init__)
    cells = (CellType(CubicSpline),)
    return FunctionType(copied.__code__, copied.__globals__, "__init__", None, cells)


def _prepared(x: Any, y: Any, axis: int, **options: Any) -> Any:
    x, values, axis = piecewise.data_of(x, y, axis)
    if x.shape[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    return x, np.diff(x), values, axis, None


WORTH_BANDS = 150
"""The number of points from which a system is solved in its bands in less time than as a matrix."""


def _tridiagonal(l_and_u: Any, bands: Any, b: Any, **options: Any) -> Any:
    if bands.shape[-1] >= WORTH_BANDS:
        return solve_banded(l_and_u, bands, b)
    above, middle, below = bands
    matrix = np.diag(above[1:], 1) + np.diag(middle) + np.diag(below[:-1], -1)
    return np.linalg.solve(matrix, b)


NAMES: dict[str, Any] = {"prepare_input": _prepared, "solve_banded": _tridiagonal}
"""The replacements for names in SciPy's module, which branches on elements to check them."""


class PchipInterpolator(piecewise.PPoly):
    """Monotone piecewise cubic interpolation (PCHIP), as `scipy.interpolate.PchipInterpolator`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.scipy.interpolate import PchipInterpolator
    >>> PchipInterpolator(np.arange(4.0), np.array([0.0, 0.0, 1.0, 1.0]))(np.array([0.5, 1.5]))
    array([0. , 0.5])
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, values, axis = piecewise.data_of(x, y, axis)
        piecewise.check_real(values, "PchipInterpolator")
        slopes = _monotone_slopes(x, values)
        self._set(*piecewise.hermite(x, values, slopes, axis, extrapolate))


def _monotone_slopes(x: Any, y: Any) -> Any:
    h = np.diff(x).reshape(-1, *[1] * (y.ndim - 1))
    secant = np.diff(y, axis=0) / h
    if x.shape[0] == 2:
        return concatenate([secant, secant])
    before, after = secant[:-1], secant[1:]
    turns = (np.sign(before) != np.sign(after)) | (before == 0) | (after == 0)
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    mean = (w1 / np.where(turns, 1.0, before) + w2 / np.where(turns, 1.0, after)) / (w1 + w2)
    inner = np.where(turns, 0.0, 1.0 / np.where(turns, 1.0, mean))
    first = _end_slope(h[0], h[1], secant[0], secant[1])
    last = _end_slope(h[-1], h[-2], secant[-1], secant[-2])
    return concatenate([first[None], inner, last[None]])


def _end_slope(h0: Any, h1: Any, near: Any, far: Any) -> Any:
    slope = ((2 * h0 + h1) * near - h0 * far) / (h0 + h1)
    wrong_way = np.sign(slope) != np.sign(near)
    too_steep = (np.sign(near) != np.sign(far)) & (np.abs(slope) > 3.0 * np.abs(near))
    return np.where(wrong_way, 0.0, np.where(too_steep, 3.0 * near, slope))


class Akima1DInterpolator(piecewise.PPoly):
    """Akima's piecewise cubic, as `scipy.interpolate.Akima1DInterpolator`.

    Parameters
    ----------
    x : array of shape (n,), increasing
    y : array
    axis : int
    method : {"akima", "makima"}
    extrapolate : bool, optional
        False by default.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.scipy.interpolate import Akima1DInterpolator
    >>> Akima1DInterpolator(np.arange(5.0), np.arange(5.0) ** 2)(2.5)
    array(6.25)
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None
    ) -> None:
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        x, values, axis = piecewise.data_of(x, y, axis)
        piecewise.check_real(values, "Akima1DInterpolator")
        slopes = _akima_slopes(x, values, method)
        extrapolate = False if extrapolate is None else extrapolate
        self._set(*piecewise.hermite(x, values, slopes, axis, extrapolate))


def _akima_slopes(x: Any, y: Any, method: str) -> Any:
    h = np.diff(x).reshape(-1, *[1] * (y.ndim - 1))
    inner = np.diff(y, axis=0) / h
    if x.shape[0] == 2:
        return concatenate([inner, inner])
    first, last = 2.0 * inner[0] - inner[1], 2.0 * inner[-1] - inner[-2]
    before, after = 2.0 * first - inner[0], 2.0 * last - inner[-1]
    m = concatenate([before[None], first[None], inner, last[None], after[None]])
    change = np.abs(np.diff(m, axis=0))
    if method == "makima":
        change = change + np.abs(m[1:] + m[:-1]) / 2
    left, right = change[2:], change[:-2]
    total = left + right
    even = ~(total > 1e-9 * np.max(total)) if method == "akima" else total == 0
    # a quotient of differences first: a product of large ones would overflow
    weighed = m[1:-2] + right / np.where(even, 1.0, total) * (m[2:-1] - m[1:-2])
    plain = 0.5 * (m[3:] + m[:-3]) if method == "akima" else np.zeros_like(weighed)
    return np.where(even, plain, weighed)
