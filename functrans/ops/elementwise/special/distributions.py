"""Distribution functions of `scipy.special` and their inverses.

Each is an incomplete gamma or beta function. An inverse is differentiated through the equation that
it solves (`solved_for`): the derivative in the probability is the reciprocal of that of the
distribution function; in any other operand, it is minus the quotient of the two derivatives.

References
----------
NIST Digital Library of Mathematical Functions, 8.17; the docstrings of `scipy.special`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive, not_differentiable
from functrans.lazily import lazy
from functrans.ops.elementwise.choice import absolute, masked, maximum, select, sign
from functrans.ops.elementwise.compare import equal, greater_equal, less, less_equal
from functrans.ops.elementwise.exponential import exp, expm1, log, log1p
from functrans.ops.elementwise.power import hypot, power, sqrt
from functrans.ops.elementwise.special.entropy import xlogy
from functrans.ops.elementwise.special.errors import ndtri, normal_density
from functrans.ops.elementwise.special.gamma import betaln, gammaln
from functrans.ops.elementwise.special.incomplete import (
    LOWER_BETA,
    betainc_n,
    gamma_by_order,
    gamma_density,
)
from functrans.ops.elementwise.special.log_bessel import log_ive
from functrans.ops.elementwise.special.scipy import (
    NO_CLOSED_FORM,
    composed,
    computed,
    negative,
    ordered,
    solved_for,
    special,
)
from functrans.ops.samples import reals, whole

ONLY_VALUES = not_differentiable(
    "SciPy computes its values only; differentiate the log-density, or use custom_jvp"
)

_P = reals(0.1, 0.9)
_POSITIVE = reals(0.5, 5)

# -- chi-squared and gamma -------------------------------------------------------------------------

_CHI_SQUARED = (
    lambda v, x: 0.5 * gamma_by_order(0.5 * v, 0.5 * x),
    lambda v, x: 0.5 * gamma_density(0.5 * v, 0.5 * x),
)
_UPPER_CHI_SQUARED = tuple(map(negative, _CHI_SQUARED))

chdtr: Primitive = special("chdtr", [_POSITIVE, _POSITIVE], *_CHI_SQUARED)
chdtrc: Primitive = special("chdtrc", [_POSITIVE, _POSITIVE], *_UPPER_CHI_SQUARED)
chdtri: Primitive = special("chdtri", [_POSITIVE, _P], solved_for(1, *_UPPER_CHI_SQUARED))
chdtriv: Primitive = special("chdtriv", [_P, _POSITIVE], solved_for(0, *_CHI_SQUARED))


def _gamma_by_rate(a: Any, b: Any, x: Any) -> Any:
    # 0 at 0, where the density may be infinite
    zero = equal(x, 0)
    return select(zero, 0, x * gamma_density(b, a * select(zero, 1, x)))


_GAMMA = (
    _gamma_by_rate,
    lambda a, b, x: gamma_by_order(b, a * x),
    lambda a, b, x: a * gamma_density(b, a * x),
)

gdtr: Primitive = special("gdtr", [_POSITIVE] * 3, *_GAMMA)
gdtrc: Primitive = special("gdtrc", [_POSITIVE] * 3, *map(negative, _GAMMA))
gdtrib: Primitive = special("gdtrib", [_POSITIVE, _P, _POSITIVE], solved_for(1, *_GAMMA))

# a and x occur as their product: one divided by the other, also where the density is 0
gdtrix: Primitive = special(
    "gdtrix", [_POSITIVE, _POSITIVE, _P],
    [
        lambda a, b, p, x, da: da * (-x / a),
        lambda a, b, p, x, db: db * (-gamma_by_order(b, a * x) / (a * gamma_density(b, a * x))),
        lambda a, b, p, x, dp: dp / (a * gamma_density(b, a * x)),
    ],
)  # fmt: skip

gdtria: Primitive = special(
    "gdtria", [_P, _POSITIVE, _POSITIVE],
    [
        lambda p, b, x, a, dp: dp / (x * gamma_density(b, a * x)),
        lambda p, b, x, a, db: db * (-gamma_by_order(b, a * x) / (x * gamma_density(b, a * x))),
        lambda p, b, x, a, dx: dx * (-a / x),
    ],
)  # fmt: skip

# -- beta ------------------------------------------------------------------------------------------

btdtria: Primitive = special("btdtria", [_P, _POSITIVE, _P], solved_for(0, *LOWER_BETA))
btdtrib: Primitive = special("btdtrib", [_POSITIVE, _P, _P], solved_for(1, *LOWER_BETA))

# -- F and Student's t, in the odds of the beta function's argument --------------------------------


def _odds(a: Any, b: Any, t: Any, exponent: Any) -> Any:
    """``t**exponent (1 + t)**-(a + b) / beta(a, b)``.

    With ``a - 1``, the density of the odds t of a beta variable; with ``a``, t times that, which
    is finite where t is 0.
    """
    return exp(xlogy(exponent, t) - (a + b) * log1p(t) - betaln(a, b))


def _on_odds(a: Any, b: Any, t: Any, n: int, m: int) -> Any:
    """A derivative of the incomplete beta function in a or b, from the smaller of x and 1 - x."""
    small = less(t, 1)
    below = betainc_n(a, b, select(small, t / (1 + t), 0.5), n=n, m=m)
    above = -betainc_n(b, a, select(small, 0.5, 1 / (1 + t)), n=m, m=n)
    return select(small, below, above)


def _f_by_x(n: Any, d: Any, x: Any) -> Any:
    return n / d * _odds(0.5 * n, 0.5 * d, n * x / d, 0.5 * n - 1)


def _f_by_n(n: Any, d: Any, x: Any) -> Any:
    t = n * x / d
    return 0.5 * _on_odds(0.5 * n, 0.5 * d, t, 1, 0) + _odds(0.5 * n, 0.5 * d, t, 0.5 * n) / n


def _f_by_d(n: Any, d: Any, x: Any) -> Any:
    t = n * x / d
    return 0.5 * _on_odds(0.5 * n, 0.5 * d, t, 0, 1) - _odds(0.5 * n, 0.5 * d, t, 0.5 * n) / d


_F = [reals(1, 5), reals(1, 5), reals(0.5, 3)]
_F_SLOPES = _f_by_n, _f_by_d, _f_by_x

fdtr: Primitive = special("fdtr", _F, *_F_SLOPES)
fdtrc: Primitive = special("fdtrc", _F, *map(negative, _F_SLOPES))
fdtri: Primitive = special("fdtri", [*_F[:2], _P], solved_for(2, *_F_SLOPES))
fdtridfd: Primitive = special("fdtridfd", [reals(1, 5), reals(0.5, 0.6), reals(1, 2)], ONLY_VALUES)


def student_density(df: Any, t: Any) -> Any:
    """The density of Student's distribution, which is the normal one for infinite ``df``."""
    normal = equal(df, math.inf)
    df = select(normal, 1, df)
    exponent = -0.5 * (df + 1) * log1p(t * t / df) - betaln(0.5 * df, 0.5)
    return select(normal, normal_density(t), exp(exponent) / sqrt(df))


def _student_by_df(df: Any, t: Any) -> Any:
    normal = equal(df, math.inf)
    df = select(normal, 1, df)
    s = t * t / df
    slope = 0.5 * _on_odds(0.5, 0.5 * df, s, 0, 1)
    # s times the density of the odds, which is infinite at 0, and vanishes far away
    front = exp(-0.5 * df * log1p(s) - betaln(0.5, 0.5 * df)) * (t / hypot(t, sqrt(df)))
    return select(normal, 0, sign(t) * (0.5 * slope) - 0.5 * (front / df))


_STUDENT = _student_by_df, student_density

stdtr: Primitive = special("stdtr", [reals(1, 5), reals(-3, 3)], *_STUDENT)
stdtrit: Primitive = special("stdtrit", [reals(1, 5), _P], solved_for(1, *_STUDENT))
stdtridf: Primitive = special(
    "stdtridf", [reals(0.8, 0.84), reals(1.1, 1.3)], solved_for(0, *_STUDENT)
)

# -- normal ----------------------------------------------------------------------------------------


@composed("nrdtrimn")
def nrdtrimn(p: Any, std: Any, x: Any) -> Any:
    """The mean of a normal distribution that has probability ``p`` below ``x``."""
    return x - select(less(0, std), std, math.nan) * _finite_quantile(p)


@composed("nrdtrisd")
def nrdtrisd(mn: Any, p: Any, x: Any) -> Any:
    """The standard deviation of a normal distribution that has probability ``p`` below ``x``."""
    return (x - mn) / _finite_quantile(p)


def _finite_quantile(p: Any) -> Any:
    """The standard normal quantile; NaN for the probabilities 0 and 1, too."""
    q = ndtri(p)
    return select(less(absolute(q), math.inf), q, math.nan)


# -- noncentral chi-squared ------------------------------------------------------------------------


def noncentral_log_density(x: Any, df: Any, nc: Any) -> Any:
    """The logarithm of the density of the noncentral chi-squared distribution.

    Its factors overflow and underflow for many degrees of freedom. Where nc is 0, or so small that
    quotients by it overflow, it is the logarithm of the first terms.
    """
    order = 0.5 * df - 1
    central = less(absolute(nc), 1e-290)
    centre = -0.5 * (x + df * math.log(2)) + xlogy(order, x) - gammaln(0.5 * df)
    series = centre + 0.5 * nc * (x / df - 1 - 0.5 * nc * (x / df) * (x / df) / (df + 2))
    nc = select(central, 1, nc)
    off = sqrt(x) - sqrt(nc)
    bessel = log_ive(order, sqrt(x) * sqrt(nc)) - math.log(2)
    return select(central, series, xlogy(0.5 * order, x / nc) - 0.5 * (off * off) + bessel)


def noncentral_density(x: Any, df: Any, nc: Any) -> Any:
    # held where it is 0, as 0 would be multiplied by an infinite slope
    return exp(maximum(noncentral_log_density(x, df, nc), -1000.0))


_NONCENTRAL = [_POSITIVE, reals(1, 5), _POSITIVE]


def _noncentral_by_nc(x: Any, df: Any, nc: Any) -> Any:
    return -noncentral_density(x, df + 2, nc)


_NONCENTRAL_SLOPES = noncentral_density, NO_CLOSED_FORM, _noncentral_by_nc
_UPPER_NONCENTRAL_SLOPES = (
    negative(noncentral_density), NO_CLOSED_FORM, negative(_noncentral_by_nc)
)  # fmt: skip

chndtr: Primitive = special("chndtr", _NONCENTRAL, *_NONCENTRAL_SLOPES)
chndtrix: Primitive = special(
    "chndtrix", [_P, *_NONCENTRAL[1:]], solved_for(0, *_NONCENTRAL_SLOPES)
)

_upper = lazy("scipy.special._ufuncs:_ncx2_sf")
_upper_inverse = lazy("scipy.special._ufuncs:_ncx2_isf")


def _upper_share(x: Any, df: Any, nc: Any) -> Any:
    return np.where(x == 0, x.dtype.type(1), _upper(x, df, nc))  # SciPy: -0 at 0


def _upper_quantile(p: Any, df: Any, nc: Any) -> Any:
    zero = p == 0  # for which SciPy raises an OverflowError
    return np.where(zero, p.dtype.type(np.inf), _upper_inverse(np.where(zero, 0.5, p), df, nc))


# These are small where ``1 - chndtr`` would cancel
chndtrc: Primitive = computed("chndtrc", _upper_share, _NONCENTRAL, *_UPPER_NONCENTRAL_SLOPES)
chndtrcix: Primitive = computed(
    "chndtrcix", _upper_quantile, [_P, *_NONCENTRAL[1:]], solved_for(0, *_UPPER_NONCENTRAL_SLOPES)
)

# -- others ----------------------------------------------------------------------------------------


def _inside(p: Any, slope: Any) -> Any:
    """The slope of a distribution function; it is 0 outside of the support."""
    return masked(~(less_equal(p, 0) | greater_equal(p, 1)), slope)


def _tukey_slope(lmbda: Any, p: Any) -> Any:
    return power(p, lmbda - 1) + power(1 - p, lmbda - 1)


def _tukey_slope_of_lmbda(x: Any, lmbda: Any, p: Any, dlmbda: Any) -> Any:
    """The derivative of p at a fixed quantile ``(p**lmbda - (1 - p)**lmbda) / lmbda``."""
    moved = _power_change(lmbda, log(p)) - _power_change(lmbda, log1p(-p))
    return _inside(p, -dlmbda * moved / _tukey_slope(lmbda, p))


def _power_change(lmbda: Any, y: Any) -> Any:
    """The derivative of ``(exp(lmbda y) - 1) / lmbda``, which is ``y**2 / 2`` where lmbda is 0."""
    u = lmbda * y
    small = less(absolute(u), 0.5)
    away, near = select(small, 1, u), select(small, u, 0)
    series: Any = 0
    for k in range(12, -1, -1):
        series = near * series + (k + 1) / math.factorial(k + 2)
    return y * y * select(small, series, (away * exp(away) - expm1(away)) / (away * away))


tklmbda: Primitive = special(
    "tklmbda", [reals(-1, 1), reals(0.2, 0.9)],
    [lambda x, lmbda, p, dx: _inside(p, dx / _tukey_slope(lmbda, p)), _tukey_slope_of_lmbda],
)  # fmt: skip

# name: domains of the operands
_WITHOUT_DERIVATIVE = {
    "chndtridf": (reals(2, 3), reals(0.4, 0.5), reals(0.5, 1)),
    "chndtrinc": (reals(4, 5), reals(1, 2), reals(0.4, 0.5)),
    "kolmogi": (_P,),
    "kolmogorov": (reals(0.3, 2),),
    "ncfdtr": (reals(1, 5), reals(1, 5), _POSITIVE, _POSITIVE),
    "ncfdtri": (reals(1, 5), reals(1, 5), _POSITIVE, _P),
    "ncfdtridfd": (reals(3, 4), reals(0.5, 0.6), reals(0.5, 1), reals(1, 2)),
    "ncfdtridfn": (reals(0.5, 0.6), reals(3, 4), reals(0.5, 1), reals(1, 2)),
    "ncfdtrinc": (reals(3, 4), reals(3, 4), reals(0.3, 0.4), reals(1, 2)),
    "nctdtr": (reals(1, 5), reals(-1, 1), reals(-2, 2)),
    "nctdtridf": (reals(0.5, 0.6), reals(-1, 0), reals(1, 2)),
    "nctdtrinc": (reals(1, 5), _P, reals(-2, 2)),
    "nctdtrit": (reals(1, 5), reals(-1, 1), _P),
}

OTHERS: tuple[Primitive, ...] = tuple(
    special(name, domains, ONLY_VALUES) for name, domains in _WITHOUT_DERIVATIVE.items()
)

smirnov: Primitive = ordered("smirnov", [whole(1, 9), _P], ONLY_VALUES)
smirnovi: Primitive = ordered("smirnovi", [whole(1, 9), _P], ONLY_VALUES)
