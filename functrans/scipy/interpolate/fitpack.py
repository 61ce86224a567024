"""Splines as in FITPACK: `UnivariateSpline`, and the functions of knots, coefficients and degree.

Source: Dierckx, Curve and Surface Fitting with Splines (1993).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.joining import concatenate
from functrans.scipy.inside import refuse_options
from functrans.scipy.interpolate.piecewise import must_be_real
from functrans.scipy.interpolate.splines import (
    SMOOTHING,
    BSpline,
    check_weights,
    make_interp_spline,
)


class UnivariateSpline:
    """An interpolating spline of one variable, as `scipy.interpolate.UnivariateSpline`.

    For plain data, SciPy chooses the knots and smooths; for traced data, only the spline through
    all points (``s=0``) is supported.

    Parameters
    ----------
    x, y : arrays of shape (n,)
    k : int
    s : float
        0.
    ext : {0, 1, 2, 3} or {"extrapolate", "zeros", "raise", "const"}

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import UnivariateSpline
    >>> x = np.arange(5.0)
    >>> grad(lambda a: UnivariateSpline(x, a * x**2, s=0).integral(0.0, 3.0))(1.0).round(6)
    np.float64(9.0)
    """

    _smooths = True

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, s: Any = None,
        ext: Any = 0, check_finite: bool = False,
    ) -> None:  # fmt: skip
        name = f"scipy.interpolate.{type(self).__name__}"
        if self._smooths and (s is None or known(s) != 0):
            refuse(f"{name}(..., s={s})", SMOOTHING)
        refuse_options(name, [("bbox", any(end is not None for end in bbox), "leave it out")])
        _check_degree(k)
        y = must_be_real(inexact(y), "`y`")
        if y.ndim != 1:
            raise ValueError(f"`y` has one value for each point, not the shape {y.shape}")
        if w is not None:
            check_weights(w, y.shape[0])
        self._spline = make_interp_spline(x, y, k, check_finite=check_finite)
        self._ext = _extension(ext)

    @classmethod
    def _of(cls, spline: BSpline, ext: Any) -> UnivariateSpline:
        self = object.__new__(UnivariateSpline)
        self._spline, self._ext = spline, ext
        return self

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        """The values, or the ``nu``-th derivatives."""
        return _extended(self._spline, x, nu, self._ext if ext is None else ext)

    def derivative(self, n: int = 1) -> UnivariateSpline:
        """The derivative, as a spline."""
        if n > self._spline.k:
            raise ValueError(
                f"Order of derivative (n = {n}) must be <= order of spline (k = {self._spline.k})"
            )
        constant = self._ext in (3, "const")  # the derivative of a constant is 0
        return UnivariateSpline._of(self._spline.derivative(n), 1 if constant else self._ext)

    def antiderivative(self, n: int = 1) -> UnivariateSpline:
        """An integral, as a spline."""
        return UnivariateSpline._of(self._spline.antiderivative(n), self._ext)

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b of the spline, which counts as 0 outside its interval."""
        return self._spline.integrate(a, b, extrapolate=False)

    def derivatives(self, x: Any) -> Any:
        """The value and all derivatives at a point."""
        if np.size(x) != 1:
            raise ValueError(f"the derivatives at one point, not at {np.size(x)}")
        return np.stack(
            [_extended(self._spline, np.reshape(x, ()), nu, 2) for nu in range(self._spline.k + 1)]
        )

    def get_knots(self) -> Any:
        """The knots, without the repetitions at the ends."""
        t, _, k = self._spline.tck
        return t[k : t.shape[0] - k]

    def get_coeffs(self) -> Any:
        """The coefficients."""
        return self._spline.c


class InterpolatedUnivariateSpline(UnivariateSpline):
    """The spline through points, as `scipy.interpolate.InterpolatedUnivariateSpline`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import InterpolatedUnivariateSpline
    >>> x = np.arange(5.0)
    >>> grad(lambda t: InterpolatedUnivariateSpline(x, x**2)(t))(1.5).round(6)
    np.float64(3.0)
    """

    _smooths = False

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0,
        check_finite: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(x, y, w, bbox, k, 0, ext, check_finite)


def _check_degree(k: int) -> None:
    if not 1 <= k <= 5:
        raise ValueError(f"k should be 1 <= k <= 5, and it is {k}")


def _extension(ext: Any) -> Any:
    """The number of an extrapolation mode."""
    found = _EXTENSIONS.get(ext, ext)
    if found not in _EXTENSIONS.values():
        raise ValueError(f"ext is one of {_EXTENSIONS}, not {ext!r}")
    return found


_EXTENSIONS = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}


def _extended(spline: BSpline, x: Any, nu: int, ext: Any) -> Any:
    """The values of a spline, with the given extrapolation mode."""
    ext = _extension(ext)
    x = must_be_real(inexact(x))
    first, last = spline.ends
    outside = (x < first) | (x > last)
    if nu not in range(spline.k + 1):
        raise ValueError(f"a spline of degree {spline.k} has no derivative of order {nu}")
    if ext == 2 and known(np.any(outside)):
        raise ValueError("A value in x is outside of the spline's interval, and ext says to raise.")
    if ext == 3 and nu == 0:  # as in SciPy, derivatives are those of the last piece
        return spline(np.clip(x, first, last))
    value = spline(x, nu)
    return value if ext in (0, 3) else np.where(outside, 0.0 if ext == 1 else np.nan, value)


def splrep(
    x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0,
    s: Any = None, t: Any = None, full_output: int = 0, per: int = 0, quiet: int = 1,
) -> tuple[Any, Any, int]:  # fmt: skip
    """Knots, coefficients and degree of the spline through points, for `splev`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import splev, splrep
    >>> x = np.arange(5.0)
    >>> grad(lambda a: splev(1.5, splrep(x, a * x**2)))(1.0).round(6)
    np.float64(2.25)
    """
    name = "scipy.interpolate.splrep"
    if (w is not None) if s is None else (known(s) != 0):
        refuse(f"{name}(..., s={s})" if s is not None else f"{name}(..., w=...)", SMOOTHING)
    given = [("xb", xb), ("xe", xe), ("task", task or None), ("t", t), ("per", per or None),
             ("full_output", full_output or None)]  # fmt: skip
    refuse_options(name, [(option, value, "leave it out") for option, value in given])
    _check_degree(k)
    knots, c, _ = make_interp_spline(x, must_be_real(inexact(y), "`y`"), k).tck
    return knots, concatenate([c, np.zeros(k + 1)]), k


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """The values or derivatives of a spline given by its knots, coefficients and degree.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import splev
    >>> tck = np.arange(8.0), np.array([1.0, 2.0, 4.0, 7.0]), 3
    >>> grad(lambda x: splev(x, tck))(3.5)
    np.float64(2.0)
    """
    if hasattr(tck, "tck"):
        return tck(x, der, extrapolate=True)
    t, c, k = tck
    if isinstance(c, list):
        return [splev(x, (t, part, k), der, ext) for part in c]
    return _extended(BSpline(t, c, k), x, der, ext)


def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """The integral from a to b of a spline, which counts as 0 outside its interval.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.interpolate import splint, splrep
    >>> x = np.arange(5.0)
    >>> grad(lambda b: splint(0.0, b, splrep(x, x**2)))(1.5).round(6)
    np.float64(2.25)
    """
    refuse_options(
        "scipy.interpolate.splint", [("full_output", full_output or None, "leave it out")]
    )
    t, c, k = tck.tck if hasattr(tck, "tck") else tck
    return BSpline(t, c, k).integrate(a, b, extrapolate=False)
