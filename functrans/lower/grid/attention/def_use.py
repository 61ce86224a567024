"""Def-use chains of roots; inlining of roots that are one expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TypeVar

import numpy as np

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer
from functrans.lower.grid.products.recognition import HALF
from functrans.lower.product.bounds import is_exp
from functrans.lower.select.root import Elements, Root, readers_of
from functrans.records import NamedTuple

Known = dict[Scalar, Scalar]

T = TypeVar("T")


class Mismatch(Exception):
    """The pattern does not match."""


def require(condition: bool) -> None:
    if not condition:
        raise Mismatch


def matched(x: T | None) -> T:
    """A part of the pattern, if there is one."""
    if x is None:
        raise Mismatch
    return x


class Last(NamedTuple):
    """A root that iterates over the elements of another one, with the loops of that one."""

    root: Root
    value: Scalar  # the value that is computed
    element: Scalar  # the element of which it is computed
    position: tuple[Scalar, ...]  # where it is stored


class Among:
    """The roots of a program, by the buffers that they compute and read."""

    def __init__(
        self,
        roots: Sequence[Root],
        simplify: Simplifier,
        cheap: int,  # the most nodes that are recomputed and not stored
    ) -> None:
        self.numbers = {root: number for number, root in enumerate(roots)}
        self.simplify = simplify
        self.cheap = cheap
        self.readers = readers_of(roots)
        self.makers: dict[Buffer, Root] = {}
        for root in roots:
            if is_one_expression(root):
                self.makers[root.target] = root

    def last(self, root: Root) -> Last | None:
        """The chain of elementwise readers of a root, if it has no others: the last of them."""
        readers = self.readers.get(root.target, ())
        if root.output or len(readers) != 1:
            return None
        (last,) = readers
        if not is_one_expression(last) or last.folds:
            return None
        element, *others = last.loads[root.target]
        at = loops_at(root, element)
        if others or not are_loops(at, {*last.loops}) or len(at) != len(last.loops):
            return None
        own = {here: there for there, here in at.items()}
        value, element, *position = self.simplify.substitute(
            [value_of(last), element, *position_of(last)], own
        )
        return Last(last, value, element, tuple(position))

    def expressions(self, read: Mapping[Scalar, Root]) -> Known:
        """Elements that are read, as the expressions of the roots that make them."""
        return {
            node: self.simplify.substitute([value_of(root)], loops_at(root, node))[0]
            for node, root in read.items()
        }


def is_one_expression(root: Root) -> bool:
    return isinstance(root, Elements) and not root.part and len(root.elements) == 1


def value_of(root: Root) -> Scalar:
    assert isinstance(root, Elements)
    ((_, value),) = root.elements
    return value


def position_of(root: Root) -> tuple[Scalar, ...]:
    assert isinstance(root, Elements)
    ((position, _),) = root.elements
    return position


def loops_at(root: Root, element: Scalar) -> Known:
    """The loops of a root where an element of it is read."""
    assert isinstance(root, Elements)
    return {loop: element.args[axis] for loop, axis in zip(root.loops, root.axes, strict=True)}


def are_loops(at: Known, loops: Set[Scalar]) -> bool:
    """Whether an element is read at some of the loops, each along one axis."""
    return {*at.values()} <= loops and len({*at.values()}) == len(at)


def loads_in(*expressions: Scalar) -> list[Scalar]:
    return [node for node in postorder(expressions) if node.op == "load"]


def folds_in(*expressions: Scalar) -> list[Scalar]:
    return [node for node in postorder(expressions) if node.op == "fold"]


def is_exponential(root: Root) -> bool:
    """Whether a root is the exponential of a difference, element by element."""
    if not is_one_expression(root):
        return False
    value = value_of(root)
    return is_exp(value) and value.args[0].op == "sub"


def summed_as(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype of the accumulator of a sum."""
    return np.dtype(np.float32) if dtype == HALF else dtype
