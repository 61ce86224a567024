"""Tiled products of matrices: a team computes a tile, from tiles of the operands in shared memory.

Expects a nest of a product (`functrans.lower.select.products`) and of what is computed of its
elements one by one. Leaves the kernel of a team, whose band goes over the tiles of the result:

    for each tile of the result, by a team:
        tiles of both operands, for the first terms
        for each stretch of terms:
            each thread: the operands' elements for the next stretch, into registers
                         this stretch's terms, added to the thread's sums, which are registers
                         what is in registers, into the other tiles
        each thread: its elements of the result

(Register tiling, software pipelining and double buffering, as in the matrix products of libraries.)
Operands are computed where they are loaded, so they may be expressions, of arrays in any order;
what is computed of the sums is computed with them in registers. Beyond the edges there are zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, ZERO, as_index, guard, identity, index
from functrans.loop.scalar import Scalar, const, convert, postorder, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    If,
    Let,
    Statement,
    Store,
    buffer,
    load,
    local,
)
from functrans.loop.target import Target
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fusion import Loop
from functrans.lower.select.products import Product, count_of, extents, product_of
from functrans.lower.select.root import Root

Values = dict[Scalar, Scalar]


def tiled_product(
    loop: Loop, readers: Mapping[Buffer, Sequence[Root]], target: Target, simplify: Simplifier
) -> Nest | None:
    """The kernel of a nest that begins with a product; None if it does not.

    Parameters
    ----------
    loop : Loop
    readers : dict
        All roots that read a buffer.
    target : Target
    simplify : Simplifier
    """
    roots = list(loop.roots)
    product = product_of(roots[0], target)
    if product is None or not _read_in_place(roots):
        return None
    kept = [
        root
        for root in roots
        if root.output or any(each not in loop.roots for each in readers.get(root.target, ()))
    ]
    return _Tiling(product, roots, kept, simplify).nest()


def _read_in_place(roots: Sequence[Root]) -> bool:
    """Whether roots read of those before only the element at their own indices.

    Such as share a loop over a stack alone may read a matrix across.
    """
    places: dict[Buffer, tuple[Scalar, ...]] = {}
    for root in roots:
        for position, value in root.elements:
            for node in postorder([value]):
                if node.op == "load" and places.get(node.attribute, node.args) != node.args:
                    return False
            places[root.target] = position
    return True


class _Side:
    """One operand: its loops, the block of them that a team has, and its tile in shared memory.

    Parameters
    ----------
    label : str
    loops : tuple of Scalar
    length : int
        How many rows, or columns, a tile has.
    operands : tuple of Scalar
        What is loaded, as expressions of the loops.
    product : Product
    """

    def __init__(
        self,
        label: str,
        loops: tuple[Scalar, ...],
        length: int,
        operands: tuple[Scalar, ...],
        product: Product,
    ) -> None:
        tile = product.tile
        self.loops = loops
        self.length = length
        self.extent = extents(loops)
        self.operands = operands
        self.block = index(f"{label}_block", -(-self.extent // length))
        self.rows = [
            buffer(f"{label}_tile", each.dtype, (2, tile.depth, length + tile.padding))
            for each in operands
        ]
        self.sums_are_near = [_reads_along(each, product.counters, loops) for each in operands]

    def number(self, within: Scalar) -> Scalar:
        """Which row, or column, of the result one of the tile is."""
        return self.block * self.length + within


class _Place(NamedTuple):
    """A row or column of the result: names of its indices, and whether it is one."""

    known: Values
    declared: Let
    inside: Scalar


class _Tiling:
    """Makes the statements of a tiled product.

    Parameters
    ----------
    product : Product
    roots : sequence of Root
        The product's, and those that are computed of its elements.
    kept : sequence of Root
        Those that are stored.
    simplify : Simplifier
    """

    def __init__(
        self, product: Product, roots: Sequence[Root], kept: Sequence[Root], simplify: Simplifier
    ) -> None:
        self.product = product
        self.tile = tile = product.tile
        self.roots = roots
        self.kept = kept
        self.simplify = simplify
        self.left = _Side("row", product.rows, tile.rows, product.left, product)
        self.right = _Side("column", product.columns, tile.columns, product.right, product)
        self.sides = (self.left, self.right)
        self.count = simplify(count_of(product))
        """How many terms there are."""
        self.stretches = simplify(
            Scalar("idiv", (self.count + (tile.depth - 1), as_index(tile.depth)), INDEX)
        )
        self.sums = buffer("sums", product.term.dtype, (tile.threads, tile.sums))

    def nest(self) -> Nest:
        body = (*self._start(), *self._stretches(), self._results())
        loops = [*self.product.batch, self.left.block, self.right.block]
        for each in reversed(loops):
            stop = const(each.attribute[2], INDEX)
            body = (For(each, ZERO, stop, body, parallel=True),)
        scratch = (self.sums, *self.left.rows, *self.right.rows)
        tile = self.tile
        return Nest(
            body,
            scratch,
            sum(root.work for root in self.roots),
            team=tile.threads,
            private=(self.sums,),
            largest_constant=max(tile.threads, *tile),
        )

    def _by_threads(self, thread: Scalar, body: Sequence[Statement]) -> For:
        """What each thread of the team does."""
        stop = const(self.tile.threads, INDEX)
        return For(thread, ZERO, stop, tuple(body), lanes=self.tile.threads)

    # -- loading ----------------------------------------------------------------------------------

    def _start(self) -> tuple[Statement, ...]:
        """Sums of nothing, and the tiles for the first stretch of terms."""
        thread = index("thread", self.tile.threads)
        op = self.product.fold.attribute[0]
        nothing = const(identity(op, self.sums.dtype), self.sums.dtype)
        body: list[Statement] = [
            Store(self.sums, (thread, const(number, INDEX)), nothing)
            for number in range(self.tile.sums)
        ]
        names, values = self._loaded(thread, ZERO)
        body += [Let(names, values), *self._put(thread, ZERO, names)]
        return (self._by_threads(thread, body),)

    def _loaded(
        self, thread: Scalar, stretch: Scalar
    ) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
        """A thread's share of the operands' elements for a stretch of terms, and names for them."""
        values = []
        for side, number, operand in self._operands():
            for own, term in self._share(thread, side, number):
                place = stretch * self.tile.depth + term
                inside = self.simplify(place < self.count)
                if self.count.op == "const":
                    # one that there is, rather than a branch
                    place = _least(place, self.count - 1)
                # rows and columns behind the last one are of no result
                known = self._positions(side.loops, _least(side.number(own), side.extent - 1))
                known |= self._positions(self.product.counters, place)
                (value,) = self.simplify.substitute([operand], known)
                choose = where if self.count.op == "const" else guard
                values.append(self.simplify(choose(inside, value, const(0, value.dtype))))
        return tuple(local(value.dtype, "next") for value in values), tuple(values)

    def _put(self, thread: Scalar, stretch: Scalar, given: Sequence[Scalar]) -> list[Statement]:
        """Stores of a thread's share into the tiles for a stretch of terms."""
        half = self._half(stretch)
        values = iter(given)
        return [
            Store(side.rows[number], (half, term, own), next(values))
            for side, number, _ in self._operands()
            for own, term in self._share(thread, side, number)
        ]

    def _operands(self) -> list[tuple[_Side, int, Scalar]]:
        return [
            (side, number, operand)
            for side in self.sides
            for number, operand in enumerate(side.operands)
        ]

    def _share(self, thread: Scalar, side: _Side, number: int) -> list[tuple[Scalar, Scalar]]:
        """Which elements of a tile a thread loads, so that neighbours load what is side by side."""
        inner = self.tile.depth if side.sums_are_near[number] else side.length
        found = []
        for start in range(0, side.length * self.tile.depth, self.tile.threads):
            outside, inside = self._divided(thread + start, inner)
            found.append((outside, inside) if side.sums_are_near[number] else (inside, outside))
        return found

    def _divided(self, x: Scalar, divisor: int) -> tuple[Scalar, Scalar]:
        by = as_index(divisor)
        quotient, rest = Scalar("idiv", (x, by), INDEX), Scalar("irem", (x, by), INDEX)
        return self.simplify(quotient), self.simplify(rest)

    def _positions(self, loops: Sequence[Scalar], flat: Scalar) -> Values:
        """The indices of loops that go on as one, for an iteration of that."""
        values: Values = {}
        rest = self.simplify(flat)
        for loop in reversed(loops[1:]):
            rest, values[loop] = self._divided(rest, loop.attribute[2])
        values[loops[0]] = rest
        return values

    def _half(self, stretch: Scalar) -> Scalar:
        """Which of the two tiles a stretch of terms is in."""
        return self.simplify(Scalar("irem", (stretch, as_index(2)), INDEX))

    # -- summing ----------------------------------------------------------------------------------

    def _stretches(self) -> tuple[Statement, ...]:
        """The terms, a stretch at a time, the next one being loaded meanwhile."""
        most = -(-self.product.longest // self.tile.depth)
        stretch = index("stretch", most)
        thread = index("thread", self.tile.threads)
        terms = self._terms(thread, stretch)
        if most == 1:
            first = self._by_threads(thread, [terms])
            return (For(stretch, ZERO, self.stretches, (first,)),)
        following = self.simplify(stretch + 1)
        names, values = self._loaded(thread, following)
        body = (Let(names, values), terms, *self._put(thread, following, names))
        return (For(stretch, ZERO, self.stretches, (self._by_threads(thread, body),)),)

    def _terms(self, thread: Scalar, stretch: Scalar) -> For:
        """The terms of a stretch, added to the sums of a thread."""
        term = index("term", self.tile.depth)
        half = self._half(stretch)
        rows, columns = self._places(thread)
        known: list[list[tuple[Scalar, ...]]] = []
        statements: list[Statement] = []
        for side, places in ((self.left, rows), (self.right, columns)):
            found = []
            for tile in side.rows:
                names = tuple(local(tile.dtype, tile.name[0]) for _ in places)
                loads = tuple(load(tile, (half, term, place)) for place in places)
                statements.append(Let(names, loads))
                found.append(names)
            known.append(list(zip(*found, strict=True)))
        for number, (row, column) in enumerate(
            (row, column) for row in known[0] for column in known[1]
        ):
            operands = dict(
                zip((*self.left.operands, *self.right.operands), (*row, *column), strict=True)
            )
            (value,) = self.simplify.substitute([self.product.term], operands)
            at = (thread, const(number, INDEX))
            statements.append(Store(self.sums, at, value, self.product.fold.attribute[0]))
        stop = as_index(self.tile.depth)
        if not self.product.padded:
            left = self.count - stretch * self.tile.depth
            stop = self.simplify(Scalar("min", (stop, left), INDEX))
        return For(term, ZERO, stop, tuple(statements))

    def _places(self, thread: Scalar) -> tuple[list[Scalar], list[Scalar]]:
        """The rows and the columns of the tile that a thread has: groups that are apart."""
        tile = self.tile
        across = tile.columns // tile.thread_columns
        down = tile.rows // tile.thread_rows
        row, column = self._divided(thread, across)
        return (
            self._groups(row, tile.thread_rows, down),
            self._groups(column, tile.thread_columns, across),
        )

    def _groups(self, own: Scalar, count: int, threads: int) -> list[Scalar]:
        each = self.tile.together
        return [
            self.simplify(own * each + (group * threads * each + within))
            for group in range(count // each)
            for within in range(each)
        ]

    # -- results ----------------------------------------------------------------------------------

    def _results(self) -> For:
        """A thread's elements of the result, and what is computed of them."""
        thread = index("thread", self.tile.threads)
        rows, columns = (
            [self._named(side, place) for place in places]
            for side, places in zip(self.sides, self._places(thread), strict=True)
        )
        body: list[Statement] = [each.declared for each in (*rows, *columns)]
        numbers = iter(range(self.tile.sums))
        for row in rows:
            of_row: list[Statement] = []
            for column in columns:
                total = load(self.sums, (thread, const(next(numbers), INDEX)))
                total = convert(total, self.product.fold.dtype)
                made = self._element({**row.known, **column.known}, total)
                of_row += _where_inside(column, made)
            body += _where_inside(row, of_row)
        return self._by_threads(thread, body)

    def _named(self, side: _Side, within: Scalar) -> _Place:
        """A row or column of the result, with names for its indices."""
        number = side.number(within)
        positions = self._positions(side.loops, number)
        names = {loop: local(INDEX, loop.attribute[0]) for loop in positions}
        declared = Let(tuple(names.values()), tuple(positions.values()))
        return _Place(names, declared, self.simplify(number < side.extent))

    def _element(self, known: Values, total: Scalar) -> list[Statement]:
        """Statements for one element of each root, of which the product's is a sum."""
        statements: list[Statement] = []
        made: dict[Buffer, Scalar] = {}
        first = self.roots[0]
        for root in self.roots:
            ((position, value),) = root.elements
            replaced: Values = {self.product.fold: total} if root is first else {}
            # what the roots before have made is read at the same indices
            for node in postorder([value], known=replaced):
                if node.op == "load" and node.attribute in made:
                    replaced[node] = made[node.attribute]
            (value,) = self.simplify.substitute([value], {**known, **replaced})
            if root is not self.roots[-1] and value.args:
                made[root.target] = local(value.dtype, root.target.name)
                statements.append(Let((made[root.target],), (value,)))
                value = made[root.target]
            made[root.target] = value
            if root in self.kept:
                place = tuple(self.simplify.substitute(position, known))
                statements.append(Store(root.target, place, value))
        return statements


def _where_inside(place: _Place, body: Sequence[Statement]) -> Sequence[Statement]:
    """Statements about a row or column, which may be behind the last one."""
    if place.inside.op == "const":
        return body if place.inside.attribute else ()
    return [If(place.inside, tuple(body))]


def _least(x: Scalar, y: Scalar | int) -> Scalar:
    return Scalar("min", (x, as_index(y)), INDEX)


def _reads_along(operand: Scalar, counters: Sequence[Scalar], loops: Sequence[Scalar]) -> bool:
    """Whether an operand's terms are next to each other in memory, and not its rows or columns."""
    near = [Coefficients(counters[-1]), Coefficients(loops[-1])]
    votes = [0, 0]
    for node in postorder([operand]):
        if node.op == "load":
            for number, own in enumerate(near):
                votes[number] += own.of_element(node.attribute, node.args) in (1, -1)
    return votes[0] > votes[1]
