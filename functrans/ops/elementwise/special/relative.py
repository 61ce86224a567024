"""Derivatives of any order of ``(e**x - 1) / x`` and ``log(1 + x) / x``, smooth at 0.

They are integrals from 0 to 1 of ``t**n e**(t x)`` and ``(-1)**n n! t**n / (1 + t x)**(n + 1)``:
near 0 as power series, elsewhere by the recurrence in ``n`` that integration by parts gives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

TERMS = 90


def exprel_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of ``(e**x - 1) / x``."""
    dtype, x = np.result_type(x), np.asarray(x, np.float64)
    middle = np.clip(x, -20.0, 20.0)
    with np.errstate(all="ignore"):
        # positive terms on either side: on the left e**x is taken out of the integral
        right = sum_of(middle, 1 / (n + 1), lambda k: (n + k) / (k * (n + k + 1)))
        left = np.exp(middle) * sum_of(-middle, 1 / (n + 1), lambda k: 1 / (n + 1 + k))
        near = np.where(x < 0, left, right)
        far = np.expm1(x) / x
        for k in range(1, n + 1):
            far = (np.exp(x) - k * far) / x
        # where there are infinities the recurrence has no limit
        far = np.where(np.isposinf(np.exp(x)), np.inf, np.where(np.isneginf(x), 0.0, far))
    return np.where(np.abs(x) <= 20, near, np.where(np.isnan(x), x, far)).astype(dtype)[()]


def log1prel_derivative(x: Any, *, n: int) -> Any:
    """The n-th derivative of ``log(1 + x) / x``."""
    dtype, x = np.result_type(x), np.asarray(x, np.float64)
    middle = np.where(np.abs(x) <= 0.6, x, 0.0)
    with np.errstate(all="ignore"):
        first = (-1.0) ** n * math.factorial(n) / (n + 1)
        near = sum_of(-middle, first, lambda k: (n + k) ** 2 / (k * (n + k + 1)))
        far = np.log1p(x) / x
        for k in range(1, n + 1):
            # x times the function is log(1 + x)
            of_log = (-1.0) ** (k - 1) * math.factorial(k - 1) / (1 + x) ** k
            far = (of_log - k * far) / x
        far = np.where(np.isposinf(x), 0.0, far)
    return np.where(np.abs(x) <= 0.6, near, far).astype(dtype)[()]


def sum_of(x: Any, first: float, growth: Any) -> Any:
    """A power series by the quotients of its coefficients."""
    total = term = np.full(np.shape(x), first)
    for k in range(1, TERMS):
        term = term * x * growth(k)
        total = total + term
    return total
