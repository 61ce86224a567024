"""The logarithm of the normal distribution function, and its derivatives of any order.

The first derivative is the hazard, the density divided by the probability (the inverse of Mills'
ratio), and each derivative is a polynomial in the argument and the hazard. Far to the left that
cancels, more so for higher orders; there ``log_ndtr(x) + x**2 / 2`` generates the cumulants of a
normal variable of mean ``x`` truncated below 0, whose moments are quotients of positive numbers.

References
----------
NIST Digital Library of Mathematical Functions, 7.18 (repeated integrals of erfc), 3.10 (continued
fractions).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.caches import cached
from functrans.ir.primitive import Primitive
from functrans.ir.types import is_complex
from functrans.lazily import lazy
from functrans.loop import scalar
from functrans.ops.define import primitive
from functrans.ops.elementwise.choice import select, where_of_numbers
from functrans.ops.elementwise.compare import less
from functrans.ops.elementwise.complex_numbers import real
from functrans.ops.elementwise.exponential import exp
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.elementwise.special.faddeeva import wofz
from functrans.ops.samples import cases, reals

FAR = -4.0
"""The argument below which derivatives are computed as cumulants."""

TERMS = 45
"""The terms of the continued fraction, which is accurate to the last bit below `FAR`."""

NOTHING = 50.0
"""The argument beyond which all derivatives round to 0."""

_log_ndtr = lazy("scipy.special:log_ndtr")

Polynomial = dict[tuple[int, int], int]
"""Coefficients, keyed by the powers of the argument and of the hazard."""


@cached(64)
def _polynomial(n: int) -> Polynomial:
    """The n-th derivative: the hazard's own is ``-hazard (x + hazard)``."""
    if n == 1:
        return {(0, 1): 1}
    result: Polynomial = {}
    for (i, j), c in _polynomial(n - 1).items():
        terms = (((i - 1, j), i * c), ((i + 1, j), -j * c), ((i, j + 1), -j * c))
        for powers, term in terms:
            result[powers] = result.get(powers, 0) + term
    return {powers: c for powers, c in result.items() if c}


def _power(x: Any, n: int) -> Any:
    return math.prod([x] * n) if n else 1


def _cumulant(n: int, x: Any) -> Any:
    """The n-th cumulant of the part of a normal variable of mean ``x`` that is above 0."""
    ratio: Any = 0
    ratios = []
    for k in range(TERMS + n, 0, -1):
        ratio = k / (ratio - x)
        ratios.append(ratio)
    moments = [1]
    for ratio in ratios[: -n - 1 : -1]:
        moments.append(moments[-1] * ratio)
    cumulants: list[Any] = [0]
    for k in range(1, n + 1):
        known = (math.comb(k - 1, j - 1) * cumulants[j] * moments[k - j] for j in range(1, k))
        cumulants.append(moments[k] - sum(known))
    return cumulants[n]


def _derivative(n: int, x: Any, exp: Any, log: Any, where: Callable[..., Any]) -> Any:
    """The n-th derivative, for arrays and for Scalars."""
    far = x < FAR
    generated = where(far, x, FAR)
    left = _cumulant(n, generated) - {1: generated, 2: 1}.get(n, 0)
    near = where(far, 0.0, where(x > NOTHING, NOTHING, x))
    hazard = exp(near * near * -0.5 - log(near)) * (1 / math.sqrt(2 * math.pi))
    terms = [c * _power(near, i) * _power(hazard, j) for (i, j), c in _polynomial(n).items()]
    return where(far, left, sum(terms[1:], terms[0]))


def _slope(x: Any, out: Any) -> Any:
    if is_complex(x.dtype):
        # w(i y) = exp(y**2) erfc(y) for y = -x / sqrt(2), on the left, where the exponent cancels
        left = less(real(x), 0)
        scaled = wofz(select(left, x, 0) * complex(0, -math.sqrt(0.5)))
        right = exp(x * x * -0.5 - out) * (1 / math.sqrt(2 * math.pi))
        return select(left, math.sqrt(2 / math.pi) / scaled, right)
    return log_ndtr_derivative(x, n=1)


log_ndtr = elementwise(
    "log_ndtr", numpy=_log_ndtr, scalar=vecmath.log_ndtr,
    jvp=lambda x, out, dx: dx * _slope(x, out),
    samples=reals(-3, 3),
)  # fmt: skip

log_ndtr_derivative: Primitive = primitive(
    "log_ndtr_derivative",
    infer=lambda x, *, n: x.update(),
    numpy=lambda x, *, n: _derivative(n, x, np.exp, _log_ndtr, where_of_numbers),
    jvp=[lambda x, out, dx, *, n: dx * log_ndtr_derivative(x, n=n + 1)],
    batch=lambda operands, axes, *, n: (log_ndtr_derivative(operands[0], n=n), axes[0]),
    scalar=lambda x, *, n: (
        vecmath.normal_hazard(x)
        if n == 1
        else _derivative(n, x, vecmath.exp, vecmath.log_ndtr, scalar.where)
    ),
    elementwise=True,
    samples=cases(
        ((reals(-9, 9), (4,)), {"n": 1}), ((reals(-9, -4), (2, 3)), {"n": 2}),
        ((reals(-2, 3), (5,)), {"n": 2}), ((reals(-9, -5), (3,)), {"n": 3}), ((0, 2), {"n": 1}),
    ),
)  # fmt: skip
