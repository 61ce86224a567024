"""Bounds checks of indices that are not counted from the end: within, counted.

One check of where a window starts replaces checks of all its elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.loop.nodes import INDEX, bounded
from functrans.loop.scalar import Scalar, convert
from functrans.ops.arrays.promotion import unchanged
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import integers


def _refuse(i: Any, extent: int) -> Any:
    wrong = (i < 0) | (i >= extent)
    if np.any(wrong):
        first = np.asarray(i)[wrong].ravel()[0]
        raise IndexError(f"a window that starts at {first} is not within its axis")
    return i


def _checked(i: Scalar, extent: int) -> Scalar:
    return convert(bounded(convert(i, INDEX), extent, "raise below 0"), i.dtype)


within: Primitive = elementwise(
    "within", numpy=_refuse, scalar=_checked,
    jvp=ZERO_DERIVATIVE, promotion=unchanged,
    params=[{"extent": 9}], samples=integers(0, 8),
)  # fmt: skip
"""The operand; the call fails unless it is in ``0 <= i < extent``."""


def _refuse_uncounted(i: Any, extent: int) -> Any:
    if np.any(i < 0):
        raise ValueError("'list' argument must have no negative elements")  # NumPy's words
    if np.any(beyond := i >= extent):
        raise ValueError(
            f"np.bincount counts traced numbers below minlength={extent}, and found "
            f"{np.asarray(i)[beyond].ravel()[0]}: pass a larger minlength, or length=n to leave "
            "larger numbers out"
        )
    return i


counted: Primitive = elementwise(
    "counted", numpy=_refuse_uncounted, scalar=lambda i, extent: i,
    jvp=ZERO_DERIVATIVE, promotion=unchanged,
    params=[{"extent": 9}], samples=integers(0, 8),
)  # fmt: skip
"""The operand, numbers that `numpy.bincount` counts. Compiled, it checks nothing: the addition at
these positions fails, and its evaluation by NumPy finds the words of the error here."""
