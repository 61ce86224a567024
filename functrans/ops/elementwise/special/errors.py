"""The error function, the normal distribution, and integrals of Gaussians.

References
----------
NIST Digital Library of Mathematical Functions, chapter 7.
"""

from __future__ import annotations

import math
from typing import Any

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.ir.types import is_complex
from functrans.ops.elementwise.choice import minimum, select
from functrans.ops.elementwise.compare import equal, less
from functrans.ops.elementwise.complex_numbers import complex_p, imag, real
from functrans.ops.elementwise.exponential import exp
from functrans.ops.elementwise.power import hypot
from functrans.ops.elementwise.special.faddeeva import w_imag, w_real
from functrans.ops.elementwise.special.log_ndtr import log_ndtr_derivative
from functrans.ops.elementwise.special.scipy import part, parts, special
from functrans.ops.elementwise.trigonometric import cos, sin
from functrans.ops.samples import reals

TWO_BY_SQRT_PI = 2 / math.sqrt(math.pi)
SQRT_2_PI = math.sqrt(2 * math.pi)
SQRT_HALF = math.sqrt(0.5)


def _exp_of_square(factor: float, x: Any) -> Any:
    """``exp(factor x**2)``; the real part of a complex square is no difference of infinities."""
    if not is_complex(x.dtype):
        return exp(factor * x * x)
    a, b = real(x), imag(x)
    return exp(complex_p(factor * (a - b) * (a + b), 2 * factor * a * b))


# -- the error function ----------------------------------------------------------------------------

erf: Primitive = special(
    "erf",
    reals(-3, 3),
    lambda x: TWO_BY_SQRT_PI * _exp_of_square(-1.0, x),
    scalar=vecmath.erf,
    steep=False,
)

erfc: Primitive = special(
    "erfc",
    reals(-3, 3),
    lambda x: -TWO_BY_SQRT_PI * _exp_of_square(-1.0, x),
    scalar=vecmath.erfc,
    steep=False,
)


def _slope_of_erfcx(x: Any, out: Any) -> Any:
    """``2 x erfcx(x) - 2 / sqrt(pi)``, of which the constant is lost on the left.

    Elsewhere by ``w(ix) = erfcx(x)``, whose derivative is i times that of w, without cancellation.
    """
    left = less(x, -6.5)
    return select(left, 2 * x * out, -w_imag(0.0, select(left, 0, x), n=1))


erfcx: Primitive = special("erfcx", reals(-2, 9), _slope_of_erfcx, scalar=vecmath.erfcx)

erfi: Primitive = special("erfi", reals(-2, 2), lambda x: TWO_BY_SQRT_PI * _exp_of_square(1.0, x))

dawsn: Primitive = special("dawsn", reals(-9, 9), lambda x: w_imag(x, 0.0, n=1) / TWO_BY_SQRT_PI)

erfinv: Primitive = special(
    "erfinv", reals(-0.9, 0.9), lambda x, out: exp(out * out) / TWO_BY_SQRT_PI,
    scalar=vecmath.erfinv,
)  # fmt: skip

erfcinv: Primitive = special(
    "erfcinv", reals(0.1, 1.9), lambda x, out: -exp(out * out) / TWO_BY_SQRT_PI,
    scalar=vecmath.erfcinv,
)  # fmt: skip

# -- the normal distribution -----------------------------------------------------------------------

ndtr: Primitive = special(
    "ndtr", reals(-3, 3), lambda x: normal_density(x), scalar=vecmath.ndtr, steep=False
)


def normal_density(x: Any) -> Any:
    """``e**(-x**2 / 2) / sqrt(2 pi)``."""
    return _exp_of_square(-0.5, x) / SQRT_2_PI


ndtri: Primitive = special(
    "ndtri", reals(0.1, 0.9), lambda p, out: SQRT_2_PI * exp(0.5 * out * out), scalar=vecmath.ndtri
)

ndtri_exp: Primitive = special(
    "ndtri_exp", reals(-9, -0.01), [lambda y, out, dy: dy / log_ndtr_derivative(out, n=1)]
)

owens_t: Primitive = special(
    "owens_t", [reals(-3, 3), reals(-3, 3)],
    lambda h, a: normal_density(h) * -0.5 * erf(a * h * SQRT_HALF),
    lambda h, a: exp(-0.5 * h * h * minimum(1 + a * a, 1e300)) / (2 * math.pi * (1 + a * a)),
)  # fmt: skip

# -- Voigt's profile -------------------------------------------------------------------------------


def _on_profile(w: Primitive, n: int, x: Any, sigma: Any, gamma: Any) -> Any:
    """The n-th derivative in x of a Voigt profile, or of the complex function behind it."""
    # for sigma = 0 it is a limit, which is even in sigma, and odd in gamma
    limit = equal(sigma, 0)
    turn = select(limit & less(gamma, 0), -1, 1)
    sigma = select(limit, 1e-9 * hypot(x, gamma), sigma)
    scale = SQRT_HALF / sigma
    value = w(x * scale, turn * gamma * scale, n=n) * scale ** (n + 1) / math.sqrt(math.pi)
    return turn * value if w is w_real else value


voigt_profile: Primitive = special(
    "voigt_profile", [reals(-3, 3), reals(0.5, 2), reals(0.5, 2)],
    lambda x, sigma, gamma: _on_profile(w_real, 1, x, sigma, gamma),
    # convolution with a Gaussian solves the heat equation
    lambda x, sigma, gamma: sigma * _on_profile(w_real, 2, x, sigma, gamma),
    lambda x, sigma, gamma: -_on_profile(w_imag, 1, x, sigma, gamma),
)  # fmt: skip

# -- Fresnel's integrals ---------------------------------------------------------------------------

fresnel_s: Primitive = part(
    "fresnel_s", "fresnel", 0, reals(-2, 2), lambda x: sin(math.pi / 2 * (x * x))
)

fresnel_c: Primitive = part(
    "fresnel_c", "fresnel", 1, reals(-2, 2), lambda x: cos(math.pi / 2 * (x * x))
)

parts("fresnel", fresnel_s, fresnel_c)
