"""Less common continuous distributions, as table rows that define only the log-density.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ops.elementwise.choice import absolute, select, sign
from functrans.ops.elementwise.compare import equal, greater, greater_equal, less, less_equal
from functrans.ops.elementwise.exponential import exp, expm1, log, log1p, logaddexp, logit
from functrans.ops.elementwise.power import power, sqrt
from functrans.ops.elementwise.special.bessel import k1e
from functrans.ops.elementwise.special.entropy import exprel, log1prel_n, log_expit, xlog1py, xlogy
from functrans.ops.elementwise.special.errors import erf
from functrans.ops.elementwise.special.gamma import betaln, gammaln
from functrans.ops.elementwise.special.log_ndtr import log_ndtr
from functrans.ops.elementwise.trigonometric import cos, sin
from functrans.scipy.stats.distribution import Row, is_positive
from functrans.scipy.stats.standard import (
    LOG2,
    LOG_PI,
    LOG_SQRT_2_PI,
    ON_POSITIVE,
    ON_REALS,
    ON_UNIT,
    generalised_pareto,
    half,
    log1p_power,
    log1p_square,
    log_i0e,
    log_kve,
    normal_logpdf,
    one,
    zero,
)

_HALF_CIRCLE: dict[str, Any] = {"support": lambda *_: (-math.pi, math.pi), "within": one}


def _is_not_negative(c: Any) -> Any:
    return greater_equal(c, 0)


def _crystal_ball(x: Any, beta: Any, m: Any) -> Any:
    # a normal density, continued by a power law to the left of -beta
    tail = log(m / beta) - log(m - 1) - 0.5 * (beta * beta)
    mass = logaddexp(tail, LOG_SQRT_2_PI + log_ndtr(beta))
    core = greater(x, -beta)
    left = select(core, -beta, x)
    beyond = -0.5 * (beta * beta) - m * log1p(-beta * (beta + left) / m)
    return select(core, -0.5 * (x * x), beyond) - mass


def _exponentiated_weibull_logpdf(x: Any, a: Any, c: Any) -> Any:
    y = power(x, c)
    small = less(y, 1)  # both factors vanish at 0, or one of them is infinite: one power of x
    near = xlogy(a * c - 1, x) + (a - 1) * log(exprel(select(small, -y, 0.0)))
    away = (a - 1) * log(-expm1(-select(small, 1.0, y))) + (c - 1) * log(select(small, 1.0, x))
    return log(a * c) + select(small, near, away) - y


def _generalised_half_logistic(x: Any, c: Any) -> Any:
    logarithm, share = generalised_pareto(x, -c)
    return LOG2 + logarithm - 2 * log1p(share)


def _generalised_hyperbolic(x: Any, p: Any, a: Any, b: Any) -> Any:
    root = sqrt(a * a - b * b)
    distance = sqrt(1 + x * x)
    front = p * log(root) - (p - 0.5) * log(a) - LOG_SQRT_2_PI - log_kve(p, root) + root
    of_point = (p - 0.5) * log(distance) + log_kve(p - 0.5, a * distance) - a * distance
    return front + of_point + b * x


def _kappa3_logpdf(x: Any, a: Any) -> Any:
    large = greater(x, 1)  # where the power may overflow
    outer = select(large, x, 1.0)
    far = a * log(outer) + log1p(a * power(outer, -a))
    near = log(a + power(select(large, 1.0, x), a))
    return log(a) - (1 + 1 / a) * select(large, far, near)


def _normal_inverse_gaussian(x: Any, a: Any, b: Any) -> Any:
    distance = sqrt(1 + x * x)
    exponent = b * x - a * distance + sqrt(a * a - b * b)
    return log(a) - LOG_PI + log(k1e(a * distance)) + exponent - log(distance)


def _skewed_student(x: Any, a: Any, b: Any) -> Any:
    # of 1 - share and 1 + share the smaller one as a quotient, since it is rounded far out
    right = greater(x, 0)
    size = select(right, x, -x)
    root = sqrt(a + b + x * x)
    large, small = log1p(size / root), log(a + b) - log(root) - log(root + size)
    front = (a + b - 1) * LOG2 + betaln(a, b) + 0.5 * log(a + b)
    nearer, farther = select(right, a, b), select(right, b, a)
    return (nearer + 0.5) * large + (farther + 0.5) * small - front


def _trapezoid(x: Any, c: Any, d: Any) -> Any:
    rises, falls = less(x, c), ~less_equal(x, d)  # NaN falls
    up = log(select(rises, x, 1)) - log(select(rises, c, 1))
    down = log(select(falls, 1 - x, 1)) - log(select(falls, 1 - d, 1))
    return LOG2 - log(d - c + 1) + up + down


def _truncated_pareto(x: Any, b: Any, c: Any) -> Any:
    # of the two powers of c the smaller one, which neither overflows nor cancels for b near 0
    log_c = log(c)
    u = b * log_c
    rises = less(u, 0)
    mass = log(log_c) + log(exprel(select(rises, u, -u))) - select(rises, u, 0)
    return -(b + 1) * log(x) - mass


def _truncated_weibull(x: Any, c: Any, a: Any, b: Any) -> Any:
    bounded = ~equal(power(b, c), np.inf)
    low, high = power(a, c), power(select(bounded, b, a + 1), c)
    mass = -low + select(bounded, log(-expm1(low - high)), 0)
    return log(c) + xlogy(c - 1, x) - power(x, c) - mass


def _log_maxwell_mass(chi: Any) -> Any:
    """The logarithm of half the probability that a chi variable of 3 degrees is below ``chi``."""
    y = 0.5 * (chi * chi)
    small = less(y, 1)
    # a series of positive terms where the closed form suffers from cancellation
    near, total = select(small, y, 0), 1.0
    for k in range(18, 0, -1):
        total = 1 + total * near / (k + 1.5)
    series = 3 * log(chi) - 1.5 * LOG2 - math.log(1.5) - 0.5 * LOG_PI - near + log(total)
    far = sqrt(select(small, 1, y))
    return select(small, series, log(0.5 * erf(far) - far * exp(-far * far) / math.sqrt(math.pi)))


def _breit_wigner(x: Any, rho: Any) -> Any:
    root = sqrt(1 + 1 / (rho * rho))
    off = (x - rho) * (x + rho) / rho
    return 1.5 * LOG2 - LOG_PI + log(root) - 0.5 * log1p(root) - log1p(off * off)


ROWS: tuple[Row, ...] = (
    Row(
        "alpha", ("a",), **ON_POSITIVE, open=True,
        logpdf=lambda x, a: -2 * log(x) + normal_logpdf(a - 1 / x) - log_ndtr(a),
    ),
    Row(
        "anglit", support=lambda: (-math.pi / 4, math.pi / 4), within=zero,
        logpdf=lambda x: log(cos(2 * x)),
    ),
    Row(
        # the density of chi * sqrt(1 - x**2), a chi distribution of 3 degrees truncated at chi
        "argus", ("chi",), **ON_UNIT, open=True,
        logpdf=lambda x, chi: (
            3 * log(chi) - LOG_SQRT_2_PI - _log_maxwell_mass(chi)
            + log(x) + 0.5 * log1p(-x * x) - 0.5 * (chi * chi) * (1 - x * x)
        ),
    ),
    Row(
        "bradford", ("c",), **ON_UNIT,
        logpdf=lambda x, c: -log1p(c * x) - log(log1prel_n(c, n=0)),
    ),
    Row(
        "burr", ("c", "d"), **ON_POSITIVE,
        logpdf=lambda x, c, d: log(c * d) + xlogy(c * d - 1, x) - (d + 1) * log1p_power(x, c),
    ),
    Row(
        "burr12", ("c", "d"), **ON_POSITIVE,
        logpdf=lambda x, c, d: log(c * d) + xlogy(c - 1, x) - (d + 1) * log1p_power(x, c),
    ),
    Row("cosine", **_HALF_CIRCLE, open=True, logpdf=lambda x: log1p(cos(x)) - LOG2 - LOG_PI),
    Row(
        "crystalball", ("beta", "m"), **{**ON_REALS, "valid": (
            lambda beta, m: greater(m, 1) & greater(beta, 0)
        )},
        logpdf=_crystal_ball,
    ),
    Row(
        "dgamma", ("a",), **{**ON_REALS, "within": one},
        logpdf=lambda x, a: xlogy(a - 1, absolute(x)) - absolute(x) - LOG2 - gammaln(a),
    ),
    Row(
        "dweibull", ("c",), **{**ON_REALS, "within": one},
        logpdf=lambda x, c: (
            log(c) - LOG2 + xlogy(c - 1, absolute(x)) - power(absolute(x), c)
        ),
    ),
    Row(
        "exponpow", ("b",), **ON_POSITIVE,
        logpdf=lambda x, b: log(b) + xlogy(b - 1, x) + power(x, b) - expm1(power(x, b)),
    ),
    Row(
        "exponweib", ("a", "c"), **ON_POSITIVE,
        logpdf=_exponentiated_weibull_logpdf,
    ),
    Row(
        "fatiguelife", ("c",), **ON_POSITIVE, open=True,
        logpdf=lambda x, c: (
            log1p(x) - LOG2 - log(c) - LOG_SQRT_2_PI - 1.5 * log(x)
            - (x - 1) * (x - 1) / (2 * x * c * c)
        ),
    ),
    Row(
        "foldcauchy", ("c",), **{**ON_POSITIVE, "valid": _is_not_negative},
        logpdf=lambda x, c: (
            logaddexp(-log1p_square(x - c), -log1p_square(x + c)) - LOG_PI
        ),
    ),
    Row(
        "foldnorm", ("c",), **{**ON_POSITIVE, "valid": _is_not_negative},
        logpdf=lambda x, c: logaddexp(normal_logpdf(x - c), normal_logpdf(x + c)),
    ),
    Row(
        "genexpon", ("a", "b", "c"), **ON_POSITIVE,
        logpdf=lambda x, a, b, c: (
            log(a - b * expm1(-c * x)) - (a + b - b * exprel(-c * x)) * x
        ),
    ),
    Row(
        "genhalflogistic", ("c",), support=lambda c: (0.0, 1 / c), within=lambda c: 0.5 / c,
        valid=is_positive, logpdf=_generalised_half_logistic,
    ),
    Row(
        "genhyperbolic", ("p", "a", "b"), **{**ON_REALS, "valid": (
            lambda p, a, b: less(absolute(b), a) & equal(p, p)
        )},
        logpdf=_generalised_hyperbolic,
    ),
    Row(
        "geninvgauss", ("p", "b"), open=True,
        **{**ON_POSITIVE, "valid": lambda p, b: greater(b, 0) & equal(p, p)},
        logpdf=lambda x, p, b: (
            (p - 1) * log(x) - 0.5 * b * (x - 1) * (x - 1) / x - LOG2 - log_kve(p, b)
        ),
    ),
    Row(
        "genlogistic", ("c",), **ON_REALS,
        logpdf=lambda x, c: log(c) + c * log_expit(x) + log_expit(-x),
    ),
    Row("gompertz", ("c",), **ON_POSITIVE, logpdf=lambda x, c: log(c) + x - c * expm1(x)),
    Row(
        "halfgennorm", ("beta",), **ON_POSITIVE,
        logpdf=lambda x, beta: log(beta) - gammaln(1 / beta) - power(x, beta),
    ),
    Row(
        "invweibull", ("c",), **ON_POSITIVE, open=True,
        logpdf=lambda x, c: log(c) - (c + 1) * log(x) - power(x, -c),
    ),
    Row("jf_skew_t", ("a", "b"), **ON_REALS, logpdf=_skewed_student),
    Row(
        "johnsonsb", ("a", "b"), open=True,
        **{**ON_UNIT, "valid": lambda a, b: greater(b, 0) & equal(a, a)},
        logpdf=lambda x, a, b: log(b) - log(x) - log1p(-x) + normal_logpdf(a + b * logit(x)),
    ),
    Row(
        "kappa3", ("a",), **ON_POSITIVE,
        logpdf=_kappa3_logpdf,
    ),
    Row(
        "laplace_asymmetric", ("kappa",), **{**ON_REALS, "within": one},
        logpdf=lambda x, kappa: (
            -absolute(x) * select(less(x, 0), 1 / kappa, kappa) - log(kappa + 1 / kappa)
        ),
    ),
    Row(
        "loglaplace", ("c",), **ON_POSITIVE,
        logpdf=lambda x, c: log(c) - LOG2 + xlogy(select(less(x, 1), c, -c) - 1, x),
    ),
    Row(
        "mielke", ("k", "s"), **ON_POSITIVE,
        logpdf=lambda x, k, s: log(k) + xlogy(k - 1, x) - (1 + k / s) * log1p_power(x, s),
    ),
    Row(
        "norminvgauss", ("a", "b"), **{**ON_REALS, "valid": lambda a, b: less(absolute(b), a)},
        logpdf=_normal_inverse_gaussian,
    ),
    Row(
        "powerlognorm", ("c", "s"), **ON_POSITIVE, open=True,
        logpdf=lambda x, c, s: (
            log(c) - log(x) - log(s) + normal_logpdf(log(x) / s)
            + (c - 1) * log_ndtr(-log(x) / s)
        ),
    ),
    Row(
        "powernorm", ("c",), **ON_REALS,
        logpdf=lambda x, c: log(c) + normal_logpdf(x) + (c - 1) * log_ndtr(-x),
    ),
    Row(
        "rdist", ("c",), support=lambda c: (-1.0, 1.0), within=zero, valid=is_positive,
        logpdf=lambda x, c: xlog1py(0.5 * c - 1, -x * x) - betaln(0.5, 0.5 * c),
    ),
    Row(
        "recipinvgauss", ("mu",), **ON_POSITIVE, open=True,
        logpdf=lambda x, mu: (
            -(1 - mu * x) * (1 - mu * x) / (2 * x * mu * mu) - LOG_SQRT_2_PI - 0.5 * log(x)
        ),
    ),
    Row("rel_breitwigner", ("rho",), **ON_POSITIVE, logpdf=_breit_wigner),
    Row(
        "skewcauchy", ("a",), **{**ON_REALS, "within": one, "valid": (
            lambda a: less(absolute(a), 1)
        )},
        logpdf=lambda x, a: -LOG_PI - log1p_square(x / (1 + a * sign(x))),
    ),
    Row(
        "trapezoid", ("c", "d"), support=lambda c, d: (0.0, 1.0), within=half,
        valid=lambda c, d: greater_equal(c, 0) & less_equal(c, d) & less_equal(d, 1),
        logpdf=_trapezoid,
    ),
    Row(
        "truncpareto", ("b", "c"), support=lambda b, c: (1.0, c), within=lambda b, c: sqrt(c),
        valid=lambda b, c: ~equal(b, 0) & greater(c, 1),
        logpdf=_truncated_pareto,
    ),
    Row(
        "truncweibull_min", ("c", "a", "b"), support=lambda c, a, b: (a, b),
        within=lambda c, a, b: 0.5 * (a + b),
        valid=lambda c, a, b: greater(c, 0) & greater_equal(a, 0) & greater(b, a),
        logpdf=_truncated_weibull,
    ),
    Row(
        "vonmises_line", ("kappa",), **_HALF_CIRCLE, valid=_is_not_negative,
        logpdf=lambda x, kappa: (
            -2 * kappa * sin(0.5 * x) * sin(0.5 * x) - 2 * LOG_SQRT_2_PI - log_i0e(kappa)
        ),
    ),
    Row(
        "wrapcauchy", ("c",), support=lambda c: (0.0, 2 * math.pi), within=one,
        valid=lambda c: greater(c, 0) & less(c, 1),
        logpdf=lambda x, c: (
            log1p(-c) + log1p(c) - LOG2 - LOG_PI
            - log((1 - c) * (1 - c) + 4 * c * sin(0.5 * x) * sin(0.5 * x))
        ),
    ),
)  # fmt: skip
