"""Value range analysis: interval arithmetic on numbers that are computed from integers.

A range is the least and the greatest value that an expression can have. It is exact: rounding is
monotone, so that the ends of a range are rounded as the number itself is. An expression has none if
it may be NaN or infinite, or if nothing is known of its operands: most floats, which are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np

from functrans.loop.nodes import INDEX
from functrans.loop.scalar import OPERATIONS, Scalar

Interval = tuple[float, float]
"""Of Python's numbers: floats, or integers for an integer dtype."""

DEEPEST = 24
"""The most operations, one on the other, that are looked through."""

_MONOTONE = frozenset({"add", "sub", "mul", "neg", "fma", "min", "max", "sqrt"})
"""Operations of floats whose extreme results are those of extreme operands."""


class Ranges:
    """The ranges of expressions."""

    def __init__(
        self,
        # the range of an expression that is an index
        of_index: Callable[[Scalar], tuple[int, int] | None],
        known: Mapping[Scalar, Interval] | None = None,  # ranges of leaves
    ) -> None:
        self.of_index = of_index
        self._known: dict[Scalar, Interval | None] = dict(known or {})

    def __call__(self, node: Scalar, depth: int = DEEPEST) -> Interval | None:
        """The least and the greatest value, or None if they are not known."""
        if node.dtype == INDEX:
            return self.of_index(node)
        if node not in self._known and depth:
            self._known[node] = self._range_of(node, depth - 1)
        return self._known.get(node)

    def may_be_zeros(self, x: Scalar, y: Scalar) -> bool:
        """Whether both numbers may be zero, the signs of which are not known."""
        return all(found is None or found[0] <= 0 <= found[1] for found in map(self, (x, y)))

    def _range_of(self, node: Scalar, depth: int) -> Interval | None:
        kind = node.dtype.kind
        if node.op in ("const", "zero") and kind in "iuf":
            value = node.attribute or 0
            return (value, value) if np.isfinite(value) else None
        if kind in "iu":
            return self._integer(node, depth)
        if kind != "f" or node.dtype.itemsize < 4:
            return None
        if node.op == "convert":
            return self._rounded(node, self(node.args[0], depth))
        if node.op == "abs":
            inside = self(node.args[0], depth)
            return inside and (max(inside[0], -inside[1], 0), max(-inside[0], inside[1]))
        if node.op not in _MONOTONE:
            return None
        operands: list[Interval] = []
        for each in node.args:
            found = self(each, depth)
            if found is None:
                return None
            operands.append(found)
        if node.op == "sqrt" and operands[0][0] < 0:
            return None
        corners = [np.array(ends, node.dtype) for ends in zip(*product(*operands), strict=True)]
        with np.errstate(all="ignore"):
            values = OPERATIONS[node.op].meaning(*corners)
        least = np.finfo(node.dtype).smallest_normal
        if not np.isfinite(values).all() or ((values != 0) & (abs(values) < least)).any():
            return None  # a subnormal result of `fma` is rounded twice here
        return float(values.min()), float(values.max())

    def _integer(self, node: Scalar, depth: int) -> Interval:
        """The range of an integer that may wrap: that of its dtype, if nothing else is known."""
        bounds = np.iinfo(node.dtype)
        least, greatest = int(bounds.min), int(bounds.max)
        if node.op in ("lshr", "shr") and node.args[1].op == "const":
            bits = int(node.args[1].attribute)
            if bits >= 8 * node.dtype.itemsize:
                return least, greatest
            low, high = self(node.args[0], depth) or (least, greatest)
            if node.op == "shr" or low >= 0:
                return int(low) >> bits, int(high) >> bits
            return (0, (greatest - least) >> bits) if bits else (least, greatest)
        if node.op == "and":
            masks = [int(x.attribute) for x in node.args if x.op == "const" and x.attribute >= 0]
            return (0, min(masks)) if masks else (least, greatest)
        return least, greatest

    def _rounded(self, node: Scalar, inside: Interval | None) -> Interval | None:
        if inside is None or node.args[0].dtype.kind not in "iuf":
            return None
        ends = np.array(inside).astype(node.dtype)
        return (float(ends[0]), float(ends[1])) if np.isfinite(ends).all() else None
