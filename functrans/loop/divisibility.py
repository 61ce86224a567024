"""Divisibility of index expressions: by which power of two an index can be divided, always."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from functrans.loop.scalar import Scalar, postorder

LARGEST = 1 << 12
"""No larger power of two is asked for."""


def divisor(expression: Scalar, sizes: Sequence[int] | None = None) -> int:
    """The largest power of two, up to `LARGEST`, that is known to divide an int64 expression.

    Parameters
    ----------
    expression : Scalar
    sizes : sequence of int, optional
        The sizes that a kernel is called with; without them, any.
    """
    known: dict[Scalar, int] = {}
    for node in postorder([expression]):
        known[node] = _divisor(node, [known[arg] for arg in node.args], sizes)
    return known[expression]


def _divisor(node: Scalar, args: list[int], sizes: Sequence[int] | None) -> int:
    match node.op:
        case "const" if node.dtype.kind in "iu":
            return gcd(int(node.attribute), LARGEST)
        case "size" if sizes is not None:
            return gcd(sizes[node.attribute], LARGEST)
        case "add" | "sub" | "min" | "max":
            return gcd(*args)
        case "neg":
            return args[0]
        case "mul":
            return min(args[0] * args[1], LARGEST)
    return 1
