"""Piecewise cubic interpolants: cubic splines, monotone cubics (PCHIP) and Akima's method.

Sources: de Boor, A Practical Guide to Splines (1978), chapter IV; Fritsch and Butland, SIAM J. Sci.
Stat. Comput. 5 (1984) for the slopes of PCHIP; Akima, J. ACM 17 (1970).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import inexact
from functrans.numpy.joining import concatenate
from functrans.scipy.interpolate.piecewise import (
    PPoly,
    check_periodic,
    check_real,
    data_of,
    hermite,
    must_be_finite,
)


class CubicSpline(PPoly):
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
        x, values, axis = data_of(x, y, axis)
        if extrapolate is None:
            extrapolate = "periodic" if bc_type == "periodic" else True
        slopes = _slopes(x, values, bc_type)
        super().__init__(*hermite(x, values, slopes, axis, extrapolate))


def _slopes(x: Any, y: Any, bc_type: Any) -> Any:
    """The slopes at the data points that make the second derivative continuous."""
    n = x.shape[0]
    if n < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    tail = y.shape[1:]
    values = y.reshape(n, -1)
    h = np.diff(x)
    secant = np.diff(values, axis=0) / h[:, None]
    if isinstance(bc_type, str) and bc_type == "periodic":
        check_periodic(y)
        return _periodic(n, h, secant).reshape(n, *tail)
    ends = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    if len(ends) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    if n == 2:  # not-a-knot needs two intervals: with one, the secant
        ends = tuple((1, None) if end == "not-a-knot" else end for end in ends)
    if n == 3 and ends == ("not-a-knot", "not-a-knot"):
        return _parabola(h, secant).reshape(n, *tail)
    rows = [_end(ends[0], h, secant, tail, left=True)]
    rows += [
        (
            i - 1,
            [h[i], 2 * (h[i - 1] + h[i]), h[i - 1]],
            3 * (h[i] * secant[i - 1] + h[i - 1] * secant[i]),
        )
        for i in range(1, n - 1)
    ]
    rows.append(_end(ends[1], h, secant, tail, left=False))
    return _solved(n, rows).reshape(n, *tail)


def _solved(n: int, rows: Any) -> Any:
    """Solve a system whose rows are tuples of first column, coefficients and right-hand side."""
    matrix = np.stack(
        [
            concatenate(
                [
                    np.zeros(start % n),
                    np.stack([np.asarray(c) if isinstance(c, float) else c for c in coefficients]),
                    np.zeros(n - start % n - len(coefficients)),
                ]
            )
            for start, coefficients, _ in rows
        ]
    )
    return np.linalg.solve(matrix, np.stack([right for _, _, right in rows]))


def _end(condition: Any, h: Any, secant: Any, tail: Any, left: bool) -> tuple[int, list[Any], Any]:
    """A boundary condition as a row: first column, coefficients and right-hand side."""
    n = h.shape[0] + 1
    if isinstance(condition, str):
        named = {"clamped": (1, 0.0), "natural": (2, 0.0), "not-a-knot": None}
        if condition not in named:
            raise ValueError(f"bc_type={condition} is not allowed.")
        condition = named[condition]
    i, j = (0, 1) if left else (n - 2, n - 3)
    if condition is None:
        near, far = h[i], h[j]
        both = near + far
        right = ((near + 2 * both) * far * secant[i] + near**2 * secant[j]) / both
        coefficients = [far, both]
    else:
        order, value = condition
        given = secant[i] if value is None else inexact(value)
        given = np.broadcast_to(given, tail).reshape(-1) if value is not None else given
        if order == 1:
            return (0, [1.0, 0.0], given) if left else (n - 2, [0.0, 1.0], given)
        if order != 2:
            raise ValueError("The specified derivative order must be 1 or 2.")
        right = 3 * secant[i] + (-0.5 if left else 0.5) * h[i] * given
        coefficients = [2.0, 1.0]
    if left:
        return 0, coefficients, right
    return n - 2, coefficients[::-1], right


def _parabola(h: Any, secant: Any) -> Any:
    bend = (secant[1] - secant[0]) / (h[0] + h[1])
    first = secant[0] - bend * h[0]
    return np.stack([first, first + 2 * bend * h[0], first + 2 * bend * (h[0] + h[1])])


def _periodic(n: int, h: Any, secant: Any) -> Any:
    """The slopes of a periodic spline, whose last point equals the first."""
    count = n - 1
    if count == 1:
        return np.zeros_like(concatenate([secant, secant]))
    matrix = np.zeros((count, count))
    indices = np.arange(count)
    before = np.roll(h, 1)
    one = np.eye(count)
    matrix = (
        np.diag(2 * (h + before))
        + one[(indices - 1) % count] * h[:, None]
        + one[(indices + 1) % count] * before[:, None]
    )
    right = 3 * (h[:, None] * np.roll(secant, 1, axis=0) + before[:, None] * secant)
    slopes = np.linalg.solve(matrix, right)
    return concatenate([slopes, slopes[:1]])


class CubicHermiteSpline(PPoly):
    """The piecewise cubic with given values and slopes, as `scipy.interpolate.CubicHermiteSpline`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.scipy.interpolate import CubicHermiteSpline
    >>> CubicHermiteSpline(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 3.0]))(0.5)
    array(0.125)
    """

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, values, axis = data_of(x, y, axis)
        slopes = np.moveaxis(inexact(dydx), axis, 0)
        must_be_finite(slopes, "dydx")
        super().__init__(*hermite(x, values, slopes, axis, extrapolate))


class PchipInterpolator(PPoly):
    """Monotone piecewise cubic interpolation (PCHIP), as `scipy.interpolate.PchipInterpolator`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.scipy.interpolate import PchipInterpolator
    >>> PchipInterpolator(np.arange(4.0), np.array([0.0, 0.0, 1.0, 1.0]))(np.array([0.5, 1.5]))
    array([0. , 0.5])
    """

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None) -> None:
        x, values, axis = data_of(x, y, axis)
        check_real(values, "PchipInterpolator")
        slopes = _monotone_slopes(x, values)
        super().__init__(*hermite(x, values, slopes, axis, extrapolate))


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


class Akima1DInterpolator(PPoly):
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
        x, values, axis = data_of(x, y, axis)
        check_real(values, "Akima1DInterpolator")
        slopes = _akima_slopes(x, values, method)
        extrapolate = False if extrapolate is None else extrapolate
        super().__init__(*hermite(x, values, slopes, axis, extrapolate))


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
    weighed = (left * m[1:-2] + right * m[2:-1]) / np.where(even, 1.0, total)
    plain = 0.5 * (m[3:] + m[:-3]) if method == "akima" else np.zeros_like(weighed)
    return np.where(even, plain, weighed)
