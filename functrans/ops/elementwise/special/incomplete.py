"""The incomplete gamma and beta functions, their complements and inverses.

References
----------
NIST Digital Library of Mathematical Functions, 8.2, 8.17.
"""

from __future__ import annotations

import math
from typing import Any

from functrans.ir.primitive import Primitive
from functrans.ops.compiled.emission import Emit, by_loops
from functrans.ops.define import on_compiling
from functrans.ops.elementwise.choice import masked
from functrans.ops.elementwise.compare import not_equal
from functrans.ops.elementwise.exponential import exp, log, log1p
from functrans.ops.elementwise.special.entropy import xlog1py, xlogy
from functrans.ops.elementwise.special.gamma import (
    betaln,
    difference_of_polygammas,
    digamma,
    gammaln,
    polygamma,
)
from functrans.ops.elementwise.special.incomplete_series import beta_derivative, gamma_derivative
from functrans.ops.elementwise.special.scipy import (
    computed,
    negative,
    ratio,
    solved_for,
    special,
)
from functrans.ops.samples import reals


def _by_loops(rule: str) -> Emit:
    return by_loops(on_compiling(f"elementwise.compiled.incomplete_{rule}"))


# -- gamma -----------------------------------------------------------------------------------------


def gamma_density(a: Any, x: Any) -> Any:
    """``x**(a - 1) e**-x / gamma(a)``, and 0 for negative ``x``."""
    return exp(xlogy(a - 1, x) - x - gammaln(a))


def _density_by_order(a: Any, x: Any, n: int) -> Any:
    """The n-th derivative in ``a`` of the gamma density: a Bell polynomial of its logarithm's."""
    slopes = [log(x) - digamma(a)]
    slopes += [-polygamma(a, n=k) for k in range(1, n)]
    bell: list[Any] = [1.0]
    for order in range(n):
        bell.append(
            sum(math.comb(order, k) * bell[order - k] * slopes[k] for k in range(order + 1))
        )
    # where the density is 0 its factor may be infinite
    density = gamma_density(a, x)
    return masked(not_equal(density, 0), density * bell[n])


_ORDER_AND_POINT = [reals(0.5, 5), reals(0.1, 9)]

gammainc_n: Primitive = computed(
    "gammainc_n", gamma_derivative, _ORDER_AND_POINT,
    lambda a, x, *, n: gammainc_n(a, x, n=n + 1),
    lambda a, x, *, n: _density_by_order(a, x, n),
    params=[{"n": 1}],
)  # fmt: skip


def gamma_by_order(a: Any, x: Any) -> Any:
    return gammainc_n(a, x, n=1)


_LOWER_GAMMA = gamma_by_order, gamma_density
_UPPER_GAMMA = tuple(map(negative, _LOWER_GAMMA))

gammainc: Primitive = special(
    "gammainc", _ORDER_AND_POINT, *_LOWER_GAMMA, emit=_by_loops("gamma:gammainc")
)
gammaincc: Primitive = special(
    "gammaincc", _ORDER_AND_POINT, *_UPPER_GAMMA, emit=_by_loops("gamma:gammaincc")
)

_ORDER_AND_PROBABILITY = [reals(0.5, 5), reals(0.1, 0.9)]

gammaincinv: Primitive = special(
    "gammaincinv", _ORDER_AND_PROBABILITY, solved_for(1, *_LOWER_GAMMA, quotient=ratio),
    emit=_by_loops("gamma_inverse:gammaincinv"),
)  # fmt: skip
gammainccinv: Primitive = special(
    "gammainccinv", _ORDER_AND_PROBABILITY, solved_for(1, *_UPPER_GAMMA, quotient=ratio),
    emit=_by_loops("gamma_inverse:gammainccinv"),
)  # fmt: skip

# -- beta ------------------------------------------------------------------------------------------


def beta_density(a: Any, b: Any, x: Any) -> Any:
    """``x**(a - 1) (1 - x)**(b - 1) / beta(a, b)``."""
    return exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))


def _density_by_orders(a: Any, b: Any, x: Any, n: int, m: int) -> Any:
    """Derivatives in ``a`` and ``b`` of the beta density, by those of its logarithm."""

    def slope(i: int, j: int) -> Any:
        if i and j:
            return polygamma(a + b, n=i + j - 1)
        if j == 0:
            return difference_of_polygammas(a, b, n=i - 1) + (log(x) if i == 1 else 0)
        return difference_of_polygammas(b, a, n=j - 1) + (log1p(-x) if j == 1 else 0)

    factors: dict[tuple[int, int], Any] = {(0, 0): 1.0}
    for i in range(n + 1):
        for j in range(m + 1):
            if (i, j) != (0, 0):
                factors[i, j] = _leibniz(factors, slope, i, j)
    density = beta_density(a, b, x)
    return masked(not_equal(density, 0), density * factors[n, m])


def _leibniz(factors: dict[tuple[int, int], Any], slope: Any, i: int, j: int) -> Any:
    """A derivative of ``e**f`` divided by ``e**f``, from those of lower orders."""
    one_a, one_b = (1, 0) if i else (0, 1)
    rest_a, rest_b = i - one_a, j - one_b
    return sum(
        math.comb(rest_a, k)
        * math.comb(rest_b, m)
        * slope(k + one_a, m + one_b)
        * factors[rest_a - k, rest_b - m]
        for k in range(rest_a + 1)
        for m in range(rest_b + 1)
    )


_SHAPES_AND_POINT = [reals(0.5, 5), reals(0.5, 5), reals(0.1, 0.9)]

betainc_n: Primitive = computed(
    "betainc_n", beta_derivative, _SHAPES_AND_POINT,
    lambda a, b, x, *, n, m: betainc_n(a, b, x, n=n + 1, m=m),
    lambda a, b, x, *, n, m: betainc_n(a, b, x, n=n, m=m + 1),
    lambda a, b, x, *, n, m: _density_by_orders(a, b, x, n, m),
    params=[{"n": 1, "m": 0}],
)  # fmt: skip


def beta_by_a(a: Any, b: Any, x: Any) -> Any:
    return betainc_n(a, b, x, n=1, m=0)


def beta_by_b(a: Any, b: Any, x: Any) -> Any:
    return betainc_n(a, b, x, n=0, m=1)


LOWER_BETA = beta_by_a, beta_by_b, beta_density
_UPPER_BETA = tuple(map(negative, LOWER_BETA))

betainc: Primitive = special(
    "betainc", _SHAPES_AND_POINT, *LOWER_BETA, emit=_by_loops("beta:betainc")
)
betaincc: Primitive = special(
    "betaincc", _SHAPES_AND_POINT, *_UPPER_BETA, emit=_by_loops("beta:betaincc")
)
betaincinv: Primitive = special(
    "betaincinv", _SHAPES_AND_POINT, solved_for(2, *LOWER_BETA, quotient=ratio),
    emit=_by_loops("beta_inverse:betaincinv"),
)  # fmt: skip
betainccinv: Primitive = special(
    "betainccinv", _SHAPES_AND_POINT, solved_for(2, *_UPPER_BETA, quotient=ratio),
    emit=_by_loops("beta_inverse:betainccinv"),
)  # fmt: skip
