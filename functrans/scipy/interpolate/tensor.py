"""Products of B-splines, one for each variable: splines on grids.

Source: de Boor, A Practical Guide to Splines (1978), chapter XVII.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from functrans.numpy.arrays import inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.indexing import take
from functrans.scipy.inside import refuse_options
from functrans.scipy.interpolate.piecewise import must_be_real
from functrans.scipy.interpolate.splines import SMOOTHING, BSpline, interval_of, make_interp_spline


def local_basis(t: Any, k: int, x: Any) -> tuple[Any, list[Any]]:
    """The nonzero B-splines at each point: the index of the first, and the values of all k + 1."""
    interval = interval_of(t, k, x)
    values = [np.ones_like(x)]
    for level in range(1, k + 1):
        shares = []
        for j, value in enumerate(values):
            left, right = (take(t, interval + 1 + j - side) for side in (level, 0))
            shares.append(
                (value * (right - x) / (right - left), value * (x - left) / (right - left))
            )
        ends = [0.0, *(rising for _, rising in shares)], [*(falling for falling, _ in shares), 0.0]
        values = [a + b for a, b in zip(*ends, strict=True)]
    return interval - k, values


def coefficients(axes: Any, values: Any, degrees: Any) -> tuple[list[Any], Any]:
    """Knots for each axis of a grid, and the coefficients of the spline through its values."""
    knots = []
    for i, (x, k) in enumerate(zip(axes, degrees, strict=True)):
        spline = make_interp_spline(x, values, k, axis=i)
        knots.append(spline.t)
        values = np.moveaxis(spline.c, 0, i)
    return knots, values


def evaluated(knots: Any, c: Any, degrees: Any, places: Any) -> Any:
    """The spline at m points, given as one vector of coordinates for each axis."""
    bases = [local_basis(t, k, x) for t, k, x in zip(knots, degrees, places, strict=True)]
    sizes = c.shape[: len(knots)]
    flat = c.reshape(-1, *c.shape[len(sizes) :])
    total: Any = 0.0
    for corner in itertools.product(*(range(k + 1) for k in degrees)):
        index: Any = 0
        weight: Any = 1.0
        for j, size, (first, values) in zip(corner, sizes, bases, strict=True):
            index = index * size + first + j
            weight = weight * values[j]
        total = total + take(flat, index, axis=0) * weight.reshape(-1, *[1] * (flat.ndim - 1))
    return total


def differentiated(t: Any, c: Any, k: int, axis: int, nu: int) -> tuple[Any, Any, int]:
    """Knots, coefficients and degree of the derivative along an axis."""
    t, c, k = BSpline(t, c, k, axis=axis).derivative(nu).tck
    return t, np.moveaxis(c, 0, axis), k


class RectBivariateSpline:
    """The tensor-product spline through values on a rectangular grid, as in `scipy.interpolate`.

    It is differentiable in the evaluation points, the values and the axes of the grid.

    Parameters
    ----------
    x, y : arrays of shape (m,) and (n,), increasing
    z : array of shape (m, n)
    kx, ky : int
    s : float
        Must be 0: smoothing is not supported.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import RectBivariateSpline
    >>> axis = np.arange(5.0)
    >>> f = RectBivariateSpline(axis, axis, axis[:, None] * axis**2)
    >>> grad(lambda x: f.ev(x, 2.0))(1.5).round(6)
    np.float64(4.0)
    """

    def __init__(
        self, x: Any, y: Any, z: Any, bbox: Any = (None, None, None, None), kx: int = 3,
        ky: int = 3, s: Any = 0, maxit: int = 20,
    ) -> None:  # fmt: skip
        name = "scipy.interpolate.RectBivariateSpline"
        if known(s) != 0:
            refuse(f"{name}(..., s={s})", SMOOTHING)
        refuse_options(name, [("bbox", any(end is not None for end in bbox), "leave it out")])
        if not (1 <= kx <= 5 and 1 <= ky <= 5):
            raise ValueError(f"the degrees are from 1 to 5, and kx={kx}, ky={ky}")
        self._degrees = (kx, ky)
        self._knots, self._c = coefficients((x, y), must_be_real(inexact(z), "`z`"), self._degrees)

    @classmethod
    def of(cls, spline: Any) -> RectBivariateSpline:
        """Convert a spline of SciPy's, by its knots and coefficients."""
        self = object.__new__(cls)
        tx, ty, c = spline.tck
        self._degrees = spline.degrees
        sizes = [t.shape[0] - k - 1 for t, k in zip((tx, ty), spline.degrees, strict=True)]
        self._knots, self._c = [inexact(tx), inexact(ty)], inexact(c).reshape(sizes)
        return self

    def __call__(self, x: Any, y: Any, dx: int = 0, dy: int = 0, grid: bool = True) -> Any:
        """The values or derivatives on the grid of two vectors, or at broadcast points."""
        if not grid:
            return self.ev(x, y, dx, dy)
        x, y = np.atleast_1d(inexact(x)), np.atleast_1d(inexact(y))
        if x.ndim > 1 or y.ndim > 1:
            raise ValueError("with grid=True, `x` and `y` are vectors: pass grid=False for points")
        return self.ev(x[:, None], y, dx, dy)

    def ev(self, xi: Any, yi: Any, dx: int = 0, dy: int = 0) -> Any:
        """The values or derivatives at broadcast points."""
        (tx, ty), c, (kx, ky) = self._knots, self._c, self._degrees
        if not (0 <= dx < kx and 0 <= dy < ky):
            raise ValueError(
                f"orders of derivatives are from 0 to less than the degrees, {kx} and {ky}, and "
                f"dx={dx}, dy={dy}"
            )
        places = np.broadcast_arrays(*(must_be_real(inexact(x)) for x in (xi, yi)))
        ends = [(t[k], t[-k - 1]) for t, k in ((tx, kx), (ty, ky))]
        # outside, the spline continues with its values at the edge
        inside = [np.clip(p, *e).reshape(-1) for p, e in zip(places, ends, strict=True)]
        tx, c, kx = differentiated(tx, c, kx, 0, dx)
        ty, c, ky = differentiated(ty, c, ky, 1, dy)
        return evaluated((tx, ty), c, (kx, ky), inside).reshape(places[0].shape)

    def integral(self, xa: Any, xb: Any, ya: Any, yb: Any) -> Any:
        """The integral over a rectangle."""
        (tx, ty), (kx, ky) = self._knots, self._degrees
        along_x = BSpline(tx, self._c, kx).integrate(xa, xb, extrapolate=False)
        return BSpline(ty, along_x, ky).integrate(ya, yb, extrapolate=False)
