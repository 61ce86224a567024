"""Elementary and special functions as scalar expressions: arithmetic without calls or branches.

Each function takes float16, float32 or float64 scalars (`functrans.loop.scalar`) of one dtype and
gives a scalar of that dtype: straight-line code that a compiler turns into vector instructions.
Zeros, infinities, NaN and subnormal numbers mean what they mean to NumPy.

Errors are at most 2 units in the last place (1 for exp, log, cbrt, hypot and others; 2.5 for erfc,
lgamma, digamma and the inverses of erf and erfc; 3.5 for gamma, ndtri and the quotients by ``x``; 5
for I and K, 6 for polygamma, 6.5 for kl_div and the exponential integrals, 8 for beta), as
`tests/vecmath` measures against mpmath; but relative to 1 for betaln, J and Y, and for lgamma and
digamma of negative arguments, to the larger argument for logaddexp, and to the step for
lgamma_difference, where terms cancel. What is exponential in a large number (beta beyond 512,
inv_boxcox) loses about as many units as that number is large.
A printer may contract a product and a sum to an fma: that changes last digits, not these bounds.
"""

from functrans.vecmath.bessel import bessel_i, bessel_k, i0, i0e, i1, i1e, k0, k0e, k1, k1e
from functrans.vecmath.bessel_waves import bessel_j, bessel_y, j0, j1, y0, y1
from functrans.vecmath.divergence import kl_div, pseudo_huber, rel_entr
from functrans.vecmath.exponential import exp, exp2, expm1, sigmoid
from functrans.vecmath.exponential_integral import exp1, expi
from functrans.vecmath.gamma import digamma, lgamma
from functrans.vecmath.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from functrans.vecmath.inverse_trigonometric import acos, asin, atan, atan2
from functrans.vecmath.logarithm import log, log1p, log2, log10
from functrans.vecmath.logistic import logaddexp, logaddexp2, logit, softplus, xlogy
from functrans.vecmath.power import power
from functrans.vecmath.quantile import erfcinv, erfinv, ndtri
from functrans.vecmath.quotients import (
    beta,
    betaln,
    lgamma_difference,
    polygamma,
    polygamma_difference,
)
from functrans.vecmath.relative import (
    boxcox,
    boxcox1p,
    exprel,
    exprel_derivative,
    inv_boxcox,
    inv_boxcox1p,
    log1prel_derivative,
    powm1,
)
from functrans.vecmath.roots import cbrt, hypot
from functrans.vecmath.special import erf, erfc, erfcx, log_ndtr
from functrans.vecmath.stirling import gamma, gammasgn, rgamma
from functrans.vecmath.trigonometric import cos, sin, tan

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bessel_i",
    "bessel_j",
    "bessel_k",
    "bessel_y",
    "beta",
    "betaln",
    "boxcox",
    "boxcox1p",
    "cbrt",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp",
    "exp1",
    "exp2",
    "expi",
    "expm1",
    "exprel",
    "exprel_derivative",
    "gamma",
    "gammasgn",
    "hypot",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "inv_boxcox",
    "inv_boxcox1p",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kl_div",
    "lgamma",
    "lgamma_difference",
    "log",
    "log1p",
    "log1prel_derivative",
    "log2",
    "log10",
    "log_ndtr",
    "logaddexp",
    "logaddexp2",
    "logit",
    "ndtri",
    "polygamma",
    "polygamma_difference",
    "power",
    "powm1",
    "pseudo_huber",
    "rel_entr",
    "rgamma",
    "sigmoid",
    "sin",
    "sinh",
    "softplus",
    "tan",
    "tanh",
    "xlogy",
    "y0",
    "y1",
]
