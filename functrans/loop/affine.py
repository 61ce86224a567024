"""Affine analysis of index expressions: the strides of loads and stores along a loop."""

from __future__ import annotations

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer


class Coefficients:
    """For one loop index, the constant factor with which expressions contain it.

    Parameters
    ----------
    index : Scalar
    varying : set of Scalar
        Locals whose value differs between the iterations.
    """

    def __init__(self, index: Scalar, varying: set[Scalar] | None = None) -> None:
        self.index = index
        self.varying = varying if varying is not None else set()
        self._known: dict[Scalar, int | None] = {}

    def of(self, expression: Scalar) -> int | None:
        """The factor; 0 if the index does not occur; None if it occurs in another way."""
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
        """The stride in memory, counted in elements."""
        total = 0
        stride: int | None = 1
        for extent, position in zip(reversed(target.shape), reversed(indices), strict=True):
            factor = self.of(position)
            if factor != 0:
                if factor is None or stride is None:
                    return None
                total += factor * stride
            if stride is not None:
                stride = stride * int(extent.attribute) if extent.op == "const" else None
        return total
