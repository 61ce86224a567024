"""Pairs of rows: values computed from each row and each of its partners, by products of the two.

In attention rows are queries, and partners keys; in its gradient for keys it is the other way
round. A tiled kernel (`functrans.lower.grid.attention.tiles`) does not store pairwise values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from functrans.loop.nodes import identity
from functrans.loop.scalar import Number, Scalar, postorder
from functrans.lower.grid.products.recognition import extents, operands_of


class Pairs(NamedTuple):
    """The loops that pairs have: those that rows and partners both know, and those of each."""

    batch: tuple[Scalar, ...]
    rows: tuple[Scalar, ...]
    partners: tuple[Scalar, ...]


class PairProduct(NamedTuple):
    """A number for each pair: a sum over terms that are made of operands of both.

    Parameters
    ----------
    fold : Scalar
        What stands for it in expressions.
    left, right : tuple of Scalar
        The operands of its terms: of rows, and of partners.
    term : Scalar
        What is summed, made of these.
    """

    fold: Scalar
    left: tuple[Scalar, ...]
    right: tuple[Scalar, ...]
    term: Scalar

    @property
    def counters(self) -> tuple[Scalar, ...]:
        """The indices that are summed over."""
        found: tuple[Scalar, ...] = self.fold.attribute[1]
        return found

    @property
    def op(self) -> str:
        found: str = self.fold.attribute[0]
        return found

    @property
    def terms(self) -> int:
        return extents(self.counters)

    @property
    def start(self) -> Number:
        """The neutral element of a sum."""
        return identity(self.op, self.term.dtype)


class Values(NamedTuple):
    """The weighted operand of a sum over partners: a number for each column of a partner."""

    value: Scalar
    columns: tuple[Scalar, ...]


def told_apart(
    loops: Sequence[Scalar],
    partners: Sequence[Scalar],
    terms: Sequence[Scalar],
    values: Sequence[Scalar],
) -> Pairs:
    """The loops that what is read of partners knows as well are those of a batch.

    Parameters
    ----------
    loops, partners : sequence of Scalar
        Those of results, and those that are summed over.
    terms : sequence of Scalar
        The terms of products.
    values : sequence of Scalar
        What is weighted.
    """
    read = [node for node in postorder(terms) if node.op == "load"]
    near = [node for node in read if not {*postorder(node.args)}.isdisjoint(partners)]
    shared = {*postorder([*near, *values])}
    batch = tuple(loop for loop in loops if loop in shared)
    return Pairs(batch, tuple(loop for loop in loops if loop not in shared), tuple(partners))


def pair_product(fold: Scalar, pairs: Pairs) -> PairProduct | None:
    """A sum as the product of a row's operands and a partner's, if it is one."""
    term, *counts = fold.args
    if any(count.op != "const" for count in counts):
        return None
    found = operands_of(term, {*pairs.rows}, {*pairs.partners})
    if found is None:
        return None
    left, right = found
    return PairProduct(fold, tuple(left), tuple(right), term)
