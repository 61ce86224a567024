"""Distribution functions of numbers of events in `scipy.special`, and their inverses.

SciPy's functions round numbers of events to integers in different ways. Inverses with respect to a
number of events are continuous, and 0 where the probability of no event is already larger.

References
----------
NIST Digital Library of Mathematical Functions, 8.17; the docstrings of `scipy.special`.
"""

from __future__ import annotations

from typing import Any

from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ops.elementwise.choice import masked
from functrans.ops.elementwise.compare import equal, greater, greater_equal
from functrans.ops.elementwise.rounding import floor, trunc
from functrans.ops.elementwise.special.distributions import (
    beta_by_a,
    beta_by_b,
    upper_gamma_by_order,
)
from functrans.ops.elementwise.special.incomplete import beta_density, betaincc_n, gamma_density
from functrans.ops.elementwise.special.scipy import (
    by_slopes,
    negative,
    ordered,
    solved_for,
    special,
)
from functrans.ops.samples import reals, whole

COUNT = not_differentiable("a number of events is an integer")

_P = reals(0.1, 0.9)

# -- Poisson ---------------------------------------------------------------------------------------


def _poisson_by_m(k: Any, m: Any) -> Any:
    return -gamma_density(floor(k) + 1, m)


pdtr: Primitive = special("pdtr", [whole(0, 6), reals(0.5, 5)], by_slopes(COUNT, _poisson_by_m))
pdtrc: Primitive = special(
    "pdtrc", [whole(0, 6), reals(0.5, 5)], by_slopes(COUNT, negative(_poisson_by_m))
)
pdtri: Primitive = ordered(
    "pdtri", [whole(0, 6), _P],
    jvp=[COUNT, lambda k, p, m, dp: dp * (-1 / gamma_density(trunc(k) + 1, m))],
    counts=(0,),
)  # fmt: skip


def _within(k: Any, slope: Any) -> Any:
    """The derivative of a number of events; 0 where the probability of no event is larger."""
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
    # at 1 - p the digits of a small p would be lost
    steep = beta_density(floor(k) + 1, trunc(n) - floor(k), p)
    return masked(greater_equal(k, 0) & ~equal(trunc(n), floor(k)), steep)


bdtr: Primitive = ordered(
    "bdtr", _BINOMIAL, by_slopes(COUNT, COUNT, negative(_binomial_density)), counts=(1,)
)
bdtrc: Primitive = ordered(
    "bdtrc", _BINOMIAL, by_slopes(COUNT, COUNT, _binomial_density), counts=(1,)
)
bdtri: Primitive = ordered(
    "bdtri", _BINOMIAL, solved_for(2, COUNT, COUNT, negative(_binomial_density)), counts=(1,)
)


def _binomial_by_k(k: Any, n: Any, p: Any) -> Any:
    return betaincc_n(k + 1, n - k, p, n=1, m=0) - betaincc_n(k + 1, n - k, p, n=0, m=1)


def _binomial_by_n(k: Any, n: Any, p: Any) -> Any:
    return betaincc_n(k + 1, n - k, p, n=0, m=1)


bdtrik: Primitive = special(
    "bdtrik", [reals(0.4, 0.8), whole(7, 9), reals(0.3, 0.5)],
    jvp=[
        lambda y, n, p, k, dy: _within(k, dy / _binomial_by_k(k, n, p)),
        lambda y, n, p, k, dn: (
            _within(k, dn * (-_binomial_by_n(k, n, p) / _binomial_by_k(k, n, p)))
        ),
        lambda y, n, p, k, dp: (
            _within(k, dp * (beta_density(k + 1, n - k, p) / _binomial_by_k(k, n, p)))
        ),
    ],
)  # fmt: skip

bdtrin: Primitive = special(
    "bdtrin", [whole(2, 5), reals(0.4, 0.8), reals(0.3, 0.5)],
    solved_for(
        1, _binomial_by_k, _binomial_by_n, lambda k, n, p: -beta_density(k + 1, n - k, p)
    ),
)  # fmt: skip

_NEGATIVE_BINOMIAL = [whole(0, 5), whole(1, 5), _P]


def _negative_binomial_by_p(k: Any, n: Any, p: Any) -> Any:
    return beta_density(trunc(n), trunc(k) + 1, p)


_BY_P = COUNT, COUNT, _negative_binomial_by_p

nbdtr: Primitive = ordered("nbdtr", _NEGATIVE_BINOMIAL, by_slopes(*_BY_P), counts=(0, 1))
nbdtrc: Primitive = ordered(
    "nbdtrc", _NEGATIVE_BINOMIAL, by_slopes(COUNT, COUNT, negative(_negative_binomial_by_p)),
    counts=(0, 1),
)  # fmt: skip
nbdtri: Primitive = ordered("nbdtri", _NEGATIVE_BINOMIAL, solved_for(2, *_BY_P), counts=(0, 1))

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
    solved_for(
        1, lambda k, n, p: beta_by_b(n, k + 1, p), lambda k, n, p: beta_by_a(n, k + 1, p),
        lambda k, n, p: beta_density(n, k + 1, p),
    ),
)  # fmt: skip
