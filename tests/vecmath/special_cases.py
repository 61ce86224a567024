"""Reference values of the special functions by mpmath, and their test points."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
from mpmath import mpf

from tests.vecmath.reference import Case


def inverse_erfc(q: mpf) -> mpf:
    """By Newton's method."""
    if q > 1:
        return -inverse_erfc(2 - q)
    u = 1 - q
    if u < mpf(2) ** -150:
        return u * mp.sqrt(mp.pi) / 2
    central = u < 0.7
    x = u * mp.sqrt(mp.pi) / 2 if central else mp.sqrt(-mp.log(q))
    for _ in range(60):
        tail = mp.erfc(x)
        slope = 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)
        step = (tail - q) / slope if central else mp.log(tail / q) * tail / slope
        x += step
        if abs(step) < mpf(2) ** -100 * x:
            break
    return x


def _inverse_erf(u: mpf) -> mpf:
    return u * mp.sqrt(mp.pi) / 2 if abs(u) < mpf(2) ** -100 else inverse_erfc(1 - u)


def _erfcx(x: mpf) -> mpf:
    if abs(x) < 30:
        with mp.workprec(200 + int(1.5 * x * x)):
            return mp.exp(x * x) * mp.erfc(x)
    square = x * x
    terms = [mpf(1)]
    for k in range(1, 12):
        terms.append(-terms[-1] * (2 * k - 1) / (2 * square))
    return mp.fsum(terms) / (x * mp.sqrt(mp.pi))


def _betaln(a: mpf, b: mpf) -> mpf:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _lgamma_difference(x: mpf, step: mpf) -> mpf:
    return mp.loggamma(x + step) - mp.loggamma(x)


def _polygamma_difference(n: int) -> Any:
    return lambda x, step: mp.polygamma(n, x + step) - mp.polygamma(n, x)


def _polygamma(n: int) -> Any:
    return lambda x: mp.polygamma(n, x)


def _besseli(n: int, scaled: bool) -> Any:
    return lambda x: mp.besseli(n, x) * (mp.exp(-abs(x)) if scaled else 1)


def _besselk(n: int, scaled: bool) -> Any:
    """By the integral of ``e**(-x cosh(t)) cosh(n t)``, for which the trapezoidal rule is exact."""

    def value(x: mpf) -> mpf:
        step, total, k = mpf(1) / 16, mpf(1) / 2, 0
        with mp.workprec(120):
            while True:
                k += 1
                term = mp.exp(-x * (mp.cosh(k * step) - 1)) * mp.cosh(n * k * step)
                total += term
                if term < mpf(2) ** -90 * total:
                    return total * step * (1 if scaled else mp.exp(-x))

    return value


def _moment(n: int) -> Any:
    """The n-th derivative of ``(e**x - 1) / x``."""
    return lambda x: mp.hyp1f1(n + 1, n + 2, x) / (n + 1)


def _slope_of_log1prel(x: mpf) -> mpf:
    return (x / (1 + x) - mp.log1p(x)) / x**2 if x else mpf(-1) / 2


def _kl_div(x: mpf, y: mpf) -> mpf:
    return x * mp.log(x / y) - x + y


def _log_poisson(k: mpf, mu: mpf) -> mpf:
    return k * mp.log(mu) - mu - mp.loggamma(k + 1)


def _pseudo_huber(delta: mpf, r: mpf) -> mpf:
    return delta * (mp.sqrt(delta * delta + r * r) - delta)


def _boxcox(x: mpf, lmbda: mpf) -> mpf:
    return mp.expm1(lmbda * mp.log(x)) / lmbda if lmbda else mp.log(x)


def _positive(*operands: Any) -> Any:
    return np.all([x > 0 for x in operands], axis=0)


def _within(low: float, high: float) -> Any:
    return lambda *operands: np.all([(x >= low) & (x <= high) for x in operands], axis=0)


def _open(low: float, high: float) -> Any:
    return lambda x: (x > low) & (x < high)


def _between_poles(least: float) -> Any:
    return lambda x: (x > least) & (x < -1e-300) & (np.floor(x) != x)


def _bounded(limit: float) -> Any:
    return lambda x: np.abs(x) < limit


def _bounded_below(least: float, limit: float) -> Any:
    return lambda x: (x > least) & (x < limit)


NEGATIVE_APART = ("lgamma", "digamma", "gamma", "rgamma", "polygamma")
"""Functions with cases of their own for negative arguments."""

SPECIAL_CASES = (
    Case("gamma", mp.gamma, ((0.01, 3), (1, 34), (1, 171.6)), _bounded_below(1e-300, 1e3),
         bound=1.5),
    Case("gamma", mp.gamma, ((-33, -0.1), (-180, -0.1)), _between_poles(-150), bound=3),
    Case("rgamma", mp.rgamma, ((0.01, 3), (1, 34), (1, 177)), _bounded_below(0, 1e3), bound=2),
    Case("rgamma", mp.rgamma, ((-33, -0.1), (-170, -0.1)), _between_poles(-150), bound=3),
    Case("betaln", _betaln, ((0.01, 3), (0.5, 300), (0.01, 1e8)), _within(1e-300, 1e30), bound=5,
         arity=2, absolute=True),
    Case("beta", mp.beta, ((0.05, 3), (0.5, 12), (0.5, 300)), _within(1e-100, 100), bound=8,
         arity=2, bits=False),
    Case("lgamma_difference", _lgamma_difference, ((2, 3), (2, 300), (3, 1e6)),
         lambda x, step: _within(2, 1e30)(x) & _within(1e-30, 1e30)(step / x), bound=8, arity=2),
    *(
        Case("polygamma_difference", _polygamma_difference(n), ((0.1, 3), (1, 300)),
             _within(1e-10, 1e10), bound=5, arity=2, params={"n": n})
        for n in (0, 1, 2)
    ),
    *(
        Case("polygamma", _polygamma(n), ((0.01, 3), (1, 100), (1, 1e6)),
             _bounded_below(1e-12, 1e30), bound=6, params={"n": n})
        for n in (1, 2, 3)
    ),
    Case("polygamma", _polygamma(1), ((-30.5, -0.1),), _between_poles(-30), bound=5,
         params={"n": 1}, bits=False),
    Case("erfcx", _erfcx, ((-1, 1), (-26, 1), (0, 60)), _bounded_below(-26, np.inf), bound=2),
    Case("erfinv", _inverse_erf, ((-1, 1), (0.99, 1)), _open(-1, 1), bound=2),
    Case("erfcinv", inverse_erfc, ((0, 2), (0, 0.01)), _open(0, 2), bound=2.5),
    Case("ndtri", lambda p: -mp.sqrt(2) * inverse_erfc(2 * p), ((0, 1), (0, 0.001)), _open(0, 1),
         bound=3.5),
    Case("exp1", mp.e1, ((0, 1), (0.9, 1.1), (1, 85)), _bounded_below(0, 700), bound=6.5),
    Case("expi", mp.ei, ((0.3, 0.5), (-2, 8), (-85, 85)), _bounded(700), bound=6.5),
    *(
        Case("bessel_i", _besseli(n, scaled), ((-10, 10), (-85, 85)),
             _bounded(1e6 if scaled else 700), bound=4, params={"n": n, "scaled": scaled})
        for n in (0, 1) for scaled in (False, True)
    ),
    *(
        Case("bessel_k", _besselk(n, scaled), ((0, 2), (1, 85)), _bounded_below(1e-3, 100),
             bound=4.5, params={"n": n, "scaled": scaled})
        for n in (0, 1) for scaled in (False, True)
    ),
    Case("bessel_i", _besseli(2, True), ((0.01, 10), (0.01, 85)), np.isfinite, bound=5, bits=False,
         params={"n": 2, "scaled": True}),
    Case("bessel_i", _besseli(3, False), ((0.01, 20), (0.01, 60)), np.isfinite, bound=7, bits=False,
         params={"n": 3, "scaled": False}),
    Case("bessel_k", _besselk(2, True), ((0.1, 3), (0.1, 85)), np.isfinite, bound=5, bits=False,
         params={"n": 2, "scaled": True}),
    *(
        Case(name, lambda x, value=value, n=n: value(n, x), ((0.01, 10), (0.1, 85)),
             _bounded_below(1e-3, 1e4), bound=5, absolute=True, bits=False, params={"n": n})
        for name, value in (("bessel_j", mp.besselj), ("bessel_y", mp.bessely)) for n in (0, 1)
    ),
    *(
        Case(name, lambda x, value=value: value(2, x), ((0.01, 10), (0.1, 85)), np.isfinite,
             bound=6, absolute=True, bits=False, params={"n": 2})
        for name, value in (("bessel_j", mp.besselj), ("bessel_y", mp.bessely))
    ),
    Case("bessel_k", _besselk(3, False), ((0.1, 3), (0.1, 60)), np.isfinite, bound=5, bits=False,
         params={"n": 3, "scaled": False}),
    Case("rel_entr", lambda x, y: x * mp.log(x / y), ((0.1, 30), (1, 1.01)), _within(1e-30, 1e30),
         bound=2.5, arity=2),
    Case("kl_div", _kl_div, ((0.1, 30), (1, 1.01)), _within(1e-30, 1e30), bound=7.5, arity=2),
    Case("log_poisson", _log_poisson, ((0.1, 30), (0, 1), (200, 300)), _within(1e-30, 1e8), bound=4,
         arity=2, absolute=True),
    Case("pseudo_huber", _pseudo_huber, ((0.1, 30),), _within(1e-15, 1e15), bound=3, arity=2),
    Case("exprel", lambda x: mp.expm1(x) / x, ((-3, 3), (-85, 80)), _bounded_below(-1e30, 700),
         bound=2),
    *(
        Case("exprel_derivative", _moment(n), ((-10, 10), (-60, 60)), _bounded(60), bound=3.5,
             bits=False, params={"n": n})
        for n in (1, 2)
    ),
    Case("log1prel_derivative", lambda x: mp.log1p(x) / x if x else mpf(1), ((-1, 1), (0, 100)),
         _bounded_below(-1, np.inf), bound=2, params={"n": 0}),
    Case("log1prel_derivative", _slope_of_log1prel, ((-0.99, 3), (0, 100)), np.isfinite, bound=7,
         bits=False, params={"n": 1}),
    Case("boxcox", _boxcox, ((0.1, 5),), _within(1e-10, 30), bound=3, arity=2),
    Case("powm1", lambda x, y: mp.powm1(x, y), ((0.1, 5),), _within(1e-10, 30), bound=2.5, arity=2),
)  # fmt: skip
