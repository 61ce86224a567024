"""Truncated Taylor series in two variables, whose coefficients are arrays.

They differentiate a series or a continued fraction with respect to its parameters: sums of ``c[i,
j] da**i db**j`` take the place of numbers. The first two axes of an array are the orders;
coefficients beyond them are dropped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Series = Any


def variable(value: Any, orders: tuple[int, int], axis: int) -> Series:
    """The series of ``value + da`` (axis 0) or ``value + db`` (axis 1)."""
    series = constant(value, orders)
    if orders[axis]:
        series[(1, 0) if axis == 0 else (0, 1)] = 1.0
    return series


def constant(value: Any, orders: tuple[int, int]) -> Series:
    series = np.zeros((orders[0] + 1, orders[1] + 1, *np.shape(value)))
    series[0, 0] = value
    return series


def times(x: Series, y: Series) -> Series:
    """The product."""
    out: Series = np.zeros(np.broadcast_shapes(x.shape, y.shape))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(i + 1):
                for m in range(j + 1):
                    out[i, j] += x[k, m] * y[i - k, j - m]
    return out


def over(x: Series, y: Series) -> Series:
    """The quotient."""
    out: Series = np.zeros(np.broadcast_shapes(x.shape, y.shape))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            rest = np.array(np.broadcast_to(x[i, j], out.shape[2:]))
            for k in range(i + 1):
                for m in range(j + 1):
                    if (k, m) != (i, j):
                        rest -= out[k, m] * y[i - k, j - m]
            out[i, j] = rest / y[0, 0]
    return out


def exp(x: Series) -> Series:
    """The exponential, by the equation that its derivative satisfies."""
    out: Series = np.zeros(x.shape)
    out[0, 0] = np.exp(x[0, 0])
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            # i e[i, j] = sum k x[k, m] e[i - k, j - m], or the same along the other axis
            along, order = (0, i) if i else (1, j)
            if order:
                for k in range(i + 1):
                    for m in range(j + 1):
                        weight = (k, m)[along]
                        if weight:
                            out[i, j] += weight * x[k, m] * out[i - k, j - m]
                out[i, j] /= order
    return out
