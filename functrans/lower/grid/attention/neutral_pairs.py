"""Neutral pairs: masked pairs, which contribute nothing to sums over pairs.

Expects sums over pairs (`functrans.lower.grid.attention.gradient_matching`). Leaves what has to
hold so that tiles of such pairs may be left out (`functrans.lower.grid.attention.seen_tiles`).

In the gradients of attention, the terms of pairs contain weights, ``exp(score - shift)``. The score
of a masked pair is -inf, so its weight is 0, unless the shift is -inf or NaN. The term is then 0,
too, if its *size* is, which is a bound (`Bounds.size`) in which numbers of a row or of a partner
count as they are, and products of rows and partners as the largest possible ones of operands that
are not too large.
"""

from __future__ import annotations

from functrans.loop.nodes import identity
from functrans.loop.scalar import Scalar, const, convert, eq, postorder, zero
from functrans.loop.simplify import FALSE, TRUE, Simplifier
from functrans.loop.statements import local
from functrans.lower.grid.attention.def_use import Known, folds_in
from functrans.lower.grid.attention.gradient_matching import PairSum, PairSums
from functrans.lower.grid.attention.pairs import PairProduct
from functrans.lower.grid.attention.seen_tiles import LeftOut, masks
from functrans.lower.product.bounds import Bounds, is_exp
from functrans.lower.product.mask import Mask


def neutral_pairs(sums: PairSums, simplify: Simplifier) -> LeftOut | None:
    """The pairs that a mask leaves out, so that they add nothing to any of some sums."""
    known: set[Scalar] = set()
    for mask in masks([each.number for each in sums.sums], sums.pairs):
        if mask.chosen not in known:
            found = _Neutral(sums, mask, simplify).left_out()
            if found is not None:
                return found
        known.add(mask.chosen)
    return None


class _Neutral:
    """The contribution to sums of the pairs that a mask leaves out."""

    def __init__(self, sums: PairSums, mask: Mask, simplify: Simplifier) -> None:
        self.of = sums
        self.mask = mask
        self.simplify = simplify
        self.products: dict[int, None] = {}
        """The numbers of the products on whose size the bound depends."""
        widest = max((each.term.dtype.itemsize for each in sums.products), default=4)
        # the product of two such numbers, and sums of these, are far from overflowing
        self.largest = 2.0**50 if widest < 8 else 2.0**400

    def left_out(self) -> LeftOut | None:
        """The pairs, and the conditions on them; None if no number is known to be 0."""
        at = self.mask.at(self.mask.column, self.simplify)
        numbers = self.simplify.substitute([each.number for each in self.of.sums], at)
        weights = [node for node in postorder(numbers) if _is_weight(node)]
        tests: dict[Scalar, None] = {}
        for node in weights:
            lowest, shift = node.args[0].args
            tests[lowest < shift] = None
        unlike = _unlike(numbers, weights)
        nothing = {node: zero(node.dtype) for node in weights} | unlike
        zeros = {node: const(0, node.dtype) for node in weights} | unlike
        for each, number in zip(self.of.sums, numbers, strict=True):
            if not self._is_neutral(each, self._with(number, nothing)):
                return None
            if each.op == "add":
                size = Bounds(lambda node: not folds_in(node), self._bound).size(
                    self._with(number, zeros)
                )
                if size is None:
                    return None
                tests[self.simplify(eq(size, const(0, size.dtype)))] = None
        if FALSE in tests:
            return None
        values = [each for each in self.of.sums if each.values is not None]
        return LeftOut(
            self.simplify(self.mask.chosen),
            tuple(range(len(values))),
            tuple(test for test in tests if test is not TRUE),
            tuple(self.products),
            self.largest,
        )

    def _with(self, number: Scalar, values: Known) -> Scalar:
        return self.simplify.substitute([number], values)[0]

    def _is_neutral(self, each: PairSum, number: Scalar) -> bool:
        """Whether a number is the neutral element, apart from zeros that may become NaN."""
        if number.op == "zero":
            return each.op == "add"
        neutral = identity(each.op, number.dtype)
        return number.op == "const" and number.attribute == neutral

    def _bound(self, node: Scalar) -> Scalar | None:
        """A bound of a product of operands that are not too large."""
        for number, product in enumerate(self.of.products):
            if product.fold is node:
                self.products[number] = None
                return self._largest(product)
        return None

    def _largest(self, product: PairProduct) -> Scalar | None:
        operands = {each: local(each.dtype) for each in (*product.left, *product.right)}
        (term,) = self.simplify.substitute([product.term], operands)
        unknown = {*operands.values()}
        if product.op != "add" or any(each.dtype.itemsize < 4 for each in (term, *unknown)):
            return None

        def bound(leaf: Scalar) -> Scalar:
            return const(self.largest, leaf.dtype)

        size = Bounds(lambda node: unknown.isdisjoint(postorder([node])), bound).size(term)
        if size is None:
            return None
        size = self.simplify(convert(size * (2.0 * product.terms), product.fold.dtype))
        return size if size.op == "const" and size.attribute < float("inf") else None


def _is_weight(node: Scalar) -> bool:
    """Whether a node is the weight of a score of -inf."""
    if not is_exp(node) or node.args[0].op != "sub":
        return False
    score = node.args[0].args[0]
    return score.op == "const" and score.attribute == float("-inf")


def _unlike(numbers: list[Scalar], weights: list[Scalar]) -> Known:
    """Comparisons of -inf with shifts, which are false, since the tests require other shifts."""
    shifts = {node.args[0].args[1] for node in weights}
    lowest = {node.args[0].args[0] for node in weights}
    return {
        node: FALSE
        for node in postorder(numbers)
        if node.op == "eq" and {*node.args} & lowest and {*node.args} & shifts
    }
