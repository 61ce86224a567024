"""Loop-bound narrowing for banded operands: products skip terms with a factor that is zero.

In ``np.tril(a) @ b``, half of the terms are zero: the left factor is ``where(k <= i, a[i, k], 0)``,
which is nonzero only in a *band*, ``i + low <= k <= i + high``. So a tile of the result sums only
the terms in the band of its rows. Zero times infinity is NaN, as in NumPy, so terms are skipped
only if the elements of the other factor are finite, which a nest before the product tests. (An
inspector and an executor, as in `functrans.lower.product.narrowing`.) Skipping zeros changes no
bits: a sum starts at 0.0, and is never -0.0 unless a negative term underflows inside an fma.

If only a band of the result is read, as in ``np.tril(a @ b)``, tiles outside it have no terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from functrans.loop.affine import Coefficients, lies_along
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import BOOL, Scalar, idiv, irem, maximum, minimum, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    Let,
    Reduce,
    Statement,
    Store,
    buffer,
    load,
    local,
)
from functrans.loop.walk import Body
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.linearisation import delinearised
from functrans.lower.product.block import Bounds, iterations
from functrans.lower.product.packing import Operand, Terms
from functrans.lower.select.root import Contraction, Elements, Root, extent_of
from functrans.records import NamedTuple, dataclass


class Band(NamedTuple):
    """The positions from ``line + low`` to ``line + high`` around a line; None is unbounded."""

    low: int | None = None
    high: int | None = None

    def within(self, other: Band) -> Band:
        """The intersection of two bands."""
        low, high = ([x for x in pair if x is not None] for pair in zip(self, other, strict=True))
        return Band(max(low, default=None), min(high, default=None))

    def around(self, other: Band) -> Band:
        """The smallest band that contains both."""
        low, high = ([x for x in pair if x is not None] for pair in zip(self, other, strict=True))
        return Band(min(low) if len(low) == 2 else None, max(high) if len(high) == 2 else None)


ALL = Band()


def band_where(
    condition: Scalar, holds: bool, line: Scalar, place: Scalar, simplify: Simplifier
) -> Band:
    """The band in which a comparison of line and position holds, or not; else unbounded."""
    if condition.op == "and" and holds:
        x, y = (band_where(each, holds, line, place, simplify) for each in condition.args)
        return x.within(y)
    if condition.op == "eq" and holds:
        one, other = condition.args
        return band_where((one <= other) & (other <= one), True, line, place, simplify)
    if condition.op not in ("lt", "le") or None in map(simplify.bounds, condition.args):
        return ALL
    less, greater = condition.args if holds else condition.args[::-1]
    # nonnegative where the condition holds: nothing wraps around
    difference = simplify(greater - less - int((condition.op == "lt") == holds))
    by_line, by_place = (Coefficients(loop).of(difference) for loop in (line, place))
    (rest,) = simplify.substitute([difference], {line: ZERO, place: ZERO})
    if rest.op != "const" or (by_line, by_place) not in ((1, -1), (-1, 1)):
        return ALL
    return Band(high=int(rest.attribute)) if by_line == 1 else Band(low=-int(rest.attribute))


def _band_of(operand: Operand) -> Band:
    """The band of terms in which an operand may be nonzero, by its lines."""
    band, factor = ALL, operand.factor
    while len(operand.loops) == 1 and factor.op in ("where", "guard"):
        condition, *sides = factor.args
        zeros = [x.op == "zero" or (x.op == "const" and x.attribute == 0) for x in sides]
        if zeros not in ([True, False], [False, True]):
            break
        own = band_where(condition, zeros[1], *operand.loops, operand.counter, operand.simplify)
        band, factor = band.within(own), sides[zeros.index(False)]
    return band


def band_read(root: Contraction, readers: Iterable[Root], simplify: Simplifier) -> Band:
    """The band of columns of a result that are read, by rows.

    Of a symmetric result, half is computed in any case.
    """
    found: list[Band] = []
    _, rows, columns = root.sides
    axes = [root.axes[root.loops.index(loop)] for loop in (*rows, *columns)]
    for reader in readers:
        if not isinstance(reader, Elements) or reader.instead:
            return ALL
        places = [x.args[axis] for x in reader.loads[root.target] for axis in axes]
        row, column = places[0], places[-1]
        one = places == [row, column] * len(reader.loads[root.target])
        if not one or row is column or {row.op, column.op} != {"index"}:
            return ALL
        factors = reader.factors if isinstance(reader, Contraction) else ()
        for value in (*factors, *(value for _, value in reader.elements)):
            found += _bands_read(value, root.target, row, column, simplify)
    return ALL if root.output or root.symmetric or not found else reduce(Band.around, found)


def _bands_read(
    value: Scalar, target: Buffer, row: Scalar, column: Scalar, simplify: Simplifier
) -> Iterator[Band]:
    """The bands in which an expression reads a matrix, given all enclosing conditions."""
    stack, seen = [(value, ALL)], set()
    while stack:
        node, band = stack.pop()
        if (node, band) in seen:
            continue
        seen.add((node, band))
        if node.op == "load" and node.attribute is target:
            yield band
        if node.op in ("where", "guard"):
            condition, *sides = node.args
            stack.append((condition, band))
            for side, holds in zip(sides, (True, False), strict=True):
                own = band_where(condition, holds, row, column, simplify)
                stack.append((side, band.within(own)))
        else:
            stack += [(arg, band) for arg in node.args]


class _Side(NamedTuple):
    """An operand with a band."""

    number: int  # 0 if its lines are rows, 1 if they are columns
    band: Band
    other: Operand  # the operand by which its zeros are multiplied
    # whether all elements in each group of the other operand's lines are finite; None if all
    # numbers of the dtype are
    finite: Buffer | None
    lines: int  # the lines of a group

    def look(self, stack: Sequence[Scalar], finite: Buffer) -> Nest:
        """The nest that tests whether groups of the other operand's lines are finite."""
        simplify, count = self.other.simplify, iterations(self.other.loops)
        group, groups = index("group", finite.count), finite.extents[-1]
        matrix, number = (simplify(op(group, groups)) for op in (idiv, irem))
        first, line = simplify(number * self.lines), index("line", self.lines)
        term = index("k", extent_of(self.other.counter))
        own = self.other.at(delinearised(stack, matrix, simplify))
        element = own.element(simplify(first + line), term)
        loops = [
            (line, ZERO, simplify(minimum(count - first, self.lines))),
            (term, ZERO, as_index(extent_of(term))),
        ]
        if lies_along(element, line, term):
            loops.reverse()
        inner, _, stop = loops[-1]
        lanes = 4 * self.other.target.lanes(element.dtype.itemsize)
        while lanes > extent_of(inner):
            lanes //= 2
        whole = stop.op == "const" and int(stop.attribute) % lanes == 0
        all_are, is_finite = local(BOOL, "finite"), abs(element) < float("inf")
        fold = Reduce((all_are,), ("and",), (is_finite,), tuple(loops), lanes=lanes, whole=whole)
        body = (fold, Store(finite, (matrix, number), all_are))
        loop = For(group, ZERO, as_index(finite.count), body, parallel=True)
        return Nest((loop,), ())


@dataclass(frozen=True)
class Bands:
    """The bands of a product."""

    sides: tuple[_Side, ...] = ()  # the operands with a band
    read: Band = ALL  # the band of columns of the result that are read
    stack: tuple[Scalar, ...] = ()  # the loops over a stack

    @property
    def looks(self) -> list[Nest]:
        """The nests that test whether the operands by which zeros are multiplied are finite."""
        return [x.look(self.stack, x.finite) for x in self.sides if x.finite is not None]

    def terms(
        self,
        matrix: Scalar,  # the number of the matrix in the stack
        tile: tuple[Bounds, Bounds],  # the rows and the columns of the tile
        terms: Terms,
        simplify: Simplifier,
    ) -> tuple[Body, Bounds]:
        """The terms that a tile sums, and statements that compute their range."""
        (row, below), (column, behind) = tile
        start, stop = ZERO, terms.length
        found: list[Statement] = []
        for side in self.sides:
            (own, end), (other, _) = tile[side.number], tile[1 - side.number]
            whole, more = as_index(extent_of(side.other.counter)), ZERO
            if side.finite is not None:
                more = local(INDEX, "more")
                finite = load(side.finite, (matrix, simplify(idiv(other, side.lines))))
                found.append(Let((more,), (where(finite, ZERO, whole),)))
            if side.band.low is not None:
                low = minimum(own + side.band.low, whole)
                start = maximum(start, low - terms.start - more)
            if side.band.high is not None:
                high = maximum(end + side.band.high, ZERO)
                stop = minimum(stop, high - terms.start + more)
        if self.read.low is not None:
            stop = where(row + self.read.low < behind, stop, ZERO)
        if self.read.high is not None:
            stop = where(column < below + self.read.high, stop, ZERO)
        return tuple(found), (simplify(start), simplify(stop))


def bands_of(
    # the left operand, whose lines are rows, and the right one, whose lines are columns
    operands: tuple[Operand, Operand],
    lines: tuple[int, int],  # the lines of each operand that are tested together
    stack: tuple[Scalar, ...],
    read: Band,
) -> Bands:
    """The bands of a product."""
    sides = []
    for number, other in enumerate(reversed(operands)):
        band, count = _band_of(operands[number]), iterations(other.loops)
        if band != ALL:
            together = min(lines[1 - number], count)
            finite = buffer("finite", BOOL, (iterations(stack), -(-count // together)))
            is_float = other.factor.dtype.kind == "f"
            sides.append(_Side(number, band, other, finite if is_float else None, together))
    return Bands(tuple(sides), read, stack)
