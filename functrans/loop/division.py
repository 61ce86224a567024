"""Division by a constant without a division, with the same bits."""

from __future__ import annotations

from math import frexp

import numpy as np

from functrans.loop.scalar import Scalar, const, fma


def by_reciprocal(x: Scalar, y: Scalar) -> Scalar | None:
    """``x / y`` by Markstein's theorem: the product with 1 / y, corrected by the exact remainder.

    It is rounded like a division if ``x`` is an integer that was converted, which is finite and has
    no subnormal quotient; and if ``y`` is an integer at least 8 bits shorter than a mantissa, so
    that the exact quotient is farther from the middle of two floats than the error before the last
    rounding. None otherwise. (LLVM multiplies by the reciprocals of powers of two.)
    """
    if x.op != "convert" or x.args[0].dtype.kind not in "iu" or not _is_short_integer(y):
        return None
    inverse = const(y.dtype.type(1) / y.dtype.type(y.attribute), y.dtype)
    quotient = x * inverse
    return fma(fma(-quotient, y, x), inverse, quotient)


def _is_short_integer(y: Scalar) -> bool:
    """Whether a number is a constant and a short integer, but no power of two."""
    if y.op != "const" or y.dtype.itemsize < 4 or abs(frexp(y.attribute)[0]) in (0, 0.5):
        return False
    limit = 2.0 ** (np.finfo(y.dtype).nmant + 1 - 8)
    return abs(y.attribute) <= limit and float(y.attribute).is_integer()
