"""Legality of skipping masked columns: the run-time test that their terms would change nothing.

`functrans.lower.product.narrowing` describes the conditions under which a row may skip columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from functrans.loop import nodes
from functrans.loop.affine import lies_along
from functrans.loop.nodes import ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, eq, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Reduce, load, local
from functrans.loop.target import Target
from functrans.lower.product.bounds import Bounds
from functrans.lower.product.mask import Columns, Mask
from functrans.lower.product.stream import Stream
from functrans.lower.select.root import Contraction, Elements, Root, extent_of
from functrans.records import dataclass


@dataclass
class Outside:
    """The values of a stream's roots in masked columns, and the tests that these can be skipped."""

    stream: Stream
    mask: Mask
    columns: Columns  # the loops and counters of roots over columns
    target: Target
    simplify: Simplifier
    made: dict[Buffer, Root] = field(default_factory=dict)
    """The roots with elements in each column."""
    largest: list[Reduce] = field(default_factory=list)
    """Roots that compute the largest numbers in factors, by the loops of the stack."""
    _known: dict[Scalar, Scalar] = field(default_factory=dict)

    def tests(self) -> list[Scalar] | None:
        """The conditions that each row tests; None if these cannot be derived."""
        found: list[Scalar] = []
        for root in self.stream.roots:
            own = self._of_product(root) if isinstance(root, Contraction) else self._of_sums(root)
            if own is None:
                return None
            found += own
        return found

    def _of_product(self, root: Contraction) -> list[Scalar] | None:
        _, rows, columns = root.sides
        counter = root.counter
        assert counter is not None
        used = self.columns.get(root)
        if used is None:
            return []
        place, values = counter, dict[Scalar, Scalar]()
        if root.target in self.stream.sums:
            place = index("column", extent_of(self.mask.column))
            values = {rows[-1]: place, counter: self.stream.row}
            if used != {*rows}:
                return None
        elif used == {*columns}:
            self.made[root.target] = root
            return []
        elif used != {counter}:
            return None
        left, right = root.factors
        (left,) = self.simplify.substitute([left], values)
        size = self._size_at(left, place)
        (right,) = self.simplify.substitute([right], values)
        other = self._largest(right, (*columns, values.get(counter, counter)))
        return None if size is None or other is None else [eq(size * other, const(0, size.dtype))]

    def _of_sums(self, root: Elements) -> list[Scalar] | None:
        """The tests of a root's sums over columns, one for each term."""
        columns = self.columns.get(root, frozenset())
        if not columns.isdisjoint(root.loops):
            is_one = len(root.elements) == 1 and root.loops[:-1] == self.stream.around
            self.made[root.target] = root
            return [] if is_one and columns == {root.loops[-1]} else None
        found = []
        for fold in root.folds:
            op, counters = fold.attribute
            if columns.isdisjoint(counters):
                continue
            if len(counters) > 1:
                return None
            test = self._of_sum(op, fold, root)
            if test is None:
                return None
            found.append(test)
        return found

    def _of_sum(self, op: str, fold: Scalar, root: Elements) -> Scalar | None:
        (column,) = fold.attribute[1]
        if op == "add":
            size = self._size_at(fold.args[0], column)
            return None if size is None else eq(size, const(0, size.dtype))
        term = self._outside(fold.args[0], column)
        if [value for _, value in root.elements] != [fold]:
            return None
        (position, _), *_ = root.elements
        result, bounds = load(root.target, position), self._bounds(column)
        if op == "max":
            largest = bounds.upper(term)
            return None if largest is None else largest <= result
        return result <= term if op == "min" and bounds.knows(term) else None

    def _outside(self, expression: Scalar, column: Scalar) -> Scalar:
        """An expression in a masked column."""
        (found,) = self.simplify.substitute([expression], self.mask.at(column, self.simplify))
        made = [x for x in postorder([found]) if x.op == "load" and x.attribute in self.made]
        values = {}
        for node in made:
            root = self.made[node.attribute]
            if not isinstance(root, Contraction):
                assert isinstance(root, Elements)
                ((_, value),) = root.elements
                value = self._outside(value, root.loops[-1])
                if root.loops[-1] in postorder([value]):
                    # unknown, but its magnitude may have a bound
                    (value,) = self.simplify.substitute([value], {root.loops[-1]: column})
                values[node] = value
        return self.simplify.substitute([found], values)[0]

    def _size_at(self, expression: Scalar, column: Scalar) -> Scalar | None:
        return self._bounds(column).size(self._outside(expression, column))

    def _bounds(self, column: Scalar) -> Bounds:
        """Bounds in a masked column, given the numbers of the row."""

        def of_leaf(leaf: Scalar) -> Scalar | None:
            root = self.made.get(leaf.attribute) if leaf.op == "load" else None
            return self._largest_sum(root) if isinstance(root, Contraction) else None

        return Bounds(lambda node: column not in postorder([node]), of_leaf, self.mask.highest)

    def _largest_sum(self, root: Contraction) -> Scalar | None:
        """A bound of a product's elements, doubled to cover rounding errors."""
        _, rows, columns = root.sides
        assert root.counter is not None
        left, right = root.factors
        first = self._largest(left, (*rows, root.counter))
        second = self._largest(right, (*columns, root.counter))
        if first is None or second is None:
            return None
        return first * second * (2.0 * extent_of(root.counter))

    def _largest(self, factor: Scalar, loops: Sequence[Scalar]) -> Scalar | None:
        """The largest magnitude of a factor over these loops; None if there is no bound.

        It is computed once for a matrix, or for each row if the factor is computed in the stream.
        """
        if factor in self._known:
            return self._known[factor]
        if factor.dtype.kind != "f":
            return None
        nodes = postorder([factor])
        if any(node.op == "load" and node.attribute in self.stream.made for node in nodes):
            return self._largest_of_row(factor, [x for x in loops if x is not self.stream.row])
        *outer, first, second = loops
        inner = (second, first) if lies_along(factor, first, second) else (first, second)
        lanes = 4 * self.target.lanes(factor.dtype.itemsize)
        while lanes > extent_of(inner[-1]):
            lanes //= 2
        bounds = tuple((each, ZERO, as_index(extent_of(each))) for each in (*outer, *inner))
        whole = extent_of(inner[-1]) % lanes == 0
        found = local(factor.dtype, "largest")
        self.largest.append(Reduce((found,), ("max",), (abs(factor),), bounds, (), lanes, whole))
        self._known[factor] = found
        return found

    def _largest_of_row(self, factor: Scalar, loops: Sequence[Scalar]) -> Scalar:
        """The largest magnitude of a factor in the tested row, over the other loops."""

        def magnitude(*position: Scalar) -> Scalar:
            values = dict(zip(loops, position, strict=True))
            return abs(self.simplify.substitute([factor], values)[0])

        return self._known.setdefault(
            factor, nodes.fold("max", list(map(extent_of, loops)), magnitude)
        )
