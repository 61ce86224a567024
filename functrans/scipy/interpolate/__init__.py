"""`scipy.interpolate`: interpolants, differentiable in data points and evaluation points.

The interpolants are classes of our own under SciPy's names. Both the data and the evaluation points
may be plain or traced arrays. Within a trace, SciPy's own classes behave in the same way.
"""

from collections.abc import Sequence

from functrans.scipy.entries import enter as _enter
from functrans.scipy.inside import all_refused, or_scipys
from functrans.scipy.interpolate import objects as _objects  # noqa: F401  dispatch
from functrans.scipy.interpolate.cubic import (
    Akima1DInterpolator,
    CubicHermiteSpline,
    CubicSpline,
    PchipInterpolator,
)
from functrans.scipy.interpolate.fitpack import (
    InterpolatedUnivariateSpline,
    UnivariateSpline,
    splev,
    splint,
    splrep,
)
from functrans.scipy.interpolate.linear import (
    BarycentricInterpolator,
    RegularGridInterpolator,
    barycentric_interpolate,
    interp1d,
    interpn,
)
from functrans.scipy.interpolate.piecewise import PPoly
from functrans.scipy.interpolate.scattered import (
    LinearNDInterpolator,
    NearestNDInterpolator,
    RBFInterpolator,
    griddata,
)
from functrans.scipy.interpolate.splines import BSpline, make_interp_spline, make_smoothing_spline
from functrans.scipy.interpolate.tensor import RectBivariateSpline

_SCATTERED = "use RBFInterpolator, which is smooth, or LinearNDInterpolator"
_KNOTS = "use make_smoothing_spline, or least squares with the matrix BSpline(t, np.eye(n), k)(x)"
_REFUSED = {
    "CloughTocher2DInterpolator": _SCATTERED,
    "Rbf": "use RBFInterpolator",
    "LSQUnivariateSpline": _KNOTS,
    "SmoothBivariateSpline": "use RBFInterpolator with smoothing=",
    "bisplrep": "use RectBivariateSpline, or RBFInterpolator with smoothing=",
    "make_lsq_spline": _KNOTS,
    "make_splrep": _KNOTS,
    "splprep": "interpolate each coordinate by make_interp_spline",
    "sproot": "find the roots by functrans.scipy.optimize.brentq",
}

__all__ = [
    "Akima1DInterpolator", "BSpline", "BarycentricInterpolator", "CubicHermiteSpline",
    "CubicSpline", "InterpolatedUnivariateSpline", "LinearNDInterpolator", "NearestNDInterpolator",
    "PPoly", "PchipInterpolator", "RBFInterpolator", "RectBivariateSpline",
    "RegularGridInterpolator", "UnivariateSpline", "barycentric_interpolate", "griddata",
    "interp1d", "interpn", "make_interp_spline", "make_smoothing_spline", "pchip_interpolate",
    "splev", "splint", "splrep", *_REFUSED,
]  # fmt: skip


def pchip_interpolate(
    xi: object, yi: object, x: object, der: int | Sequence[int] = 0, axis: int = 0
) -> object:
    """The values of a `PchipInterpolator`, or its derivatives: a list of them for a list of orders.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans.scipy.interpolate import pchip_interpolate
    >>> pchip_interpolate(np.arange(3.0), np.array([0.0, 1.0, 1.0]), 2.0)
    array(1.)
    """
    interpolant = PchipInterpolator(xi, yi, axis)
    return interpolant(x, der) if isinstance(der, int) else [interpolant(x, n) for n in der]


globals().update(all_refused("scipy.interpolate", _REFUSED))
for _function in (
    barycentric_interpolate, griddata, interpn, make_interp_spline, make_smoothing_spline,
    pchip_interpolate, splev, splint, splrep,
):  # fmt: skip
    _path = f"scipy.interpolate:{_function.__name__}"
    _enter(_path, or_scipys(_path, _function))
