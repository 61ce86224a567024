"""`scipy.interpolate`: functions through points, differentiable in the points and in the places.

The interpolants are classes of our own under SciPy's names. They are built of plain or traced
arrays, and take plain or traced places.
"""

from collections.abc import Sequence

from functrans.scipy.inside import implementations, or_scipys, refused
from functrans.scipy.interpolate.cubic import (
    Akima1DInterpolator,
    CubicHermiteSpline,
    CubicSpline,
    PchipInterpolator,
)
from functrans.scipy.interpolate.linear import (
    RegularGridInterpolator,
    barycentric_interpolate,
    interp1d,
    interpn,
)
from functrans.scipy.interpolate.piecewise import PPoly

_SMOOTHING = "use CubicSpline, or least squares with a basis"
_SCATTERED = "use RegularGridInterpolator, or a sum of radial functions by np.linalg.solve"
_REFUSED = {
    "BSpline": "use CubicSpline, or PPoly with coefficients of scipy.interpolate.PPoly.from_spline",
    "make_interp_spline": "use CubicSpline",
    "UnivariateSpline": _SMOOTHING,
    "InterpolatedUnivariateSpline": "use CubicSpline",
    "make_smoothing_spline": _SMOOTHING,
    "splrep": _SMOOTHING,
    "splev": _SMOOTHING,
    "griddata": _SCATTERED,
    "RBFInterpolator": _SCATTERED,
    "LinearNDInterpolator": _SCATTERED,
    "CloughTocher2DInterpolator": _SCATTERED,
}

__all__ = [
    "Akima1DInterpolator", "CubicHermiteSpline", "CubicSpline", "PPoly", "PchipInterpolator",
    "RegularGridInterpolator", "barycentric_interpolate", "interp1d", "interpn",
    "pchip_interpolate", *_REFUSED,
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


globals().update(
    {name: refused(f"scipy.interpolate:{name}", instead) for name, instead in _REFUSED.items()}
)
for _name in set(__all__) - _REFUSED.keys():
    _path = f"scipy.interpolate:{_name}"
    implementations[_path] = or_scipys(_path, globals()[_name])
