"""Distribution functions of numbers of events in `scipy.special`, and their inverses.

SciPy rounds numbers of events to integers, each function in its own way; inverses in a number of
events are continuous, and 0 where even no event has a larger probability.

References
----------
NIST Digital Library of Mathematical Functions, 8.17; the docstrings of `scipy.special`.
"""

from __future__ import annotations

from typing import Any

from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ops.elementwise.choice import masked
from functrans.ops.elementwise.compare import greater
from functrans.ops.elementwise.rounding import floor, trunc
from functrans.ops.elementwise.special.distributions import (
    beta_by_a,
    beta_by_b,
    upper_gamma_by_order,
)
from functrans.ops.elementwise.special.incomplete import beta_density, gamma_density
from functrans.ops.elementwise.special.scipy import ordered, special
from functrans.ops.samples import reals, whole

COUNT = not_differentiable("a number of events is an integer")

_P = reals(0.1, 0.9)

# -- Poisson ---------------------------------------------------------------------------------------

pdtr: Primitive = special(
    "pdtr", [whole(0, 6), reals(0.5, 5)],
    jvp=[COUNT, lambda k, m, out, dm: dm * -gamma_density(floor(k) + 1, m)],
)  # fmt: skip

pdtrc: Primitive = special(
    "pdtrc", [whole(0, 6), reals(0.5, 5)],
    jvp=[COUNT, lambda k, m, out, dm: dm * gamma_density(floor(k) + 1, m)],
)  # fmt: skip

pdtri: Primitive = ordered(
    "pdtri", [whole(0, 6), _P],
    jvp=[COUNT, lambda k, p, m, dp: dp * (-1 / gamma_density(trunc(k) + 1, m))],
    counts=(0,),
)  # fmt: skip


def _within(k: Any, slope: Any) -> Any:
    """The slope of a number of events; it is 0 where even no event has a larger probability."""
    return masked(greater(k, 0), slope)


pdtrik: Primitive = special(
    "pdtrik", [reals(0.2, 0.6), reals(3, 6)],
    jvp=[
        lambda p, m, k, dp: _within(k, dp / upper_gamma_by_order(k + 1, m)),
        lambda p, m, k, dm: (
            _within(k, dm * (gamma_density(k + 1, m) / upper_gamma_by_order(k + 1, m)))
        ),
    ],
)  # fmt: skip

# -- binomial, negative binomial -------------------------------------------------------------------

_BINOMIAL = [whole(0, 4), whole(5, 9), _P]


def _binomial_density(k: Any, n: Any, p: Any) -> Any:
    """Minus the slope of `bdtr` in ``p``. SciPy rounds the counts to these integers."""
    return beta_density(trunc(n) - floor(k), floor(k) + 1, 1 - p)


bdtr: Primitive = ordered(
    "bdtr", _BINOMIAL,
    jvp=[
        COUNT, COUNT,
        lambda k, n, p, out, dp: dp * -_binomial_density(k, n, p),
    ],
    counts=(1,),
)  # fmt: skip

bdtrc: Primitive = ordered(
    "bdtrc", _BINOMIAL,
    jvp=[
        COUNT, COUNT,
        lambda k, n, p, out, dp: dp * _binomial_density(k, n, p),
    ],
    counts=(1,),
)  # fmt: skip

bdtri: Primitive = ordered(
    "bdtri", _BINOMIAL,
    jvp=[
        COUNT, COUNT,
        lambda k, n, y, p, dy: dy * (-1 / _binomial_density(k, n, p)),
    ],
    counts=(1,),
)  # fmt: skip


def _binomial_by_k(k: Any, n: Any, p: Any) -> Any:
    return beta_by_b(n - k, k + 1, 1 - p) - beta_by_a(n - k, k + 1, 1 - p)


bdtrik: Primitive = special(
    "bdtrik", [reals(0.4, 0.8), whole(7, 9), reals(0.3, 0.5)],
    jvp=[
        lambda y, n, p, k, dy: _within(k, dy / _binomial_by_k(k, n, p)),
        lambda y, n, p, k, dn: (
            _within(k, dn * (-beta_by_a(n - k, k + 1, 1 - p) / _binomial_by_k(k, n, p)))
        ),
        lambda y, n, p, k, dp: (
            _within(k, dp * (beta_density(n - k, k + 1, 1 - p) / _binomial_by_k(k, n, p)))
        ),
    ],
)  # fmt: skip

bdtrin: Primitive = special(
    "bdtrin", [whole(2, 5), reals(0.4, 0.8), reals(0.3, 0.5)],
    jvp=[
        lambda k, y, p, n, dk: (
            dk * (-_binomial_by_k(k, n, p) / beta_by_a(n - k, k + 1, 1 - p))
        ),
        lambda k, y, p, n, dy: dy / beta_by_a(n - k, k + 1, 1 - p),
        lambda k, y, p, n, dp: (
            dp * (beta_density(n - k, k + 1, 1 - p) / beta_by_a(n - k, k + 1, 1 - p))
        ),
    ],
)  # fmt: skip

_NEGATIVE_BINOMIAL = [whole(0, 5), whole(1, 5), _P]

nbdtr: Primitive = ordered(
    "nbdtr", _NEGATIVE_BINOMIAL,
    jvp=[COUNT, COUNT, lambda k, n, p, out, dp: dp * beta_density(trunc(n), trunc(k) + 1, p)],
    counts=(0, 1),
)  # fmt: skip

nbdtrc: Primitive = ordered(
    "nbdtrc", _NEGATIVE_BINOMIAL,
    jvp=[COUNT, COUNT, lambda k, n, p, out, dp: dp * -beta_density(trunc(n), trunc(k) + 1, p)],
    counts=(0, 1),
)  # fmt: skip

nbdtri: Primitive = ordered(
    "nbdtri", _NEGATIVE_BINOMIAL,
    jvp=[COUNT, COUNT, lambda k, n, y, p, dy: dy / beta_density(trunc(n), trunc(k) + 1, p)],
    counts=(0, 1),
)  # fmt: skip

nbdtrik: Primitive = special(
    "nbdtrik", [reals(0.4, 0.8), reals(2, 4), reals(0.3, 0.5)],
    jvp=[
        lambda y, n, p, k, dy: _within(k, dy / beta_by_b(n, k + 1, p)),
        lambda y, n, p, k, dn: (
            _within(k, dn * (-beta_by_a(n, k + 1, p) / beta_by_b(n, k + 1, p)))
        ),
        lambda y, n, p, k, dp: (
            _within(k, dp * (-beta_density(n, k + 1, p) / beta_by_b(n, k + 1, p)))
        ),
    ],
)  # fmt: skip

nbdtrin: Primitive = special(
    "nbdtrin", [whole(2, 5), reals(0.4, 0.8), reals(0.3, 0.5)],
    jvp=[
        lambda k, y, p, n, dk: dk * (-beta_by_b(n, k + 1, p) / beta_by_a(n, k + 1, p)),
        lambda k, y, p, n, dy: dy / beta_by_a(n, k + 1, p),
        lambda k, y, p, n, dp: dp * (-beta_density(n, k + 1, p) / beta_by_a(n, k + 1, p)),
    ],
)  # fmt: skip
