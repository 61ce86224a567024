"""Calls of `scipy.interpolate`'s functions and classes; interpolants are evaluated."""

import scipy.interpolate

import functrans.scipy.interpolate

NAME = "scipy.interpolate"
THEIRS = {"interpolate": scipy.interpolate}
SLOW = True
OURS = {"interpolate": functrans.scipy.interpolate}

_THROUGH = """Akima1DInterpolator BarycentricInterpolator CubicSpline InterpolatedUnivariateSpline
PchipInterpolator interp1d make_interp_spline make_splrep"""
_REFUSED = """CloughTocher2DInterpolator Rbf LSQUnivariateSpline SmoothBivariateSpline bisplrep
make_lsq_spline splprep sproot"""

CALLS = """
interpolate.BSpline(np.arange(9.0), y, 3)(3.0 + p)
interpolate.CubicHermiteSpline(np.arange(5.0), y, x)(4 * p)
interpolate.LinearNDInterpolator([[0, 0], [9, 0], [0, 9]], y[:3])(p, q)
interpolate.NearestNDInterpolator([[0, 0], [9, 0], [0, 9]], y[:3])(p, q)
interpolate.PPoly(m, np.arange(5.0))(4 * p)
interpolate.RBFInterpolator(np.arange(5.0)[:, None], y, kernel="cubic")(4 * p[:, None])
interpolate.RectBivariateSpline(np.arange(3.0), np.arange(4.0), m, kx=2).ev(p[:2], 3 * q[:2])
interpolate.RegularGridInterpolator((np.arange(3.0), np.arange(4.0)), m)(np.stack([p, q], 1))
interpolate.UnivariateSpline(np.arange(5.0), y, s=0)(4 * p)
interpolate.barycentric_interpolate(np.arange(5.0), y, 4 * p)
interpolate.griddata(np.array([[0, 0], [9, 0], [0, 9]]), y[:3], (p, q))
interpolate.interpn((np.arange(3.0), np.arange(4.0)), m, np.stack([p, q], 1))
interpolate.make_smoothing_spline(np.arange(5.0), y, lam=0.5)(4 * p)
interpolate.pchip_interpolate(np.arange(5.0), y, 4 * p)
interpolate.splev(4 * p, (np.array([0, 0, 0, 0, 2, 4, 4, 4, 4.0]), y, 3))
interpolate.splint(0.0, 3.0, (np.array([0, 0, 0, 0, 2, 4, 4, 4, 4.0]), y, 3))
interpolate.splrep(np.arange(5.0), y)[1]
"""
CALLS += "\n".join(f"interpolate.{name}(np.arange(5.0), y)(4 * p)" for name in _THROUGH.split())
CALLS += "\n" + "\n".join(f"interpolate.{name}(y, p)" for name in _REFUSED.split())
NO_ARRAYS = ""


def public():
    """What has a form of its own for traced values, or says what to write."""
    return sorted(functrans.scipy.interpolate.__all__)
