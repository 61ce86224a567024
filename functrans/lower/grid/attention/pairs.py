"""Pairwise values: one for each row and each of its partners, computed from products of the two.

In attention, rows are queries, and partners are keys; in the gradient with respect to keys, it is
the other way round. A tiled kernel (`functrans.lower.grid.attention.tiles`) does not store values
of pairs in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.nodes import identity
from functrans.loop.scalar import Number, Scalar, postorder
from functrans.lower.grid.products.recognition import extents, operands_of
from functrans.records import NamedTuple


class Pairs(NamedTuple):
    """The loops of pairs: those of the batch, which rows and partners share, and those of each."""

    batch: tuple[Scalar, ...]
    rows: tuple[Scalar, ...]
    partners: tuple[Scalar, ...]


class PairProduct(NamedTuple):
    """A product for each pair: a sum over terms with operands of the row and of the partner."""

    fold: Scalar  # the fold that stands for it in expressions
    left: tuple[Scalar, ...]  # the operands of its terms that belong to rows
    right: tuple[Scalar, ...]  # those that belong to partners
    term: Scalar  # the term that is summed, in terms of these

    @property
    def counters(self) -> tuple[Scalar, ...]:
        """The indices that are summed over."""
        return self.fold.attribute[1]

    @property
    def op(self) -> str:
        return self.fold.attribute[0]

    @property
    def terms(self) -> int:
        return extents(self.counters)

    @property
    def start(self) -> Number:
        """The neutral element of a sum."""
        return identity(self.op, self.term.dtype)


class Values(NamedTuple):
    """The weighted values in a sum over partners: an element for each column of a partner."""

    value: Scalar
    columns: tuple[Scalar, ...]


def told_apart(
    loops: Sequence[Scalar],  # the loops of results
    partners: Sequence[Scalar],  # the loops that are summed over
    terms: Sequence[Scalar],  # the terms of products
    values: Sequence[Scalar],  # the weighted values
) -> Pairs:
    """The loops of pairs; on those of the batch, operands of partners depend, too."""
    read = [node for node in postorder(terms) if node.op == "load"]
    near = [node for node in read if not {*postorder(node.args)}.isdisjoint(partners)]
    shared = {*postorder([*near, *values])}
    batch = tuple(loop for loop in loops if loop in shared)
    return Pairs(batch, tuple(loop for loop in loops if loop not in shared), tuple(partners))


def pair_product(fold: Scalar, pairs: Pairs) -> PairProduct | None:
    """A sum as the product of a row's operands and a partner's; None if it is not one."""
    term, *counts = fold.args
    if any(count.op != "const" for count in counts):
        return None
    found = operands_of(term, {*pairs.rows}, {*pairs.partners})
    if found is None:
        return None
    left, right = found
    return PairProduct(fold, tuple(left), tuple(right), term)
