"""Faddeeva's function ``w(z) = exp(-z**2) erfc(-iz)``, and its derivatives of any order.

Near 0, they follow from the recurrence ``w^(n+1) = -2 z w^(n) - 2 n w^(n-1)``, which cancels more
for larger z; elsewhere in the upper half plane, from the asymptotic series, term by term.

References
----------
NIST Digital Library of Mathematical Functions, 7.10, 7.12.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import is_complex
from functrans.lazily import lazy
from functrans.ops.arrays.structural import astype, zeros_like
from functrans.ops.elementwise.complex_numbers import complex_p, imag, real
from functrans.ops.elementwise.special import scipy
from functrans.ops.samples import reals
from functrans.trace import protocols

_w = lazy("scipy.special:wofz")

# from here on the smallest term of the asymptotic series is below 2**-53 of the first
ASYMPTOTIC = 6.5
TERMS = 42


def derivative_of_w(x: Any, y: Any, n: int) -> Any:
    """The n-th derivative at ``x + iy``."""
    x, y = np.broadcast_arrays(x, y)
    z = np.stack([x, y], -1).astype(np.float64).view(np.complex128)[..., 0]  # 1j * inf is NaN
    far = (np.abs(z) > ASYMPTOTIC) & (z.imag >= 0)
    with np.errstate(all="ignore"):
        away = np.where(far, z, ASYMPTOTIC)
        # near the real axis, where the series is imaginary, with the exponentially small term
        low = (away.imag < 1) & (np.abs(away) < 30)  # beyond, the Gaussian is 0
        gaussian = np.where(low, _recurrence(away, n, 0.0, np.exp(-away * away)), 0)
        below = 2j / math.sqrt(math.pi)
        near = _recurrence(z, n, below, _w(z))
        result = np.where(far, _asymptotic(away, n) + gaussian, near)
    return result.astype(np.result_type(x, y, np.complex64))[()]


def _recurrence(z: Any, n: int, below: Any, value: Any) -> Any:
    for k in range(n):
        # the initial lower term represents the inhomogeneous term of the first step
        below, value = value, -2 * z * value + (below if k == 0 else -2 * k * below)
    return value


def _asymptotic(z: Any, n: int) -> Any:
    """``i / sqrt(pi)`` times the derivative of ``sum (2k - 1)!! / (2**k z**(2k + 1))``."""
    inverse = 1 / z
    square = inverse * inverse
    coefficients = [1.0 * math.factorial(n) * (-1) ** n]
    for k in range(1, TERMS):
        growth = (2 * k - 1) / 2 * ((2 * k + n) * (2 * k + n - 1)) / ((2 * k) * (2 * k - 1))
        coefficients.append(coefficients[-1] * growth)
    total = np.zeros_like(z)
    for coefficient in reversed(coefficients):
        total = total * square + coefficient
    # the first term by repeated products, so that it may be subnormal but not 0 / 0
    return 1j / math.sqrt(math.pi) * total * inverse ** (n + 1)


_OF_W = scipy.real("the imaginary part of w", "erfcx and of dawsn")

w_real: Primitive = scipy.computed(
    "w_real", lambda x, y, *, n: derivative_of_w(x, y, n).real, [reals(-3, 9), reals(0, 9)],
    lambda x, y, *, n: w_real(x, y, n=n + 1),
    lambda x, y, *, n: -w_imag(x, y, n=n + 1),
    promotion=_OF_W, params=[{"n": 1}],
)  # fmt: skip

w_imag: Primitive = scipy.computed(
    "w_imag", lambda x, y, *, n: derivative_of_w(x, y, n).imag, [reals(-3, 9), reals(0, 9)],
    lambda x, y, *, n: w_imag(x, y, n=n + 1),
    lambda x, y, *, n: w_real(x, y, n=n + 1),
    promotion=_OF_W, params=[{"n": 1}],
)  # fmt: skip


def wofz(z: Any) -> Any:
    """``exp(-z**2) erfc(-iz)``; of real numbers in double precision, as SciPy's."""
    z = protocols.operators["asarray"](z)
    if is_complex(z.dtype):
        x, y = real(z), imag(z)
    else:
        x = astype(z, np.dtype(np.float64))
        y = zeros_like(x)
    return complex_p(w_real(x, y, n=0), w_imag(x, y, n=0))


protocols.ufuncs["wofz"] = wofz
