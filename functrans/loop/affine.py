"""Analysis of index expressions: strides along a loop, divisibility, ranges."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TypeVar

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer


class Coefficients:
    """The constant factors with which expressions contain a loop index."""

    def __init__(
        self,
        index: Scalar,
        varying: set[Scalar] | None = None,  # locals whose values differ between the iterations
    ) -> None:
        self.index = index
        self.varying = varying if varying is not None else set()
        self._known: dict[Scalar, int | None] = {}

    def of(self, expression: Scalar) -> int | None:
        """The factor; 0 if the index does not occur; None if the expression is not affine in it."""
        if expression not in self._known:
            for node in postorder([expression], known=self._known):
                self._known[node] = self._factor(node)
        return self._known[expression]

    def _factor(self, node: Scalar) -> int | None:
        if node is self.index:
            return 1
        if node.op == "local":
            return None if node in self.varying else 0
        inner = [self._known[arg] for arg in node.args]
        if not any(factor != 0 for factor in inner):
            return 0
        if None in inner or node.dtype.kind != "i":
            return None
        first, *rest = (factor or 0 for factor in inner)
        match node.op:
            case "add":
                return first + rest[0]
            case "sub":
                return first - rest[0]
            case "neg":
                return -first
            case "mul":
                x, y = node.args
                if y.op == "const":
                    return first * int(y.attribute)
                if x.op == "const":
                    return rest[0] * int(x.attribute)
        return None

    def of_element(self, target: Buffer, indices: tuple[Scalar, ...]) -> int | None:
        """The stride of an element in memory, in elements."""
        total = 0
        stride: int | None = 1
        for axis in reversed(range(len(indices))):
            extent, factor = target.shape[axis], self.of(indices[axis])
            if axis == 0 and target.column is not None:
                stride = target.column.pitch
            if factor != 0:
                if factor is None or stride is None:
                    return None
                total += factor * stride
            if stride is not None:
                stride = stride * int(extent.attribute) if extent.op == "const" else None
        return total


def lies_along(operand: Scalar, first: Scalar, second: Scalar) -> bool:
    """Whether more loads are contiguous along the first of two indices than along the second."""
    near = Coefficients(first), Coefficients(second)
    votes = [0, 0]
    for node in postorder([operand]):
        if node.op == "load":
            for number, own in enumerate(near):
                votes[number] += own.of_element(node.attribute, node.args) in (1, -1)
    return votes[0] > votes[1]


# -- divisibility: the largest power of two that always divides an index -----------------------


LARGEST = 1 << 12
"""The largest power of two that is searched for."""


def divisor(
    expression: Scalar,
    # the sizes with which a kernel is called; without them, any
    sizes: Sequence[int] | None = None,
) -> int:
    """The largest power of two, up to `LARGEST`, that is known to divide an int64 expression."""
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


# -- interval arithmetic: the range of an operation, from the ranges of its operands -----------


N = TypeVar("N", int, float)


def interval(op: str, x: tuple[N, N], y: tuple[N, N]) -> tuple[N, N] | None:
    """The least and the greatest result, without wrapping; None if there is no rule for them."""
    (a, b), (c, d) = x, y
    match op:
        case "add":
            return a + c, b + d
        case "sub":
            return a - d, b - c
        case "neg":
            return -b, -a
        case "mul":
            corners = (a * c, a * d, b * c, b * d)
            return min(corners), max(corners)
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case "idiv" if a >= 0 and c == d > 0:
            return a // c, b // c
        case "lshr" if a >= 0 and c == d >= 0:
            return int(a) >> int(c), int(b) >> int(c)
        case "irem" if a >= 0 and c == d > 0:
            return (a, b) if b < c else (0, c - 1)
    return None
