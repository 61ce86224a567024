"""Orthogonal polynomials: the derivative is a polynomial of the next family, one degree lower.

References
----------
NIST Digital Library of Mathematical Functions, 18.9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ops.elementwise.choice import absolute, masked, select
from functrans.ops.elementwise.compare import equal, greater, less
from functrans.ops.elementwise.special.gamma import binom
from functrans.ops.elementwise.special.scipy import (
    NO_CLOSED_FORM,
    less_one,
    ordered,
    special,
    times,
)
from functrans.ops.samples import reals, whole

DEGREE = not_differentiable("the degree of a polynomial is an integer")

_INSIDE = [whole(0, 6), reals(-0.9, 0.9)]
_UNIT = [whole(0, 6), reals(0.1, 0.9)]
_DEGREE, _PARAMETER = whole(0, 6), reals(0.5, 2)


def _gegenbauer_below(n: Any, order: float, x: Any) -> Any:
    """``C_(n-1)``, which is 0 for ``n == 0``."""
    return eval_gegenbauer(n - 1, order, x)


eval_gegenbauer: Primitive = ordered(
    "eval_gegenbauer", [_DEGREE, _PARAMETER, reals(-0.9, 0.9)], DEGREE, NO_CLOSED_FORM,
    lambda n, a, x: 2 * a * eval_gegenbauer(n - 1, a + 1, x),
)  # fmt: skip


def _slope_of_second_kind(n: Any, x: Any) -> Any:
    """The derivative of ``U_n``, which is minus ``U_(-2 - n)``."""
    below = less(n, 0)
    slope = 2 * _gegenbauer_below(select(below, -2 - n, n), 2.0, x)
    return select(below, -slope, slope)


def _slope_of_legendre(n: Any, x: Any) -> Any:
    """The derivative of ``P_n``, which is the same function as ``P_(-1 - n)``."""
    return _gegenbauer_below(select(less(n, 0), -1 - n, n), 1.5, x)


eval_legendre: Primitive = ordered("eval_legendre", _INSIDE, DEGREE, _slope_of_legendre)

eval_sh_legendre: Primitive = ordered(
    "eval_sh_legendre", _UNIT, DEGREE, lambda n, x: 2 * _slope_of_legendre(n, 2 * x - 1)
)

eval_chebyu: Primitive = ordered("eval_chebyu", _INSIDE, DEGREE, _slope_of_second_kind)

eval_chebyt: Primitive = ordered(
    "eval_chebyt", _INSIDE, DEGREE, lambda n, x: n * eval_chebyu(less_one(n), x)
)

eval_chebys: Primitive = ordered(
    "eval_chebys", _INSIDE, DEGREE, lambda n, x: 0.5 * _slope_of_second_kind(n, 0.5 * x)
)

eval_chebyc: Primitive = ordered(
    "eval_chebyc", _INSIDE, DEGREE, lambda n, x: n * eval_chebys(less_one(n), x)
)

eval_sh_chebyt: Primitive = ordered(
    "eval_sh_chebyt", _UNIT, DEGREE, lambda n, x: 2 * n * eval_chebyu(less_one(n), 2 * x - 1)
)

eval_sh_chebyu: Primitive = ordered(
    "eval_sh_chebyu", _UNIT, DEGREE, lambda n, x: 2 * _slope_of_second_kind(n, 2 * x - 1)
)


def _jacobi_below(n: Any, a: Any, b: Any, x: Any) -> Any:
    """The polynomial of degree ``n - 1``, which is 0 for ``n == 0``."""
    return masked(~equal(n, 0), eval_jacobi(n - 1, a, b, x))


eval_jacobi: Primitive = ordered(
    "eval_jacobi", [_DEGREE, _PARAMETER, _PARAMETER, reals(-0.9, 0.9)], DEGREE, NO_CLOSED_FORM,
    NO_CLOSED_FORM, lambda n, a, b, x: 0.5 * (n + a + b + 1) * _jacobi_below(n, a + 1, b + 1, x),
)  # fmt: skip

eval_sh_jacobi: Primitive = ordered(
    "eval_sh_jacobi", [_DEGREE, reals(2, 3), reals(0.5, 1), reals(0.1, 0.9)], DEGREE,
    NO_CLOSED_FORM, NO_CLOSED_FORM,
    lambda n, p, q, x: (
        (n + p) * _jacobi_below(n, p - q + 1, q, 2 * x - 1) / binom(2 * n + p - 1, n)
    ),
)  # fmt: skip

eval_genlaguerre: Primitive = ordered(
    "eval_genlaguerre", [_DEGREE, _PARAMETER, reals(0.1, 5)], DEGREE, NO_CLOSED_FORM,
    lambda n, a, x: -eval_genlaguerre(n - 1, a + 1, x),
)  # fmt: skip

eval_laguerre: Primitive = ordered(
    "eval_laguerre", [_DEGREE, reals(0.1, 5)], DEGREE, lambda n, x: -eval_genlaguerre(n - 1, 1.0, x)
)

eval_hermite: Primitive = ordered(
    "eval_hermite", [_DEGREE, reals(-2, 2)], DEGREE,
    lambda n, x: 2 * n * eval_hermite(less_one(n), x),
)  # fmt: skip

eval_hermitenorm: Primitive = ordered(
    "eval_hermitenorm", [_DEGREE, reals(-2, 2)], DEGREE,
    lambda n, x: n * eval_hermitenorm(less_one(n), x),
)  # fmt: skip


def _slope_of_lpmv(m: Any, v: Any, x: Any, out: Any) -> Any:
    """The derivative in x, by the degree below; for order 0, this would cancel near the ends."""
    right = select(equal(np.floor(v), v), absolute(x), x)
    end = equal(m, 0) & greater(right, 0.9)
    rest = select(end, 1, (x - 1) * (x + 1))
    below = times(v + m, lpmv(m, v - 1, x))
    return select(end, _slope_of_legendre(v, x), (v * x * out - below) / rest)


lpmv: Primitive = special(
    "lpmv", [whole(0, 3), whole(3, 6), reals(-0.9, 0.9)], DEGREE, DEGREE,
    _slope_of_lpmv,
)  # fmt: skip
