"""Minimax polynomials: how the coefficient tables of `functrans.vecmath` were made.

`minimax` is Remez's exchange algorithm in multiple precision, for a polynomial times a weight.
`fit` also rounds the coefficients to the working format: one at a time, from the lowest, fitting
the others again to what is left, so that the rounding of a coefficient is absorbed by the next.

The fits themselves are listed in `tests/vecmath/fits.py`.

References
----------
E. Remez, "Sur la détermination des polynômes d'approximation de degré donnée" (1934).
J.-M. Muller, Elementary Functions, 3rd ed. (2016), chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mpmath as mp
import numpy as np

Function = Callable[[mp.mpf], mp.mpf]

GRID = 1201  # odd: the centre, where a relative error may be 0/0, is not a point of the grid


def minimax(
    target: Function, weight: Function, powers: Sequence[int], low: mp.mpf, high: mp.mpf
) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients of ``sum c[i] x**powers[i]`` with the least ``max |weight * (sum - target)|``.

    Returns the coefficients and that maximum.
    """
    count = len(powers)
    angles = [mp.pi * k / GRID for k in range(GRID + 1)]
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(angle) for angle in angles]
    values = [target(x) for x in points]
    weights = [weight(x) for x in points]
    reference = [round(k * GRID / count) for k in range(count + 1)]
    coefficients: list[mp.mpf] = []
    worst = mp.mpf(0)
    for _ in range(12):
        matrix = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, k in enumerate(reference):
            for column, power in enumerate(powers):
                matrix[row, column] = points[k] ** power
            matrix[row, count] = (-1) ** row / weights[k]
            right[row] = values[k]
        *coefficients, level = list(mp.lu_solve(matrix, right))
        errors = [
            w * (_value(coefficients, powers, x) - v)
            for x, v, w in zip(points, values, weights, strict=True)
        ]
        worst = max(abs(e) for e in errors)
        if worst <= abs(level) * 1.01:
            break
        reference = _alternating_extrema(errors, count + 1)
    return coefficients, worst


def _value(coefficients: Sequence[mp.mpf], powers: Sequence[int], x: mp.mpf) -> mp.mpf:
    return mp.fsum(c * x**p for c, p in zip(coefficients, powers, strict=True))


def _alternating_extrema(errors: list[mp.mpf], count: int) -> list[int]:
    """The extremum of each run of one sign; too many runs lose the lesser end."""
    extrema: list[int] = []
    for k, error in enumerate(errors):
        if extrema and (errors[extrema[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[extrema[-1]]):
                extrema[-1] = k
        else:
            extrema.append(k)
    while len(extrema) > count:
        extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
    if len(extrema) < count:
        raise ArithmeticError("the error does not alternate: more digits, or a lower degree")
    return extrema


def fit(
    target: Function,
    powers: Sequence[int],
    low: float,
    high: float,
    dtype: type[np.floating] = np.float64,
    relative_to: Function | None = None,
    fixed: dict[int, float] | None = None,
    rounded: int = 2,
) -> tuple[list[float], float]:
    """Rounded coefficients for `powers`, lowest first, and the largest error.

    Parameters
    ----------
    relative_to
        The error is measured relative to this function; to `target` if absent.
    fixed
        Coefficients that are given, by power.
    rounded
        How many of the lowest coefficients are rounded before the others are fitted again.
    """
    scale = relative_to or target
    done = {p: mp.mpf(c) for p, c in (fixed or {}).items()}
    free = [p for p in powers if p not in done]
    worst = mp.mpf(0)
    for step in range(min(rounded, len(free)) + 1):
        known = dict(done)

        def rest(x: mp.mpf, known: dict[int, mp.mpf] = known) -> mp.mpf:
            return target(x) - mp.fsum(c * x**p for p, c in known.items())

        coefficients, worst = minimax(
            rest, lambda x: 1 / abs(scale(x)), free, mp.mpf(low), mp.mpf(high)
        )
        keep = 1 if step < min(rounded, len(free)) else len(free)
        for power, c in zip(free[:keep], coefficients[:keep], strict=True):
            # through a string: mpf -> float32 by way of float would round twice
            done[power] = mp.mpf(float(dtype(mp.nstr(c, 40))))
        free = free[keep:]
        if not free:
            break
    return [float(done[p]) for p in powers], float(worst)
