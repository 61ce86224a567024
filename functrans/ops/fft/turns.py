"""Points on the unit circle, as exact fractions of a turn: what transforms are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.promotion import DtypeKey
from functrans.ops.samples import whole
from functrans.vecmath.turns import turn

COSINE, SINE = 0, 1


def points(numerators: Any, steps: int) -> tuple[Any, Any]:
    """Cosine and sine of ``2 pi numerators / steps`` in extended precision, where there is one.

    Integers are folded onto the first octant, so that zeros, ones and equal numbers come out so.
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


def _point(numerators: Any, *, steps: int, part: int) -> Any:
    return points(np.asarray(numerators, np.int64), steps)[part].astype(np.float64)[()]


def _integers(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    return (np.dtype(np.int64),) * len(keys)


point_p: Primitive = elementwise(
    "point_of_turn",
    numpy=_point,
    jvp=ZERO_DERIVATIVE,
    scalar=lambda numerator, *, steps, part: turn(numerator, steps)[part],
    promotion=_integers,
    result="float64",
    samples=whole(0, 12),
    params={"steps": 12, "part": SINE},
)
"""The cosine or the sine, by ``part``, of so many ``steps`` of a turn: 0 to all of them."""
