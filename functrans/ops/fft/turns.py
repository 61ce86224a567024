"""Roots of unity as exact fractions of a turn, from which Fourier transforms are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ir.types import Aval
from functrans.loop.scalar import irem
from functrans.ops.define import primitive
from functrans.ops.samples import cases
from functrans.vecmath.turns import turn

COSINE, SINE = 0, 1

LARGEST = 1 << 50
"""The greatest number of steps of a turn that are distinguished."""


def points(numerators: Any, steps: int) -> tuple[Any, Any]:
    """Cosine and sine of ``2 pi numerators / steps`` in extended precision, where there is one.

    Angles are reduced to the first octant in integers, so that zeros, ones and equal values are
    exact.
    """
    half = np.minimum(numerators, steps - numerators)
    quarter = np.minimum(4 * half, 2 * steps - 4 * half)
    eighth = np.minimum(quarter, steps - quarter)
    angle = eighth.astype(np.longdouble) / steps * (2 * np.arctan(np.longdouble(1)))
    near_one, near_zero = np.cos(angle), np.sin(angle)
    is_steep = eighth < quarter
    cosine = np.where(is_steep, near_zero, near_one) * np.where(quarter < 4 * half, -1, 1)
    sine = np.where(is_steep, near_one, near_zero) * np.where(half < numerators, -1, 1)
    return cosine, sine


def _infer(*, size: int, steps: int, part: int) -> Aval:
    if not (0 <= size <= steps + 1 and 0 < steps <= LARGEST and part in (COSINE, SINE)):
        raise ShapeError(f"of a turn of {steps} steps there are not {size} points")
    return Aval((size,), np.dtype(np.float64))


turns_p: Primitive = primitive(
    "turns",
    infer=_infer,
    numpy=lambda *, size, steps, part: points(np.arange(size), steps)[part].astype(np.float64),
    jvp=ZERO_DERIVATIVE,
    pull=lambda read, index, *, size, steps, part: turn(index[0], steps)[part],
    samples=cases(
        ({"size": 13, "steps": 12, "part": COSINE},), ({"size": 4, "steps": 7, "part": SINE},)
    ),
)
"""Cosines or sines, by ``part``, of the first multiples of a turn divided by ``steps``."""


def _infer_chirp(*, size: int, part: int) -> Aval:
    if not (0 < size <= LARGEST_CHIRP and part in (COSINE, SINE)):
        raise ShapeError(f"there is no chirp of {size} points")
    return Aval((size,), np.dtype(np.float64))


def _chirp(*, size: int, part: int) -> Any:
    k = np.arange(size, dtype=np.int64)
    return points(k * k % (2 * size), 2 * size)[part].astype(np.float64)


def _pull_chirp(read: Any, index: Any, *, size: int, part: int) -> Any:
    k = index[0]
    return turn(irem(k * k, 2 * size), 2 * size)[part]


LARGEST_CHIRP = 1 << 24
"""The greatest number of points: their squares are whole numbers that are exact."""

chirp_p: Primitive = primitive(
    "chirp",
    infer=_infer_chirp,
    numpy=_chirp,
    jvp=ZERO_DERIVATIVE,
    pull=_pull_chirp,
    samples=cases(({"size": 13, "part": COSINE},), ({"size": 17, "part": SINE},)),
)
"""Cosines or sines, by ``part``, of half a turn times the squares of numbers divided by ``size``
(a chirp, whose frequency grows linearly)."""
