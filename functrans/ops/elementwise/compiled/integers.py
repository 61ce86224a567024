"""Euclid's algorithm and exponentiation by squaring in compiled programs.

The former takes a loop of its own length for each number.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.failures import NEGATIVE_POWER
from functrans.loop.nodes import required
from functrans.loop.scalar import Scalar, const, convert, eq, idiv, irem, ne, unlikely, where
from functrans.loop.statements import Assign, Let, While, local
from functrans.ops.compiled.emission import Emission
from functrans.ops.elementwise.compiled.operands import Made, for_each

STEPS = 10
"""The estimated iterations of such a loop."""


def gcd(at: Emission) -> None:
    for_each(at, lambda x, y: _euclid(_size(x), _size(y)), STEPS)


def lcm(at: Emission) -> None:
    for_each(at, _least_multiple, STEPS)


def _size(x: Scalar) -> Scalar:
    """The absolute value as an unsigned integer, which exists for the least integer too."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return x if x.dtype.kind == "u" else convert(where(x < 0, -x, x), unsigned)


def _euclid(x: Scalar, y: Scalar) -> Made:
    first, second = local(x.dtype, "first"), local(x.dtype, "second")
    rest = irem(first, where(eq(second, 0), 1, second))  # division by 0 traps
    return (
        Let((first, second), (x, y)),
        While((), ne(second, 0), (Assign((first, second), (second, rest)),)),
    ), first


def _least_multiple(x: Scalar, y: Scalar) -> Made:
    x, y = _size(x), _size(y)
    statements, common = _euclid(x, y)
    return statements, idiv(x, where(eq(common, 0), 1, common)) * y


SHORT = 6
"""Exponents of so many bits are usual, and even those wrap around unless the base is tiny."""


def power(x: Scalar, y: Scalar) -> Scalar:
    """Exponentiation by squaring; steps for long exponents are skipped if there are none."""
    bits = 8 * y.dtype.itemsize
    if y.dtype.kind == "i":
        y, bits = required(y >= 0, y, NEGATIVE_POWER), bits - 1
    factor, product = x, const(1, x.dtype)
    short = product
    for bit in range(bits):
        product = where(eq((y >> bit) & 1, 0), product, product * factor)
        factor = factor * factor
        short = product if bit < SHORT else short
    return unlikely(y >= 1 << SHORT, product, short)
