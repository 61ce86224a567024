"""Distribution functions of numbers of events in `scipy.special`, and their inverses.

SciPy's functions round numbers of events to integers in different ways. Inverses with respect to a
number of events are continuous, and 0 where the probability of no event is already larger.

References
----------
NIST Digital Library of Mathematical Functions, 8.17; the docstrings of `scipy.special`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ops.define import OperandRule
from functrans.ops.elementwise.choice import masked
from functrans.ops.elementwise.compare import equal, less, less_equal
from functrans.ops.elementwise.rounding import floor, trunc
from functrans.ops.elementwise.special.incomplete import (
    beta_by_a,
    beta_by_b,
    beta_density,
    gamma_by_order,
    gamma_density,
)
from functrans.ops.elementwise.special.scipy import (
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


pdtr: Primitive = special("pdtr", [whole(0, 6), reals(0.5, 5)], COUNT, _poisson_by_m)
pdtrc: Primitive = special("pdtrc", [whole(0, 6), reals(0.5, 5)], COUNT, negative(_poisson_by_m))
pdtri: Primitive = ordered(
    "pdtri", [whole(0, 6), _P], COUNT, lambda k, p, out: -1 / gamma_density(trunc(k) + 1, out)
)


def _counted(rules: Sequence[Any]) -> list[OperandRule]:
    """The rules of a number of events; 0 where the probability of no event is already larger."""

    def rule(inner: Any) -> Any:
        return lambda *given: masked(~less_equal(given[-2], 0), inner(*given))

    return list(map(rule, rules))


pdtrik: Primitive = special(
    "pdtrik", [reals(0.2, 0.6), reals(3, 6)],
    _counted(
        solved_for(
            0, lambda k, m: -gamma_by_order(k + 1, m), lambda k, m: -gamma_density(k + 1, m)
        )
    ),
)  # fmt: skip

# -- binomial, negative binomial -------------------------------------------------------------------

_BINOMIAL = [whole(0, 4), whole(5, 9), _P]


def _binomial_density(k: Any, n: Any, p: Any) -> Any:
    """Minus the slope of `bdtr` in ``p``. SciPy rounds the counts to these integers."""
    # at 1 - p the digits of a small p would be lost
    steep = beta_density(floor(k) + 1, trunc(n) - floor(k), p)
    return masked(~less(k, 0) & ~equal(trunc(n), floor(k)), steep)


bdtr: Primitive = ordered("bdtr", _BINOMIAL, COUNT, COUNT, negative(_binomial_density), counts=(1,))
bdtrc: Primitive = ordered("bdtrc", _BINOMIAL, COUNT, COUNT, _binomial_density, counts=(1,))
bdtri: Primitive = ordered(
    "bdtri", _BINOMIAL, solved_for(2, COUNT, COUNT, negative(_binomial_density)), counts=(1,)
)


def _binomial_by_k(k: Any, n: Any, p: Any) -> Any:
    return beta_by_b(k + 1, n - k, p) - beta_by_a(k + 1, n - k, p)


def _binomial_by_n(k: Any, n: Any, p: Any) -> Any:
    return -beta_by_b(k + 1, n - k, p)


_BY_COUNTS = _binomial_by_k, _binomial_by_n, lambda k, n, p: -beta_density(k + 1, n - k, p)

bdtrik: Primitive = special(
    "bdtrik", [reals(0.4, 0.8), whole(7, 9), reals(0.3, 0.5)], _counted(solved_for(0, *_BY_COUNTS))
)
bdtrin: Primitive = special(
    "bdtrin", [whole(2, 5), reals(0.4, 0.8), reals(0.3, 0.5)], solved_for(1, *_BY_COUNTS)
)

_NEGATIVE_BINOMIAL = [whole(0, 5), whole(1, 5), _P]


def _negative_binomial_by_p(k: Any, n: Any, p: Any) -> Any:
    return beta_density(trunc(n), trunc(k) + 1, p)


_BY_P = COUNT, COUNT, _negative_binomial_by_p

nbdtr: Primitive = ordered("nbdtr", _NEGATIVE_BINOMIAL, *_BY_P, counts=(0, 1))
nbdtrc: Primitive = ordered(
    "nbdtrc", _NEGATIVE_BINOMIAL, COUNT, COUNT, negative(_negative_binomial_by_p), counts=(0, 1)
)
nbdtri: Primitive = ordered("nbdtri", _NEGATIVE_BINOMIAL, solved_for(2, *_BY_P), counts=(0, 1))

_NEGATIVE_BY_COUNTS = (
    lambda k, n, p: beta_by_b(n, k + 1, p),
    lambda k, n, p: beta_by_a(n, k + 1, p),
    lambda k, n, p: beta_density(n, k + 1, p),
)

nbdtrik: Primitive = special(
    "nbdtrik", [reals(0.4, 0.8), reals(2, 4), reals(0.3, 0.5)],
    _counted(solved_for(0, *_NEGATIVE_BY_COUNTS)),
)  # fmt: skip
nbdtrin: Primitive = special(
    "nbdtrin", [whole(2, 5), reals(0.4, 0.8), reals(0.3, 0.5)], solved_for(1, *_NEGATIVE_BY_COUNTS)
)
