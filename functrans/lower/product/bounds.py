"""Interval arithmetic on expressions: upper bounds of values and of their magnitudes.

Bounds are expressions in known numbers. Since rounding is monotonic, a bound that is computed by
the same operations in the same order is also valid for the rounded values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from functrans import vecmath
from functrans.caches import cached
from functrans.loop.functions import Function, closed
from functrans.loop.scalar import Scalar, const, convert, postorder, where
from functrans.records import NamedTuple

LOWEST = -1e8
"""Numbers up to this, when added to a score, mask it: -1e9, the least float, or -inf."""

VANISHES = -1000.0
"""The exponential of a smaller number is zero in all dtypes."""


class Bounds(NamedTuple):
    """Bounds of expressions in partially known numbers."""

    # whether all numbers in an expression are known, except those in `highest`
    is_known: Callable[[Scalar], bool]
    # the bound of the magnitude of an unknown number that is loaded or summed; None if there is
    # none
    of_leaf: Callable[[Scalar], Scalar | None]
    # upper bounds of other numbers, whose lower bounds are unknown
    highest: Mapping[Scalar, Scalar] = MappingProxyType({})

    def knows(self, node: Scalar) -> bool:
        """Whether the value of an expression itself can be used."""
        return self.is_known(node) and self.highest.keys().isdisjoint(postorder([node]))

    def size(self, node: Scalar) -> Scalar | None:
        """A bound of the magnitude of an expression; None without a rule."""
        if node.op == "zero":
            # an ordinary multiplication, which turns 0 times infinity into NaN
            return const(0, node.dtype)
        if self.knows(node):
            return abs(node) if node.dtype.kind in "fi" else node
        if node.dtype.kind != "f" or node in self.highest:
            return None
        if node.op in ("load", "local", "fold"):
            return self.of_leaf(node)
        if node.op == "where":
            return self._size_of_choice(node)
        if is_exp(node):
            return self._size_of_exp(node)
        if node.op == "convert" and node.args[0].op == "eq":
            differ = self._differ(node.args[0])
            return None if differ is None else where(differ, const(0, node.dtype), 1.0)
        if node.op == "div" and not self.knows(node.args[1]):
            return None
        args = [self.size(arg) for arg in node.args]
        if None in args or not args:
            return None
        first, *rest = (arg for arg in args if arg is not None)
        match node.op:
            case "add" | "sub":
                return first + rest[0]
            case "mul":
                return first * rest[0]
            case "div":
                return first / rest[0]
            case "neg":
                return first
            case "convert" if _is_widened(node):
                return convert(first, node.dtype)
        return None

    def upper(self, node: Scalar) -> Scalar | None:
        """An upper bound of an expression; None without a rule."""
        if node in self.highest:
            return self.highest[node]
        if self.knows(node):
            return node
        match node.op, node.args:
            case "add", (left, right):
                first, second = self.upper(left), self.upper(right)
                return None if first is None or second is None else first + second
            case "sub", (left, right) if self.knows(right):
                bound = self.upper(left)
                return None if bound is None else bound - right
            case "mul" | "div", (left, right) if right.op == "const" and right.attribute > 0:
                bound = self.upper(left)
                return bound if bound is None else Scalar(node.op, (bound, right), node.dtype)
            case "convert", (inner,) if _is_widened(node):
                bound = self.upper(inner)
                return None if bound is None else convert(bound, node.dtype)
        return self.size(node)

    def _size_of_choice(self, node: Scalar) -> Scalar | None:
        condition, *sides = node.args
        first, second = map(self.size, sides)
        if first is None or second is None:
            return None
        if self.knows(condition):
            return where(condition, first, second)
        differ = self._differ(condition)
        return first + second if differ is None else where(differ, second, first + second)

    def _size_of_exp(self, node: Scalar) -> Scalar | None:
        """Zero, if a masking number is added to the exponent; otherwise there is no bound."""
        inside = postorder(node.args)
        hides = any(
            x.op == "const" and x.dtype.kind == "f" and x.attribute <= LOWEST for x in inside
        )
        if not hides and self.highest.keys().isdisjoint(inside):
            return None
        exponent = self.upper(node.args[0])
        if exponent is None:
            return None
        return where(exponent < VANISHES, const(0, node.dtype), float("inf"))

    def _differ(self, condition: Scalar) -> Scalar | None:
        """A condition that implies that two compared numbers differ; None without a rule."""
        if condition.op != "eq" or not self.knows(condition.args[1]):
            return None
        left, right = condition.args
        bound = self.upper(left) if left.dtype.kind == "f" else None
        return None if bound is None else bound < right


def is_exp(node: Scalar) -> bool:
    """Whether an expression is an exponential."""
    return node.op == "apply" and _is_exp(node.attribute)


@cached(16)
def _is_exp(function: Function) -> bool:
    if len(function.parameters) != 1 or function.parameters[0].dtype.kind != "f":
        return False
    return function.result is closed(vecmath.exp(*function.parameters))


def _is_widened(node: Scalar) -> bool:
    (inner,) = node.args
    return inner.dtype.kind == "f" and inner.dtype.itemsize <= node.dtype.itemsize
