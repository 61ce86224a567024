"""The fits that the coefficient tables of `functrans.vecmath` come from.

``python -m tests.vecmath.fits NAME ...`` prints coefficients and their largest error; without a
name, all of them. The last digits of the tables may differ: each is a solution to working
precision, not the only one.
"""

from __future__ import annotations

import sys
from typing import Any

import mpmath as mp
import numpy as np

from tests.vecmath.remez import Function, fit
from tests.vecmath.special_fits import SPECIAL_FITS

F64, F32 = np.float64, np.float32

LN2_HALF = 0.34658
ERF_CENTRE = 1.125
ERFCX_CENTRE = mp.mpf(2.5)


def even(function: Function, at_zero: float) -> Function:
    """A function of ``z = x**2`` from one of ``x``."""
    return lambda z: function(mp.sqrt(z)) if z > mp.mpf(10) ** -12 else mp.mpf(at_zero)


def exp_rest(x: Any) -> Any:
    return (mp.expm1(x) - x) / x**2


def erfcx(a: Any) -> Any:
    if a < 60:
        return mp.exp(a * a) * mp.erfc(a)
    terms = [mp.mpf(1)]
    for k in range(1, 40):
        terms.append(-terms[-1] * (2 * k - 1) / (2 * a * a))
        if abs(terms[-1]) < mp.mpf(10) ** -48:
            break
    return mp.fsum(terms) / (a * mp.sqrt(mp.pi))


def erfcx_of_t(t: Any) -> Any:
    a = ERFCX_CENTRE * (1 + t) / (1 - t)
    return erfcx(a) * (a + ERFCX_CENTRE)


def root_of_erfc(t: Any) -> Any:
    return mp.erfc(t + ERF_CENTRE) ** (mp.mpf(1) / 4)


def one_over_derivative(t: Any) -> Any:
    """What an error of that root is relative to if its fourth power is subtracted from 1."""
    return 1 / (4 * root_of_erfc(t) ** 3)


def digamma_over_root(u: Any) -> Any:
    root = mp.findroot(mp.digamma, 1.4616321449683623)
    return mp.digamma(u + 1.75) / (u + 1.75 - root)


def lgamma_over_roots(u: Any) -> Any:
    x = u + mp.mpf("1.625")
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def inverse_cbrt_rest(d: Any) -> Any:
    return ((1 + d) ** (mp.mpf(-1) / 3) - 1) / d


SIN = even(lambda x: (mp.sin(x) - x) / x**3, -1 / 6)
ATAN = even(lambda x: (mp.atan(x) - x) / x**3, -1 / 3)
ASIN = even(lambda x: (mp.asin(x) - x) / x**3, 1 / 6)
SINH = even(lambda x: (mp.sinh(x) - x) / x**3, 1 / 6)
COSH = even(lambda x: (mp.cosh(x) - 1) / x**2, 1 / 2)
TAN = even(lambda x: (mp.tan(x) - x) / x**3, 1 / 3)
ERF = even(lambda x: mp.erf(x) / x - 1, 2 / np.sqrt(np.pi) - 1)
NDTR = even(lambda x: mp.erf(x / mp.sqrt(2)) / 2 / x - 0.5, 1 / np.sqrt(2 * np.pi) - 0.5)
ATANH = even(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3, 2 / 3)
ATANH_LOG2 = even(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3 / mp.log(2), 2 / 3 / np.log(2))
LOG2_REST = even(
    lambda s: 2 / mp.log(2) * (mp.atanh(s) / s - 1 - s * s / 3) / s**4, 0.4 / np.log(2)
)


def scaled(function: Function) -> Function:
    """``function(x) / x**3`` in ``z = x**2``: what the error of an odd function is relative to."""
    return lambda z: function(mp.sqrt(z)) / mp.sqrt(z) / z


Q_PI = (np.pi / 4) ** 2 * 1.02
S_MAX = float(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2) * 1.002
ERFCX_LOW = float((mp.mpf("0.47") - ERFCX_CENTRE) / (mp.mpf("0.47") + ERFCX_CENTRE))

# name: (target, number of coefficients, low, high, dtype, options of fit)
FITS: dict[str, tuple[Any, ...]] = {
    "exp 64": (exp_rest, 10, -LN2_HALF, LN2_HALF, F64, lambda x: mp.exp(x) / x**2),
    "exp 32": (exp_rest, 5, -LN2_HALF, LN2_HALF, F32, lambda x: mp.exp(x) / x**2),
    "expm1 64": (exp_rest, 11, -LN2_HALF, LN2_HALF, F64, lambda x: mp.expm1(x) / x**2),
    "expm1 32": (exp_rest, 6, -LN2_HALF, LN2_HALF, F32, lambda x: mp.expm1(x) / x**2),
    "exp2 64": (lambda x: (2**x - 1) / x, 11, -0.5, 0.5, F64, lambda x: 2**x / x),
    "exp2 32": (lambda x: (2**x - 1) / x, 6, -0.5, 0.5, F32, lambda x: 2**x / x),
    "atanh": (ATANH, 7, 0, S_MAX, F64, lambda z: mp.mpf(1)),
    "atanh 32": (ATANH, 3, 0, S_MAX, F32, lambda z: mp.mpf(1)),
    "atanh wide 64": (ATANH, 10, 0, 0.1112, F64, lambda z: mp.mpf(1)),
    "atanh wide 32": (ATANH, 4, 0, 0.1112, F32, lambda z: mp.mpf(1)),
    "log2 for power": (LOG2_REST, 8, 1e-10, S_MAX, F64, lambda z: 1 / z**2),
    "log2 for power 32": (ATANH_LOG2, 4, 0, S_MAX, F32, lambda z: mp.mpf(1)),
    "sin 64": (SIN, 8, 1e-9, 4 * Q_PI, F64, scaled(mp.sin)),
    "sin 32": (SIN, 4, 1e-9, 4 * Q_PI, F32, scaled(mp.sin)),
    "tan 64": (TAN, 14, 1e-9, Q_PI, F64, scaled(mp.tan)),
    "tan 32": (TAN, 6, 1e-9, Q_PI, F32, scaled(mp.tan)),
    "atan 64": (ATAN, 19, 1e-9, 1, F64, scaled(mp.atan)),
    "atan 32": (ATAN, 8, 1e-9, 1, F32, scaled(mp.atan)),
    "asin 64": (ASIN, 12, 1e-9, 0.2501, F64, scaled(mp.asin)),
    "asin 32": (ASIN, 5, 1e-9, 0.2501, F32, scaled(mp.asin)),
    "sinh 64": (SINH, 5, 1e-9, LN2_HALF**2, F64, scaled(mp.sinh)),
    "sinh 32": (SINH, 2, 1e-9, LN2_HALF**2, F32, scaled(mp.sinh)),
    "inverse cbrt 64": (inverse_cbrt_rest, 6, -0.1025, 0.1025, F64, lambda d: mp.mpf(1)),
    "inverse cbrt 32": (inverse_cbrt_rest, 3, -0.1025, 0.1025, F32, lambda d: mp.mpf(1)),
    "cosh 64": (COSH, 5, 1e-9, LN2_HALF**2, F64, lambda z: mp.cosh(mp.sqrt(z)) / z),
    "cosh 32": (COSH, 3, 1e-9, LN2_HALF**2, F32, lambda z: mp.cosh(mp.sqrt(z)) / z),
    "erf 64": (ERF, 13, 0, 1.001 * ERF_CENTRE**2, F64, lambda z: ERF(z) + 1),
    "erf 32": (ERF, 7, 0, 1.001 * ERF_CENTRE**2, F32, lambda z: ERF(z) + 1),
    "root_of_erfc 64": (root_of_erfc, 21, 0, 6 - ERF_CENTRE, F64, one_over_derivative),
    "root_of_erfc 32": (root_of_erfc, 8, 0, 4 - ERF_CENTRE, F32, one_over_derivative),
    "ndtr 64": (NDTR, 12, 0, 2.01, F64, lambda z: NDTR(z) + 0.5),
    "ndtr 32": (NDTR, 7, 0, 2.01, F32, lambda z: NDTR(z) + 0.5),
    "erfcx 64": (erfcx_of_t, 24, ERFCX_LOW, 1 - 1e-13, F64, None),
    "erfcx 32": (erfcx_of_t, 12, ERFCX_LOW, 1 - 1e-13, F32, None),
    "lgamma": (lgamma_over_roots, 29, -0.875, 0.875, F64, None),
    "digamma": (digamma_over_root, 26, -0.75, 0.75, F64, None),
    **SPECIAL_FITS,
}  # fmt: skip


def main(names: list[str]) -> None:
    mp.mp.dps = 60
    for name in names or FITS:
        target, count, low, high, dtype, relative_to = FITS[name]
        # the rounding of these is made good by low parts, or does not matter
        exact = name in SPECIAL_FITS
        exact |= name.split()[0] in ("erfcx", "lgamma", "digamma", "inverse")
        rounded = 0 if exact else 2
        coefficients, error = fit(
            target, range(count), low, high, dtype, relative_to=relative_to, rounded=rounded
        )
        print(f"{name}: error 2**{np.log2(error):.1f}\n    {coefficients}")


if __name__ == "__main__":
    main(sys.argv[1:])
