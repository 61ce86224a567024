"""Interpolation of scattered data: radial basis functions, and piecewise linear on triangulations.

Sources: Fasshauer, Meshfree Approximation Methods with Matlab (2007), for sums of radial functions
and polynomials; SciPy's documentation for the kernels.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from functrans.api.host import callback
from functrans.api.recompute import stop_gradient
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.numpy.arrays import inexact
from functrans.numpy.define import refuse
from functrans.numpy.indexing import take
from functrans.numpy.joining import concatenate
from functrans.ops.arrays.shape import holds_tracer
from functrans.scipy.define import double
from functrans.scipy.inside import refuse_options
from functrans.scipy.interpolate.piecewise import must_be_real

_delaunay = lazy("scipy.spatial:Delaunay")
_tree = lazy("scipy.spatial:cKDTree")


def _thin_plate(squared: Any) -> Any:
    nothing = squared == 0
    return 0.5 * squared * np.log(np.where(nothing, 1.0, squared))


def _odd(power: int, sign: int) -> Any:
    def kernel(squared: Any) -> Any:
        # the root has no derivative at distance 0, but its powers have the derivative 0
        nothing = squared == 0
        root = np.sqrt(np.where(nothing, 1.0, squared))
        return sign * np.where(nothing, 0.0, root * squared ** (power // 2))

    return kernel


_KERNELS = {
    "linear": _odd(1, -1),
    "thin_plate_spline": _thin_plate,
    "cubic": _odd(3, 1),
    "quintic": _odd(5, -1),
    "multiquadric": lambda squared: -np.sqrt(squared + 1),
    "inverse_multiquadric": lambda squared: 1 / np.sqrt(squared + 1),
    "inverse_quadratic": lambda squared: 1 / (squared + 1),
    "gaussian": lambda squared: np.exp(-squared),
}
"""The radial functions, of the squared distance."""

_LEAST_DEGREE = {"multiquadric": 0, "linear": 0, "thin_plate_spline": 1, "cubic": 1, "quintic": 2}
_SCALE_FREE = ("linear", "thin_plate_spline", "cubic", "quintic")


class RBFInterpolator:
    """Radial basis function interpolation, as `scipy.interpolate.RBFInterpolator`.

    The interpolant is a sum of radial functions and a polynomial. It is differentiable in the
    evaluation points, the data points, the values, ``smoothing`` and ``epsilon``.

    Parameters
    ----------
    y : array of shape (n, d)
        The points.
    d : array of shape (n, ...)
        The values.
    neighbors : None
        Other values are not supported: which points are nearest depends on values.
    smoothing : float or array of shape (n,)
    kernel : str
    epsilon : float
    degree : int, optional
        The degree of the polynomial; -1 for none.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import RBFInterpolator
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> f = RBFInterpolator(points, points[:, 0] + 2 * points[:, 1])
    >>> grad(lambda x: f(x[None])[0])(np.array([0.3, 0.4])).round(6)
    array([1., 2.])
    """

    def __init__(
        self, y: Any, d: Any, neighbors: Any = None, smoothing: Any = 0.0,
        kernel: str = "thin_plate_spline", epsilon: Any = None, degree: Any = None,
    ) -> None:  # fmt: skip
        name = "scipy.interpolate.RBFInterpolator"
        refuse_options(name, [("neighbors", neighbors, "leave it out")])
        kernel = kernel.lower()
        if kernel not in _KERNELS:
            raise ValueError(f"`kernel` must be one of {set(_KERNELS)}.")
        if epsilon is None:
            if kernel not in _SCALE_FREE:
                raise ValueError(
                    f"`epsilon` must be specified if `kernel` is not one of {set(_SCALE_FREE)}."
                )
            epsilon = 1.0
        self.y, self.d = must_be_real(double(y), "`y`"), double(d)
        if self.y.ndim != 2 or self.d.shape[:1] != self.y.shape[:1]:
            raise ValueError("`y` must be 2-dimensional, with a row for each element of `d`.")
        if degree is not None and degree < -1:
            raise ValueError(f"`degree` must be at least -1, and it is {degree}")
        if np.ndim(epsilon) or np.shape(smoothing) not in ((), self.y.shape[:1]):
            raise ValueError(
                f"`epsilon` is a number, and `smoothing` one or an array of shape "
                f"{self.y.shape[:1]}; their shapes are {np.shape(epsilon)} and "
                f"{np.shape(smoothing)}"
            )
        least = _LEAST_DEGREE.get(kernel, -1)
        self.degree = max(least, 0) if degree is None else int(degree)
        self.kernel, self.epsilon, self.smoothing = kernel, epsilon, smoothing
        self.powers = _powers(self.y.shape[1], self.degree)
        if len(self.powers) > self.y.shape[0]:
            raise ValueError(
                f"At least {len(self.powers)} data points are required when `degree` is "
                f"{self.degree} and the number of dimensions is {self.y.shape[1]}."
            )
        self._weights = self._solved()

    def _solved(self) -> Any:
        n, count = self.y.shape[0], len(self.powers)
        beside = self._polynomials(self.y)
        within = self._radial(self.y) + self.smoothing * np.eye(n)
        matrix = concatenate(
            [
                concatenate([within, beside], axis=1),
                concatenate([beside.T, np.zeros((count, count))], axis=1),
            ]
        )
        values = self.d.reshape(n, -1)
        return np.linalg.solve(matrix, concatenate([values, np.zeros((count, values.shape[1]))]))

    def _radial(self, x: Any) -> Any:
        squared = np.sum(((x[:, None] - self.y) * self.epsilon) ** 2, axis=-1)
        return _KERNELS[self.kernel](squared)

    def _polynomials(self, x: Any) -> Any:
        low, high = (stop_gradient(end(self.y, axis=0)) for end in (np.min, np.max))
        width = np.where(high == low, 2.0, high - low)
        scaled = (x - (low + high) / 2) / (width / 2)
        terms = [np.ones(x.shape[0])]
        for power in self.powers[1:]:
            term: Any = 1.0
            for i, exponent in enumerate(power):
                for _ in range(exponent):
                    term = term * scaled[:, i]
            terms.append(term)
        return (
            np.stack(terms[: len(self.powers)], axis=1) if self.powers else terms[0][:, None][:, :0]
        )

    def __call__(self, x: Any) -> Any:
        """The values at points of shape (m, d)."""
        x = must_be_real(double(x))
        if x.ndim != 2 or x.shape[1] != self.y.shape[1]:
            raise ValueError("`x` must be 2-dimensional, with a column for each of those of `y`.")
        basis = concatenate([self._radial(x), self._polynomials(x)], axis=1)
        return (basis @ self._weights).reshape(x.shape[0], *self.d.shape[1:])


def _powers(dimensions: int, degree: int) -> list[tuple[int, ...]]:
    """The exponents of all monomials up to a given degree."""
    every = itertools.product(range(degree + 1), repeat=dimensions)
    return sorted((p for p in every if sum(p) <= degree), key=sum)


# -- triangles -------------------------------------------------------------------------------------


def _points(points: Any, what: str) -> Any:
    """Data points as rows; they must not be traced."""
    if holds_tracer(points):
        refuse(
            f"scipy.interpolate.{what} with points that are traced",
            "which of them are neighbours is a choice: use RBFInterpolator, or plain points",
        )
    if isinstance(points, tuple):
        points = np.stack(np.broadcast_arrays(*points), axis=-1)
    plain = np.asarray(points, float)
    return plain[:, None] if plain.ndim == 1 else plain


def _places(xi: Any, dimensions: int) -> Any:
    """Points of shape (..., d): those of one array, or d arrays of coordinates that broadcast."""
    xi = xi[0] if len(xi) == 1 else xi
    if isinstance(xi, tuple):
        xi = np.stack(np.broadcast_arrays(*map(inexact, xi)), axis=-1)
    elif np.ndim(xi) == 1:
        xi = inexact(xi).reshape(-1, dimensions)
    places = must_be_real(inexact(xi))
    if places.shape[-1:] != (dimensions,):
        raise ValueError(
            f"the data points have {dimensions} coordinates, so points of shape "
            f"(..., {dimensions}) are expected, and `xi` has the shape {places.shape}"
        )
    return places


def _found(find: Any, places: Any) -> Any:
    """The indices found by a search on the host, for points of shape (m, d)."""
    look_up = callback(find, out_types=Aval(places.shape[:1], np.int64))
    return look_up(stop_gradient(places))


class LinearNDInterpolator:
    """Linear interpolation on a Delaunay triangulation, as in `scipy.interpolate`.

    The data points must not be traced, since they are triangulated when the function is traced. The
    interpolant is differentiable in the evaluation points and in the values.

    Parameters
    ----------
    points : array of shape (n, d)
    values : array of shape (n, ...)
    fill_value : float
        The value outside the convex hull.
    rescale : bool

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import LinearNDInterpolator
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> f = LinearNDInterpolator(points, points[:, 0] + 2 * points[:, 1])
    >>> grad(lambda x: f(x[None])[0])(np.array([0.3, 0.4]))
    array([1., 2.])
    """

    def __init__(
        self, points: Any, values: Any, fill_value: Any = np.nan, rescale: bool = False
    ) -> None:
        if hasattr(points, "find_simplex"):
            self._triangles, points = points, points.points
        plain = _points(points, "LinearNDInterpolator")
        self._scale = np.ptp(plain, axis=0) if rescale else np.ones(plain.shape[1])
        if not hasattr(self, "_triangles"):
            self._triangles = _delaunay(plain / self._scale)
        self._values, self._fill = inexact(values), fill_value

    def __call__(self, *xi: Any) -> Any:
        """The values at points of shape (..., d), or at d arrays that broadcast."""
        places = _places(xi, self._scale.size)
        triangles = self._triangles
        x = places.reshape(-1, places.shape[-1]) / self._scale
        simplex = _found(triangles.find_simplex, x)
        tail = [1] * (self._values.ndim - 1)
        frame = take(triangles.transform, simplex, axis=0)
        parts = np.sum(frame[:, :-1] * (x - frame[:, -1])[:, None], axis=-1)
        weights = concatenate([parts, 1 - np.sum(parts, axis=-1, keepdims=True)], axis=1)
        corners = take(triangles.simplices.astype(np.int64), simplex, axis=0)
        at_corners = take(self._values, corners, axis=0)
        value = np.sum(weights.reshape(*weights.shape, *tail) * at_corners, axis=1)
        value = np.where((simplex < 0).reshape(-1, *tail), self._fill, value)
        return value.reshape((*places.shape[:-1], *self._values.shape[1:]))


class NearestNDInterpolator:
    """Nearest-neighbour interpolation, as in `scipy.interpolate`; data points must not be traced.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import NearestNDInterpolator
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> grad(lambda v: NearestNDInterpolator(points, v)(0.9, 0.2))(np.array([3.0, 4.0]))
    array([0., 1.])
    """

    def __init__(
        self, x: Any, y: Any, rescale: bool = False, tree_options: dict[str, Any] | None = None
    ) -> None:
        plain = _points(x, "NearestNDInterpolator")
        self._scale = np.ptp(plain, axis=0) if rescale else np.ones(plain.shape[1])
        if np.shape(y)[:1] != plain.shape[:1]:
            raise ValueError(f"there are {plain.shape[0]} points, and values {np.shape(y)}")
        self._tree = _tree(plain / self._scale, **(tree_options or {}))
        self._values = double(y)

    def __call__(self, *xi: Any) -> Any:
        """The values at points of shape (..., d), or at d arrays that broadcast."""
        places = _places(xi, self._scale.size)
        x = places.reshape(-1, places.shape[-1]) / self._scale
        nearest = _found(lambda x: self._tree.query(x)[1], x)
        shape = *places.shape[:-1], *self._values.shape[1:]
        return take(self._values, nearest, axis=0).reshape(shape)


def griddata(
    points: Any, values: Any, xi: Any, method: str = "linear", fill_value: Any = np.nan,
    rescale: bool = False,
) -> Any:  # fmt: skip
    """Interpolation of scattered data at given points; the data points must not be traced.

    Parameters
    ----------
    points : array of shape (n, d), d > 1
    values : array of shape (n, ...)
    xi : array of shape (..., d), or tuple of arrays
    method : {"linear", "nearest"}

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import griddata
    >>> points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> grad(lambda v: griddata(points, v, np.array([[0.25, 0.25]]))[0])(np.ones(3))
    array([0.5 , 0.25, 0.25])
    """
    if _points(points, "griddata").shape[1] == 1:
        refuse("scipy.interpolate.griddata in one dimension", "use interp1d")
    if method == "nearest":
        return NearestNDInterpolator(points, values, rescale)(xi)
    if method != "linear":
        refuse(
            f"scipy.interpolate.griddata(..., method={method!r})",
            "use RBFInterpolator, which is smooth",
        )
    return LinearNDInterpolator(points, values, fill_value, rescale)(xi)
