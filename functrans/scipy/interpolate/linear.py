"""Linear, nearest-neighbour and polynomial interpolation, in one dimension and on regular grids."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from functrans.api.mapping import vmap
from functrans.numpy.arrays import array, axis_of, inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.indexing import take
from functrans.scipy.define import double
from functrans.scipy.interpolate.cubic import PchipInterpolator
from functrans.scipy.interpolate.piecewise import check_increasing, must_be_real, placed
from functrans.scipy.interpolate.splines import make_interp_spline
from functrans.scipy.interpolate.tensor import coefficients, differentiated, evaluated

_STEPS = ("linear", "nearest", "nearest-up", "previous", "next", "zero")
_DEGREES = {"slinear": 1, "quadratic": 2, "cubic": 3}
_GRID_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}


class interp1d:
    """Interpolation in one dimension, as `scipy.interpolate.interp1d`.

    Parameters
    ----------
    x : array of shape (n,)
    y : array with n values along an axis
    kind : str or int
        "linear", "nearest", "nearest-up", "previous", "next", "zero", or the degree of a spline:
        "slinear", "quadratic", "cubic", or a number.
    axis : int
    bounds_error : bool, optional
        Whether points outside raise an error, if they are known; by default, only without a fill
        value.
    fill_value : float, pair or "extrapolate"
        The value outside; in a pair, the values below and above.
    assume_sorted : bool

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import interp1d
    >>> grad(lambda t: interp1d([0.0, 1.0, 3.0], [0.0, 2.0, 3.0])(t))(2.0)
    np.float64(0.5)
    """

    def __init__(
        self, x: Any, y: Any, kind: Any = "linear", axis: int = -1, copy: bool = True,
        bounds_error: bool | None = None, fill_value: Any = np.nan, assume_sorted: bool = False,
    ) -> None:  # fmt: skip
        x, y = inexact(x), array(y)
        self.axis = axis_of(axis, y.ndim)
        self.kind = kind
        self._degree = kind if isinstance(kind, int) else _DEGREES.get(kind)
        if kind not in _STEPS and self._degree is None:
            raise NotImplementedError(
                f"{kind} is unsupported: Use fitpack routines for other types."
            )
        y = np.moveaxis(inexact(y), self.axis, 0)
        if x.ndim != 1 or x.shape[0] != y.shape[0]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        if not assume_sorted:
            order = np.argsort(x)
            x, y = x[order], y[order]
        self.x, self.y = x, y
        extrapolates = isinstance(fill_value, str)
        if extrapolates and fill_value != "extrapolate":
            raise ValueError(f'fill_value is a number, a pair or "extrapolate", not {fill_value!r}')
        if extrapolates and bounds_error:
            raise ValueError(
                'fill_value="extrapolate" gives a value outside, and bounds_error=True an error: '
                "leave one of them out"
            )
        self._fill = self._beyond() if extrapolates else fill_value
        default = (
            not extrapolates
            and not isinstance(fill_value, tuple)
            and bool(known(np.all(np.isnan(fill_value))))
        )
        self._raises = default if bounds_error is None else bounds_error

    def _beyond(self) -> Any:
        """The extrapolated values below and above; None to continue the pieces at the ends."""
        ends = {"previous": (np.nan, self.y[-1]), "next": (self.y[0], np.nan)}
        return ends.get(self.kind)

    def __call__(self, x: Any) -> Any:
        """The values at points of any shape."""
        places = array(x)
        flat = must_be_real(inexact(places)).reshape(-1)
        below, above = flat < self.x[0], flat > self.x[-1]
        outside = known(below | above)
        if self._raises and outside is not None and np.any(outside):
            raise ValueError("A value in x_new is outside the interpolation range.")
        tail = [1] * (self.y.ndim - 1)
        value = self._inside(flat, tail)
        if self._fill is not None:
            both = self._fill if isinstance(self._fill, tuple) else (self._fill, self._fill)
            low, high = (array(fill).astype(value.dtype) for fill in both)
            value = np.where(below.reshape(-1, *tail), low, value)
            value = np.where(above.reshape(-1, *tail), high, value)
        return placed(value, places.shape, self.axis)

    def _inside(self, t: Any, tail: list[int]) -> Any:
        def rows(i: Any) -> Any:
            return take(self.y, i, axis=0)

        last = self.x.shape[0] - 1
        if self._degree is not None:
            return make_interp_spline(self.x, self.y, self._degree)(t)
        if self.kind in ("previous", "zero"):
            value = rows(np.clip(np.searchsorted(self.x, t, side="right") - 1, 0, last))
            if self.kind == "zero":  # a spline in SciPy, so NaN at NaN
                value = np.where(np.isnan(t).reshape(-1, *tail), np.nan, double(value))
            return value
        if self.kind == "next":
            return rows(np.clip(np.searchsorted(self.x, t, side="left"), 0, last))
        if self.kind in ("nearest", "nearest-up"):
            middles = self.x[:-1] + np.diff(self.x) / 2
            side: Any = "left" if self.kind == "nearest" else "right"
            return rows(np.searchsorted(middles, t, side=side))
        i = np.clip(np.searchsorted(self.x, t) - 1, 0, last - 1)
        left = take(self.x, i)
        slope = (rows(i + 1) - rows(i)) / (take(self.x, i + 1) - left).reshape(-1, *tail)
        return rows(i) + slope * (t - left).reshape(-1, *tail)


class RegularGridInterpolator:
    """Interpolation on a regular grid of several dimensions, as in `scipy.interpolate`.

    Parameters
    ----------
    points : tuple of arrays of shape (m_i,)
        Increasing or decreasing.
    values : array of shape (m_1, ..., m_n, ...)
    method : {"linear", "nearest", "slinear", "cubic", "quintic", "pchip"}
    bounds_error : bool
        Whether points outside raise an error, if they are known.
    fill_value : float or None
        The value outside; None extrapolates.
    solver, solver_args : optional
        Ignored: the equations for the coefficients of splines are solved directly.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import RegularGridInterpolator
    >>> axes = (np.arange(3.0), np.arange(4.0))
    >>> f = RegularGridInterpolator(axes, axes[0][:, None] * axes[1])
    >>> grad(lambda p: f(p)[0])(np.array([0.5, 1.5]))
    array([1.5, 0.5])
    """

    def __init__(
        self, points: Any, values: Any, method: str = "linear", bounds_error: bool = True,
        fill_value: Any = np.nan, *, solver: Any = None, solver_args: Any = None,
    ) -> None:  # fmt: skip
        self.values = inexact(values)
        self._decreasing: dict[int, Any] = {}  # by dimension: whether its coordinates decrease
        self.grid = tuple(self._increasing(i, double(p)) for i, p in enumerate(points))
        self.method = method
        self._check_method(method)
        if method not in _GRID_DEGREES and (solver is not None or solver_args is not None):
            raise ValueError(f"{method =} does not accept the 'solver' argument, nor solver_args")
        for i, axis in enumerate(self.grid):
            check_increasing(axis)
            if axis.shape != (self.values.shape[i],):
                raise ValueError(
                    f"There are {axis.shape[0]} points and {self.values.shape[i]} values on "
                    f"dimension {i}"
                )
        if fill_value is not None and not np.can_cast(
            np.result_type(fill_value), self.values.dtype, "same_kind"
        ):
            raise ValueError("fill_value must be either 'None' or of a type compatible with values")
        self._raises, self._fill = bounds_error, fill_value

    def _check_method(self, method: str) -> None:
        if method not in ("linear", "nearest", "pchip", *_GRID_DEGREES):
            raise ValueError(f"Method '{method}' is not defined")
        fewest = min((axis.shape[0] for axis in self.grid), default=0)
        if method == "pchip" and fewest < 4:
            raise ValueError(
                f"There are {fewest} points in a dimension, and method pchip requires at least 4"
            )

    def _increasing(self, i: int, axis: Any) -> Any:
        """Coordinates of the grid, which are reversed with the values if they decrease."""
        plain = known(axis)
        if plain is None:
            self._decreasing[i] = axis[0] > axis[-1]
            return np.where(self._decreasing[i], np.flip(axis), axis)
        if plain.size < 2 or plain[0] < plain[-1]:
            return axis
        self.values = np.flip(self.values, i)
        return np.flip(axis)

    def __call__(self, xi: Any, method: str | None = None, *, nu: Any = None) -> Any:
        """The values at points of shape (..., n), or at a tuple of n arrays that broadcast.

        ``nu`` has the order of the derivative along each axis, if the method is one of splines.
        """
        dimensions = len(self.grid)
        if isinstance(xi, tuple):
            xi = _stacked(xi)
        elif (xi := double(xi)).ndim == 1:
            xi = xi.reshape(-1, dimensions)
        must_be_real(xi)
        if xi.shape[-1] != dimensions:
            raise ValueError(
                f"The requested sample points xi have dimension {xi.shape[-1]} but this "
                f"RegularGridInterpolator has dimension {dimensions}"
            )
        shape = xi.shape[:-1]
        places = xi.reshape(-1, dimensions)
        outside = np.zeros(places.shape[0], bool)
        lower, fractions = [], []
        for i, axis in enumerate(self.grid):
            t = places[:, i]
            outside = outside | ~((t >= axis[0]) & (t <= axis[-1]))
            last = max(axis.shape[0] - 2, 0)
            j = np.clip(np.searchsorted(axis, t, side="right") - 1, 0, last)
            lower.append(j)
            left = take(axis, j)
            one = axis.shape[0] == 1
            fractions.append(np.zeros_like(t) if one else (t - left) / (take(axis, j + 1) - left))
        seen = known(outside)
        if self._raises and seen is not None and np.any(seen):
            raise ValueError("One of the requested xi is out of bounds")
        tail = [1] * (self.values.ndim - dimensions)
        method = method or self.method
        self._check_method(method)
        if nu is not None and method not in _GRID_DEGREES:
            raise ValueError(
                f"Can only compute derivatives for methods {tuple(_GRID_DEGREES)}, got {method =}."
            )
        if nu is not None and (np.shape(nu) != (dimensions,) or min(nu) < 0):
            raise ValueError(f"nu has a nonnegative order for each of {dimensions} axes, not {nu}")
        if method in _GRID_DEGREES:
            degrees = [_GRID_DEGREES[method]] * dimensions
            knots, c = coefficients(self.grid, self._in_order(), degrees)
            for i, order in enumerate(() if nu is None else nu):
                knots[i], c, degrees[i] = differentiated(knots[i], c, degrees[i], i, order)
            value = evaluated(knots, c, degrees, list(places.T))
        elif method == "pchip":
            values = self._in_order()
            value = vmap(lambda place: self._monotone(values, place))(places).astype(values.dtype)
        else:
            value = self._between(lower, fractions, tail, method)
        if self._fill is not None:
            value = np.where(outside.reshape(-1, *tail), self._fill, value)
        unknown = np.any(np.isnan(places), axis=-1)
        value = np.where(unknown.reshape(-1, *tail), np.nan, value)
        return value.reshape((*shape, *self.values.shape[dimensions:]))

    def _in_order(self) -> Any:
        """The values in the order of the increasing coordinates."""
        values = self.values
        for i, decreases in self._decreasing.items():
            values = np.where(decreases, np.flip(values, i), values)
        return values

    def _monotone(self, value: Any, place: Any) -> Any:
        """The value at one point, by a `PchipInterpolator` along each axis in turn."""
        for i in reversed(range(len(self.grid))):
            value = PchipInterpolator(self.grid[i], value, axis=i)(place[i])
        return value

    def _between(self, lower: Any, fractions: Any, tail: list[int], method: str) -> Any:
        if method == "nearest":
            return self._at(
                [np.where(f <= 0.5, j, j + 1) for j, f in zip(lower, fractions, strict=True)]
            )
        total: Any = 0.0
        ends = [(0,) if axis.shape[0] == 1 else (0, 1) for axis in self.grid]
        for corner in itertools.product(*ends):
            weight: Any = 1.0
            for side, f in zip(corner, fractions, strict=True):
                weight = weight * (f if side else 1 - f)
            at = [j + side for j, side in zip(lower, corner, strict=True)]
            total = total + self._at(at) * weight.reshape(-1, *tail)
        return total

    def _at(self, indices: Any) -> Any:
        """The values at points of the grid, given by their indices in increasing coordinates."""
        sizes = self.values.shape[: len(self.grid)]
        flat: Any = 0
        for axis, (i, size) in enumerate(zip(indices, sizes, strict=True)):
            if axis in self._decreasing:
                i = np.where(self._decreasing[axis], size - 1 - i, i)
            flat = flat * size + i
        return take(self.values.reshape(-1, *self.values.shape[len(sizes) :]), flat, axis=0)


def interpn(
    points: Any, values: Any, xi: Any, method: str = "linear", bounds_error: bool = True,
    fill_value: Any = np.nan,
) -> Any:  # fmt: skip
    """Interpolation on a regular grid at given points, by a `RegularGridInterpolator`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.scipy.interpolate import interpn
    >>> interpn((np.arange(3.0),), np.array([0.0, 1.0, 4.0]), np.array([1.5]))
    array([2.5])
    """
    at = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    return at(_stacked(xi) if isinstance(xi, tuple) else xi)


def _stacked(coordinates: Any) -> Any:
    return np.stack(np.broadcast_arrays(*map(double, coordinates)), axis=-1)


class BarycentricInterpolator:
    """The interpolating polynomial, as `scipy.interpolate.BarycentricInterpolator`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import BarycentricInterpolator
    >>> grad(BarycentricInterpolator(np.arange(3.0), np.arange(3.0) ** 2))(1.5)
    np.float64(3.0)
    """

    def __init__(self, xi: Any, yi: Any, axis: int = 0) -> None:
        self.xi, yi = must_be_real(inexact(xi), "`xi`"), inexact(yi)
        points = known(self.xi)
        if points is not None and np.unique(points).size < points.size:
            raise ValueError("Interpolation points xi must be distinct.")
        self._axis = axis_of(axis, yi.ndim)
        self.yi = np.moveaxis(yi, self._axis, 0)
        gaps = self.xi[:, None] - self.xi + np.eye(self.xi.shape[0])
        self._weights = 1 / np.prod(gaps, axis=-1)

    def __call__(self, x: Any) -> Any:
        """The values at points of any shape."""
        places = must_be_real(inexact(x))
        # by Lagrange polynomials, since barycentric weights divide 0 by 0 at the data points
        own = np.eye(self.xi.shape[0], dtype=bool)
        factors = np.where(own, 1.0, places.reshape(-1)[:, None, None] - self.xi)
        basis = np.prod(factors, axis=-1) * self._weights
        return placed(np.tensordot(basis, self.yi, 1), places.shape, self._axis)


def barycentric_interpolate(
    xi: Any, yi: Any, x: Any, axis: int = 0, *, der: int = 0, rng: Any = None
) -> Any:
    """The interpolating polynomial at given points, as a sum of Lagrange polynomials.

    ``rng``, with which SciPy permutes the data points, has no effect here.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.scipy.interpolate import barycentric_interpolate
    >>> barycentric_interpolate(np.arange(3.0), np.arange(3.0) ** 2, 1.5)
    array(2.25)
    """
    if der != 0:
        refuse("scipy.interpolate.barycentric_interpolate(..., der=...)", "differentiate it by jvp")
    return BarycentricInterpolator(xi, yi, axis)(x)
