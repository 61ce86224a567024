"""B-splines: values by de Boor's recurrence, interpolation by collocation.

Source: de Boor, A Practical Guide to Splines (1978), chapters IX, X and XIII.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import axis_of, inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.indexing import take
from functrans.numpy.joining import concatenate
from functrans.scipy.define import double, quotient
from functrans.scipy.interpolate import piecewise

SMOOTHING = "use make_smoothing_spline(x, y, lam=...), or s=0 for a spline through the points"


class BSpline(piecewise.Piecewise):
    """A spline given by its knots and coefficients, as `scipy.interpolate.BSpline`.

    It is differentiable in the evaluation points, the coefficients and the knots.

    Parameters
    ----------
    t : array of shape (n + k + 1,), nondecreasing
    c : array with at least n values along an axis
    k : int
        The degree.
    extrapolate : bool or "periodic"
        Whether the first and the last polynomial continue outside; otherwise values there are NaN.
    axis : int

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import BSpline
    >>> spline = BSpline(np.arange(8.0), np.array([1.0, 2.0, 4.0, 7.0]), 3)
    >>> grad(spline)(3.5)
    np.float64(2.0)
    """

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0) -> None:
        self.t, c = piecewise.must_be_real(double(t), "`t`"), double(c)
        self.k = int(k)
        if self.k != k or k < 0:
            raise ValueError(f"the degree k is a nonnegative integer, not {k}")
        self.extrapolate = extrapolate
        self.axis = axis_of(axis, c.ndim)
        size = self.t.shape[0] - self.k - 1
        if size < self.k + 1:
            raise ValueError(f"Need at least {2 * k + 2} knots for degree {k}")
        _check_knots(known(self.t), self.k)
        self.c = np.moveaxis(c, self.axis, 0)
        if self.c.shape[0] < size:
            raise ValueError("Knots, coefficients and degree are inconsistent.")
        self.c = self.c[:size]

    @property
    def tck(self) -> tuple[Any, Any, int]:
        """Knots, coefficients and degree."""
        return self.t, self.c, self.k

    @property
    def ends(self) -> tuple[Any, Any]:
        """The ends of the base interval."""
        return self.t[self.k], self.t[-self.k - 1]

    def __iter__(self) -> Any:
        # SciPy's PPoly.from_spline unpacks what is no spline of SciPy's
        refuse("scipy.interpolate.PPoly.from_spline", "use the spline: it has the same methods")

    def _like(self, t: Any, c: Any, k: int, extrapolate: Any = None) -> BSpline:
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        return with_axis(BSpline(t, c, k, extrapolate), self.axis)

    def _at(self, x: Any) -> Any:
        """The values at a vector of points, by de Boor's recurrence."""
        t, k = self.t, self.k
        interval = interval_of(t, k, x)
        tail = [1] * (self.c.ndim - 1)
        points = [take(self.c, interval - k + j, axis=0) for j in range(k + 1)]
        for level in range(1, k + 1):
            for j in range(k, level - 1, -1):
                left = take(t, interval - k + j)
                width = take(t, interval + 1 + j - level) - left
                part = ((x - left) / width).reshape(-1, *tail)
                points[j] = (1 - part) * points[j - 1] + part * points[j]
        return points[k]

    def derivative(self, nu: int = 1) -> BSpline:
        """The derivative, as a spline of a lower degree."""
        if nu < 0:
            return self.antiderivative(-nu)
        if nu == 0:
            return self
        t, c, k = self.tck
        if k == 0:
            return self._like(t, 0.0 * c, 0).derivative(nu - 1)
        width = (t[k + 1 : -1] - t[1 : -k - 1]).reshape(-1, *[1] * (c.ndim - 1))
        slopes = k * quotient(np.diff(c, axis=0), width, 0.0)
        return self._like(t[1:-1], slopes, k - 1).derivative(nu - 1)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """The antiderivative that is 0 at the first knot of the base interval."""
        if nu <= 0:
            return self.derivative(-nu)
        t, c, k = self.tck
        width = (t[k + 1 :] - t[: -k - 1]).reshape(-1, *[1] * (c.ndim - 1))
        summed = np.cumsum(c * width, axis=0) / (k + 1)
        more = concatenate([np.zeros_like(summed[:1]), summed])
        knots = concatenate([t[:1], t, t[-1:]])
        extrapolate = False if self.extrapolate == "periodic" else None
        return self._like(knots, more, k + 1, extrapolate).antiderivative(nu - 1)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The integral from a to b; without extrapolation, the spline is 0 outside."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self.antiderivative()
        if extrapolate == "periodic":
            return self._over_periods(whole, a, b)
        a, b = inexact(a), inexact(b)
        if not extrapolate:
            a, b = np.clip(a, *self.ends), np.clip(b, *self.ends)
        return whole(b, extrapolate=True) - whole(a, extrapolate=True)


def _check_knots(t: Any, k: int) -> None:
    """Raise for knots that are known and cannot be those of a spline."""
    if t is None:
        return
    if not np.all(np.isfinite(t)):
        raise ValueError("Knots should not have nans or infs.")
    if np.any(np.diff(t) < 0):
        raise ValueError("Knots must be in a non-decreasing order.")
    if k and t[k] == t[-k - 1]:
        raise ValueError("Need at least two internal knots.")


def interval_of(t: Any, k: int, x: Any) -> Any:
    """The index of the nonempty knot interval that contains each point."""
    first, last = t[k], t[-k - 1]
    lowest = np.searchsorted(t, first, side="right") - 1
    # a piecewise constant spline has a value of its own at the right end
    highest = np.searchsorted(t, last, side="left") - 1 if k else t.shape[0] - 2
    return np.clip(np.searchsorted(t, x, side="right") - 1, lowest, highest)


# -- interpolation ---------------------------------------------------------------------------------


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0,
    check_finite: bool = True,
) -> BSpline:  # fmt: skip
    """The spline of degree ``k`` through points, as `scipy.interpolate.make_interp_spline`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import make_interp_spline
    >>> at = lambda y: make_interp_spline(np.arange(3.0), y, k=2)(0.5)
    >>> grad(at)(np.zeros(3))
    array([ 0.375,  0.75 , -0.125])
    """
    x, y, axis = piecewise.data_of(x, y, axis, check_finite)
    if k < 0:
        raise ValueError("Expect non-negative k.")
    if k == 0:
        if t is not None or bc_type is not None:
            raise ValueError("a spline of degree 0 has neither t= nor bc_type=: leave them out")
        return with_axis(BSpline(concatenate([x, x[-1:]]), y, 0), axis)
    ends = (None, None) if bc_type in (None, "not-a-knot", "periodic") else bc_type
    ends = (ends, ends) if isinstance(ends, str) else ends
    left, right = (_conditions(end, y.shape[1:]) for end in ends)
    periodic = bc_type == "periodic"
    if periodic:
        piecewise.check_periodic(y)
        periodic = k > 1  # as in SciPy, polygons are continued along their last intervals
    if t is not None:
        t = inexact(t)
    elif periodic:
        t = _periodic_knots(x, k)
    else:
        t = _repeated(x, x, k) if left or right else _knots(x, k)
    if known((x[0] < t[k]) | (x[-1] > t[-k - 1])):
        raise ValueError(f"the data points reach beyond the inner knots t[{k}] to t[{-k - 1}]")
    size = t.shape[0] - k - 1
    count = x.shape[0] + len(left) + len(right) + (k - 1 if periodic else 0)
    if size != count:
        raise ValueError(
            "The number of derivatives at boundaries does not match: expected "
            f"{size - x.shape[0]}, got {len(left)}+{len(right)}"
        )
    basis = BSpline(t, np.eye(size), k)
    rows = [basis(x)]
    values = [y.reshape(y.shape[0], -1)]
    for end, conditions in ((x[0], left), (x[-1], right)):
        rows += [basis(end, order)[None] for order, _ in conditions]
        values += [value[None] for _, value in conditions]
    if periodic:
        orders = range(1, k)
        rows += [(basis(x[0], order) - basis(x[-1], order))[None] for order in orders]
        values.append(np.zeros((k - 1, values[0].shape[1])))
    c = np.linalg.solve(concatenate(rows), concatenate(values)).reshape(size, *y.shape[1:])
    return with_axis(BSpline(t, c, k, "periodic" if periodic else True), axis)


def check_weights(w: Any, n: int) -> None:
    """Raise for weights of another shape than (n,), or known not to be positive."""
    w = inexact(w)
    if w.shape != (n,) or (known(w) is not None and not np.all(known(w) > 0)):
        raise ValueError(f"`w` has {n} positive weights, one for each point")


def with_axis(spline: BSpline, axis: int) -> BSpline:
    """A spline whose coefficients are along the first axis, and its values along another."""
    spline.axis = axis
    return spline


_NAMED = {"clamped": [(1, 0.0)], "natural": [(2, 0.0)], "not-a-knot": []}


def _conditions(end: Any, tail: tuple[int, ...]) -> list[tuple[int, Any]]:
    """The derivatives prescribed at an end, as vectors, with their orders."""
    if end is None:
        return []
    if isinstance(end, str):
        if end not in _NAMED:
            raise ValueError(f"Unknown boundary condition : {end}")
        end = _NAMED[end]
    return [(order, np.broadcast_to(inexact(value), tail).reshape(-1)) for order, value in end]


def _knots(x: Any, k: int) -> Any:
    """Not-a-knot knots: the points (midpoints for even degrees) without those next to the ends."""
    half = k // 2
    inner = (
        x[half + 1 : -half - 1] if k % 2 else ((x[1:] + x[:-1]) / 2)[half : x.shape[0] - 1 - half]
    )
    return _repeated(x, inner, k + 1)


def _repeated(x: Any, inner: Any, times: int) -> Any:
    return concatenate([x[:1]] * times + [inner] + [x[-1:]] * times)


def _periodic_knots(x: Any, k: int) -> Any:
    if k % 2 == 0:
        x = concatenate([x[:1], (x[1:-1] + x[:-2]) / 2, x[-1:]])
    widths = np.diff(x)
    count = x.shape[0] - 1
    before, after = x[:1], x[-1:]
    knots = [x]
    for i in range(k):
        before = before - widths[count - 1 - i % count]
        after = after + widths[i % count]
        knots = [before, *knots, after]
    return concatenate(knots)


def make_smoothing_spline(x: Any, y: Any, w: Any = None, lam: Any = None, *, axis: int = 0) -> Any:
    """The smoothing spline: the natural cubic spline of least penalised squared error.

    It minimises ``sum(w * (y - f(x))**2) + lam * integral(f''**2)``, and is differentiable in all
    arguments, including ``lam``. Source: Green and Silverman, Nonparametric Regression (1994),
    section 2.3.

    Parameters
    ----------
    x : array of shape (n,), increasing
    y : array with n values along an axis
    w : array of shape (n,), optional
    lam : float
        Required: SciPy's default, a choice by generalised cross-validation, is not supported.

    Returns
    -------
    BSpline

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import make_smoothing_spline
    >>> x, y = np.arange(5.0), np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    >>> grad(lambda lam: make_smoothing_spline(x, y, lam=lam)(2.0))(1.0).round(4)
    np.float64(-0.0467)
    """
    if lam is None:
        refuse("scipy.interpolate.make_smoothing_spline(..., lam=None)", "pass lam=")
    x, y, axis = piecewise.data_of(x, y, axis)
    n = x.shape[0]
    if n < 5:
        raise ValueError(f"`x` and `y` must have at least 5 elements, and they have {n}")
    if known(lam) is not None and known(lam) < 0:
        raise ValueError(f"`lam` must not be negative, and it is {known(lam)}")
    if w is not None:
        check_weights(w, n)
    h = np.diff(x)
    one = np.eye(n)
    # the matrices of second differences, and of integrals of products of hat functions
    bends = ((one[2:] - one[1:-1]) / h[1:, None]) - ((one[1:-1] - one[:-2]) / h[:-1, None])
    beside = np.diag(np.ones(n - 3), 1) * h[1:, None][: n - 2]
    hats = (np.diag(h[:-1] + h[1:]) * 2 + beside + beside.T) / 6
    penalty = bends.T @ np.linalg.solve(hats, bends)
    weights = np.ones(n) if w is None else inexact(w)
    right = weights[:, None] * y.reshape(n, -1)
    smooth = np.linalg.solve(np.diag(weights) + lam * penalty, right).reshape(y.shape)
    return with_axis(make_interp_spline(x, smooth, 3, bc_type="natural"), axis)
