"""Dispatch of SciPy's interpolator classes within a trace, for traced data or traced points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.lazily import lazy
from functrans.numpy.define import refuse
from functrans.scipy.entries import enter_class
from functrans.scipy.interpolate.cubic import (
    Akima1DInterpolator,
    CubicHermiteSpline,
    CubicSpline,
    PchipInterpolator,
)
from functrans.scipy.interpolate.fitpack import InterpolatedUnivariateSpline, UnivariateSpline
from functrans.scipy.interpolate.linear import (
    BarycentricInterpolator,
    RegularGridInterpolator,
    interp1d,
)
from functrans.scipy.interpolate.piecewise import BPoly, PPoly
from functrans.scipy.interpolate.scattered import NearestNDInterpolator, RBFInterpolator
from functrans.scipy.interpolate.splines import BSpline, with_axis
from functrans.scipy.interpolate.tensor import RectBivariateSpline

_scipys_bpoly = lazy("scipy.interpolate:BPoly")


def _ppoly(scipys: Any) -> PPoly:
    ours = BPoly if isinstance(scipys, _scipys_bpoly.resolve()) else PPoly
    return ours.construct_fast(scipys.c, scipys.x, scipys.extrapolate, scipys.axis)


def _bspline(scipys: Any) -> BSpline:
    t, c, k = scipys.tck
    return with_axis(BSpline(t, c, k, scipys.extrapolate), scipys.axis)


def _of_fitpack(scipys: Any) -> UnivariateSpline:
    return UnivariateSpline._of(BSpline(*scipys._eval_args), scipys.ext)


def _interp1d(scipys: Any) -> Any:
    if type(scipys).__name__ != "interp1d":
        name = type(scipys).__name__
        refuse(f"scipy.interpolate.{name} at traced places", "use BarycentricInterpolator")
    kind = scipys._spline.k if scipys._kind == "spline" else scipys._kind
    return interp1d(
        scipys.x, scipys.y, kind, scipys.axis, True, scipys.bounds_error,
        scipys.fill_value, True,
    )  # fmt: skip


def _on_a_grid(scipys: Any) -> RegularGridInterpolator:
    return RegularGridInterpolator(
        scipys.grid, scipys.values, scipys.method, scipys.bounds_error, scipys.fill_value
    )


def _radial(scipys: Any) -> RBFInterpolator:
    degree = int(scipys.powers.sum(axis=1).max()) if len(scipys.powers) else -1
    values = scipys.d.view(scipys.d_dtype).reshape(-1, *scipys.d_shape)  # complex ones in parts
    return RBFInterpolator(
        scipys.y, values, scipys.neighbors, scipys.smoothing, scipys.kernel, scipys.epsilon, degree
    )


def _nearest(scipys: Any) -> NearestNDInterpolator:
    if scipys.scale is None:
        return NearestNDInterpolator(scipys.points, scipys.values)
    points = scipys.points * scipys.scale + scipys.offset
    return NearestNDInterpolator(points, scipys.values, rescale=True)


def _barycentric(scipys: Any) -> BarycentricInterpolator:
    values = scipys.yi.reshape(-1, *scipys._y_extra_shape)
    found = BarycentricInterpolator(scipys.xi, values)
    found._axis = scipys._y_axis
    return found


_CLASSES: dict[type, tuple[str, Callable[[Any], Any]]] = {
    PPoly: ("__call__ derivative antiderivative integrate roots solve", _ppoly),
    BPoly: ("__call__", _ppoly),
    CubicSpline: ("", _ppoly),
    CubicHermiteSpline: ("", _ppoly),
    PchipInterpolator: ("", _ppoly),
    Akima1DInterpolator: ("", _ppoly),
    BSpline: ("__call__ derivative antiderivative integrate", _bspline),
    UnivariateSpline: (
        "__call__ derivative antiderivative integral derivatives get_knots get_coeffs",
        _of_fitpack,
    ),
    InterpolatedUnivariateSpline: ("", _of_fitpack),
    interp1d: ("__call__", _interp1d),
    BarycentricInterpolator: ("__call__", _barycentric),
    RegularGridInterpolator: ("__call__", _on_a_grid),
    RectBivariateSpline: ("__call__ ev integral", RectBivariateSpline.of),
    RBFInterpolator: ("__call__", _radial),
    NearestNDInterpolator: ("__call__", _nearest),
}
"""For each class, the methods that dispatch, and the conversion of SciPy's object to ours."""

for _ours, (_methods, _like) in _CLASSES.items():
    _relatives = {"BPoly": BPoly} if _ours is PPoly else {}
    enter_class(f"scipy.interpolate:{_ours.__name__}", _ours, _methods, _like, _relatives)
