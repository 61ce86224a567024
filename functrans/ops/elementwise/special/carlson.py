"""Integrals of products of half-integral powers from 0 to infinity, by the trapezoidal rule.

In the logarithm of the variable the integrand decays exponentially at both ends, and is analytic in
a strip as wide as pi: the rule converges exponentially, whatever the scales of the operands.

References
----------
L. N. Trefethen and J. A. C. Weideman, "The exponentially convergent trapezoidal rule" (2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np

NODES = 512
FAR_NODES = 8 * NODES
FAR = 100.0
"""The difference of logarithms of the operands from which on the nodes are too sparse."""
CHUNK = 1024
DECAY = 78.0
"""The difference of logarithms beyond which the square root of the variable has no digits left."""


def symmetric_integral(*operands: Any, powers: tuple[int, ...], moment: int) -> Any:
    """The integral of ``t**moment prod (t + x_i)**(-powers_i / 2)`` over positive ``t``."""
    dtype = np.result_type(*operands)
    xs = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in operands))
    used = [(x, p) for x, p in zip(xs, powers, strict=True) if p]
    flat = np.array([x.ravel() for x, _ in used])
    half_powers = np.array([-0.5 * p for _, p in used])
    pieces = [
        _trapezoidal(flat[:, start : start + CHUNK], half_powers, moment)
        for start in range(0, flat.shape[1], CHUNK)
    ]
    result = np.concatenate([np.zeros(0), *pieces]).reshape(xs[0].shape)
    return result.astype(dtype)[()]


def _trapezoidal(xs: Any, half_powers: Any, moment: int) -> Any:
    with np.errstate(all="ignore"):
        sizes = np.where(xs > 0, np.log(np.where(xs > 0, xs, 1)), np.nan)
        lowest, highest = np.fmin.reduce(sizes), np.fmax.reduce(sizes)
        far = highest - lowest > FAR
        total = np.empty(xs.shape[1])
        for which, nodes in ((~far, NODES), (far, FAR_NODES)):
            if which.any():
                ends = lowest[which] - DECAY, highest[which] + DECAY
                total[which] = _sum_over(xs[:, which], ends, half_powers, moment, nodes)
        return np.where((xs < 0).any(0), np.nan, total)


def _sum_over(xs: Any, ends: Any, half_powers: Any, moment: int, nodes: int) -> Any:
    step = (ends[1] - ends[0]) / nodes
    t = np.exp(ends[0] + np.arange(nodes + 1)[:, None] * step)
    terms = t ** (moment + 1.0)
    for x, power in zip(xs, half_powers, strict=True):
        terms = terms * (t + x) ** power
    return terms.sum(0) * step
