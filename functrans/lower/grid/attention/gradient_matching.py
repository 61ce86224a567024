"""Sums over pairs: pairwise values that are recomputed in each sum, and never stored.

Expects the roots of a program. Finds, around the exponentials of a softmax, all roots that have an
element for each pair of a row and a partner: scores, weights, and the cotangents of both. If they
are read only by each other and by sums, over partners or over rows, then each of these sums can
recompute them from the operands of products, one tile at a time (rematerialisation, as for the
gradients in FlashAttention, Dao et al., 2022). Values with an element for each row, such as the sum
of its weights, remain in memory.

The expressions are not rewritten: sums have the same terms as before, and the value of a pair has
the same bits in each of them, which the derivative of a maximum relies on
(`functrans.loop.contraction`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from math import prod

import numpy as np

from functrans.loop.functions import node_count
from functrans.loop.nodes import index
from functrans.loop.scalar import Scalar, const, convert, postorder
from functrans.loop.statements import local
from functrans.lower.grid.attention.def_use import (
    Among,
    Known,
    Last,
    folds_in,
    is_exponential,
    is_one_expression,
    loads_in,
    loops_at,
    matched,
    position_of,
    require,
    summed_as,
    value_of,
)
from functrans.lower.grid.attention.pairs import (
    PairProduct,
    Pairs,
    Values,
    pair_product,
    told_apart,
)
from functrans.lower.grid.attention.rerolling import rerolled
from functrans.lower.grid.products.recognition import extents
from functrans.lower.select.root import Elements, Root, extent_of
from functrans.records import NamedTuple


class PairSum(NamedTuple):
    """A sum over the partners of each row, or any other fold."""

    root: Root  # the root of the sum
    last: Root  # the root of its result, which may be an epilogue
    partners: tuple[Scalar, ...]  # the loops of pairs over which it sums
    op: str
    number: Scalar  # the term of a pair
    values: Values | None  # the values by which it is multiplied
    sum: Scalar  # the symbol for the sum
    made: Scalar  # the result, in terms of that symbol
    position: tuple[Scalar, ...]  # the position at which it is stored


class PairSums(NamedTuple):
    """Sums over the same partners, which share the products from which they are computed."""

    pairs: Pairs
    products: tuple[PairProduct, ...]
    sums: tuple[PairSum, ...]

    @property
    def work(self) -> int:
        """The number of multiplications for each pair."""
        columns = [extents(each.values.columns) for each in self.sums if each.values is not None]
        return sum(columns) + sum(each.terms for each in self.products)

    @property
    def operations(self) -> int:
        """Roughly the number of operations."""
        nodes = node_count(postorder(each.number for each in self.sums))
        return prod(map(extents, self.pairs)) * (2 * self.work + nodes)

    @property
    def widest(self) -> np.dtype[np.generic]:
        """The widest dtype among the values of pairs."""
        of_sums = (x.dtype for each in self.sums for x in (each.number, each.sum))
        dtypes = [*of_sums, *(each.term.dtype for each in self.products)]
        return max(dtypes, key=lambda dtype: dtype.itemsize)


class PairRoots:
    """The roots with an element for each pair, around exponentials, and the sums over them.

    Raises `Mismatch` if another root depends on the exponentials, or on the values that the sums
    recompute.
    """

    def __init__(self, exponentials: Root, among: Among) -> None:
        self.exponentials = exponentials
        self.among = among
        self.substitute = among.simplify.substitute
        self.loops = exponentials.loops
        self.spaces = self._without_others(self._around())
        """For each root, the loops of pairs to which its own loops correspond."""
        require(exponentials in self.spaces)
        self._values = {root: self._rerolled(root) for root in self.spaces}
        require(bool(folds_in(self._made_again(value_of(exponentials)))))
        readers = {each for root in self.spaces for each in self._readers(root)}
        outside = sorted(readers.difference(self.spaces), key=among.numbers.__getitem__)
        self._results = {root.target for root in outside}
        self.sums = [self._sum(root) for root in outside]  # in the order of the program

    # -- roots with an element for each pair ------------------------------------------------------

    def _around(self) -> dict[Root, Known]:
        spaces: dict[Root, Known] = {self.exponentials: {loop: loop for loop in self.loops}}
        stack = [self.exponentials]
        while stack:
            root = stack.pop()
            found = self._sources(root, spaces[root])
            for reader in self._readers(root):
                space = self._space(reader, root, spaces[root])
                if space is None:
                    continue
                found |= self._sources(reader, space)
                if {*space} == {*reader.loops}:
                    found[reader] = space
            for each, space in found.items():
                if each not in spaces and not is_exponential(each):
                    spaces[each] = space
                    stack.append(each)
        return spaces

    def _readers(self, root: Root) -> Sequence[Root]:
        return self.among.readers.get(root.target, ())

    def _space(self, reader: Root, root: Root, of_root: Known) -> Known | None:
        """The loops of pairs to which the indices correspond, at which another root reads pairs."""
        space: Known = {}
        for element in reader.loads[root.target]:
            for loop, own in loops_at(root, element).items():
                if space.setdefault(own, of_root[loop]) is not of_root[loop]:
                    return None
        is_plain = is_one_expression(reader) and _is_one_to_one(space, self.loops)
        return space if is_plain else None

    def _sources(self, root: Root, space: Known) -> dict[Root, Known]:
        """The roots that a root reads for each pair, at the indices of that pair."""
        found = {}
        for source, elements in root.loads.items():
            maker = self.among.makers.get(source)
            if maker is None:
                continue
            own: Known = {}
            for element in elements:
                for loop, at in loops_at(maker, element).items():
                    if at not in space or own.setdefault(loop, space[at]) is not space[at]:
                        break
                else:
                    continue
                break
            else:
                if {*own} == {*maker.loops} and _is_one_to_one(own, self.loops):
                    found[maker] = own
        return found

    def _without_others(self, spaces: dict[Root, Known]) -> dict[Root, Known]:
        """The same without roots that others need in memory, or that depend on such roots."""
        while True:
            kept = {
                root
                for root in spaces
                if root.output
                or any(not self._is_within(each, root, spaces) for each in self._readers(root))
            }
            if not kept:
                return spaces
            spaces = {root: space for root, space in spaces.items() if root not in kept}

    def _is_within(self, reader: Root, root: Root, spaces: dict[Root, Known]) -> bool:
        """Whether a root computes pairs, or reads them in a fold over some of their loops."""
        if reader in spaces:
            return True
        if not is_one_expression(reader) or len(reader.folds) != 1:
            return False
        inside = {*postorder(reader.folds[0].args[:1])}
        return inside.issuperset(reader.loads[root.target])

    # -- their expressions and their sums ---------------------------------------------------------

    def _rerolled(self, root: Root) -> Scalar:
        value = value_of(root)
        found = None if folds_in(value) else rerolled(value, self.among.simplify)
        return value if found is None else found

    def _made_again(self, expression: Scalar) -> Scalar:
        """An expression in which reads of pairs are replaced by their expressions."""
        while True:
            values = {
                node: self.substitute([self._values[root]], loops_at(root, node))[0]
                for node in loads_in(expression)
                if (root := self.among.makers.get(node.attribute)) in self.spaces
            }
            if not values:
                return expression
            (expression,) = self.substitute([expression], values)

    def shadow(self, each: PairSum) -> Root:
        """The root of a sum that recomputes the pairs itself."""
        root = each.root
        assert isinstance(root, Elements)
        value = self._made_again(value_of(root))
        return replace(root, elements=((position_of(root), value),))

    def _sum(self, root: Root) -> PairSum:
        (fold,) = root.folds
        op, counters = fold.attribute
        space: Known = {}
        for source in root.loads:
            maker = self.among.makers.get(source)
            if maker in self.spaces:
                for element in root.loads[source]:
                    for loop, own in loops_at(maker, element).items():
                        found = self.spaces[maker][loop]
                        require(space.setdefault(own, found) is found)
        require(_is_one_to_one(space, self.loops) and {*space} >= {*counters})
        require({*space} <= {*root.loops, *counters})
        for counter, count in zip(counters, fold.args[1:], strict=True):
            require(count.op == "const" and count.attribute == extent_of(space[counter]))
        partners = tuple(loop for loop in self.loops if loop in {space[each] for each in counters})
        # roots share loops of equal extents, so those of columns may be other roots' loops of pairs
        new = {loop: index(loop.attribute[0], extent_of(loop)) for loop in root.loops}
        columns = tuple(new[loop] for loop in root.loops if loop not in space)
        places = {**new, **space}
        total = local(summed_as(fold.dtype), "sum")
        (made,) = self.substitute([value_of(root)], {fold: convert(total, fold.dtype)})
        require(all(self.among.makers.get(x.attribute) not in self.spaces for x in loads_in(made)))
        term = self._made_again(fold.args[0])
        final, position = root, position_of(root)
        last = self._last(root)
        if last is not None:
            final, position = last.root, last.position
            (made,) = self.substitute([last.value], {last.element: made})
        term, made, *place = self.substitute([term, made, *position], places)
        number, value = _factors(term, {*columns}, self._rows(partners))
        if columns and value is None:
            # the cotangent of a plain sum is the same in all columns
            value = const(1, total.dtype)
        number = matched(number)
        require(op == "add" or not columns)
        require(number.dtype.kind == total.dtype.kind == "f")
        values = None if value is None else Values(value, columns)
        return PairSum(root, final, partners, op, number, values, total, made, tuple(place))

    def _last(self, root: Root) -> Last | None:
        """The elementwise epilogue of a sum, unless it computes pairs or reads other sums."""
        last = self.among.last(root)
        if last is None or last.root in self.spaces:
            return None
        others = {*last.root.loads} - {root.target}
        return last if self._results.isdisjoint(others) else None

    def _rows(self, partners: Sequence[Scalar]) -> Set[Scalar]:
        """The loops of rows: those on which no operand of partners depends."""
        terms = [
            self.substitute([fold.args[0]], space)[0]
            for root, space in self.spaces.items()
            for fold in folds_in(self._values[root])
        ]
        loops = [loop for loop in self.loops if loop not in partners]
        return {*told_apart(loops, partners, terms, ()).rows}

    def grouped(self, sums: Sequence[PairSum]) -> PairSums:
        """Sums over the same partners, with loops of their own."""
        partners = sums[0].partners
        own = {loop: index(loop.attribute[0], extent_of(loop)) for loop in self.loops}
        moved = [self._moved(each, own) for each in sums]
        loops = [own[loop] for loop in self.loops if loop not in partners]
        folds = [*dict.fromkeys(fold for each in moved for fold in folds_in(each.number))]
        terms = [fold.args[0] for fold in folds]
        values = [each.values.value for each in moved if each.values is not None]
        pairs = told_apart(loops, [own[loop] for loop in partners], terms, values)
        products = [pair_product(fold, pairs) for fold in folds]
        for each in products:
            require(each is not None and not folds_in(*each.left, *each.right))
        for value in values:
            require({*postorder([value])}.isdisjoint(pairs.rows))
        return PairSums(pairs, tuple(each for each in products if each is not None), tuple(moved))

    def _moved(self, each: PairSum, own: Known) -> PairSum:
        number, made, *position = self.substitute([each.number, each.made, *each.position], own)
        values = each.values
        if values is not None:
            (value,) = self.substitute([values.value], own)
            values = Values(value, values.columns)
        return each._replace(number=number, made=made, position=tuple(position), values=values)


def _is_one_to_one(space: Known, loops: Sequence[Scalar]) -> bool:
    """Whether the indices are a permutation of the loops."""
    indices = all(own.op == "index" for own in space)
    return indices and len(space) == len(loops) and {*space.values()} == {*loops}


def _factors(
    term: Scalar, columns: Set[Scalar], rows: Set[Scalar]
) -> tuple[Scalar | None, Scalar | None]:
    """The factors of a term that do not depend on columns, and those that do, but not on rows."""
    wide = summed_as(term.dtype)
    if {*postorder([term])}.isdisjoint(columns):
        return convert(term, wide), None
    if _is_of_partners(term, columns, rows):
        return None, convert(term, wide)
    if term.op == "convert" and term.args[0].dtype.kind == "f":
        return _factors(term.args[0], columns, rows)
    require(term.op in ("mul", "div") and term.dtype.kind == "f")
    (number, value), (other, another) = (_factors(each, columns, rows) for each in term.args)
    return _combined(term.op, number, other), _combined(term.op, value, another)


def _is_of_partners(term: Scalar, columns: Set[Scalar], rows: Set[Scalar]) -> bool:
    """Whether a term depends neither on rows nor on values of pairs."""
    loads = loads_in(term)
    of_columns = {node for node in loads if not columns.isdisjoint(postorder(node.args))}
    return not folds_in(term) and rows.isdisjoint(postorder([term], of_columns))


def _combined(op: str, x: Scalar | None, y: Scalar | None) -> Scalar | None:
    """The product or the quotient of the operands that are not None."""
    if y is None:
        return x
    if x is None and op == "mul":
        return y
    x = matched(x)
    return Scalar(op, (x, y), x.dtype)
