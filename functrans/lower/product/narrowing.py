"""Loop-bound narrowing: a block of rows skips the columns that are masked in all of its rows.

In causal attention a score is a select, ``where(mask, score, -inf)``, or a sum, ``score + mask``,
with a mask of zeros and -inf or -1e9. A masked score has an exponential of zero, which sums and
products can skip. So the loops over columns of a block of rows run from the first tile of columns
with an unmasked element to the last. (That is an inspector and an executor: J. Saltz et al.,
"Run-time parallelization and scheduling of loops", 1991. Masks are mostly data, and a mask of a few
comparisons takes almost no time to inspect.)

Skipping is verified, since zero times infinity is NaN. Each row tests that its skipped terms would
not have changed anything; if one would have, the matrix, or a thread's share of its rows, is
computed again with all columns. The tests use bounds of such terms (`Bounds`):

- The upper bound of a term of a maximum is not greater than the maximum.
- The magnitude of a term of a sum, or a product, has the bound zero, by ``|x + y| <= |x| + |y|``
  and so on. An exponential is zero if the upper bound of its exponent is low enough.
- For unknown numbers, such as the elements of another product, the product of the largest numbers
  in its factors is a bound. If that is infinite or NaN, so are bounds derived from it, and the test
  fails.

A row in which everything is masked is treated like one in which nothing is.

Expects a stream (`functrans.lower.product.stream`). Leaves one whose sums go over fewer columns,
which has one value more: whether a test has failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import BOOL, Scalar, eq, maximum, minimum, where
from functrans.loop.simplify import FALSE, TRUE, Simplifier
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    Let,
    Reduce,
    Statement,
    Store,
    While,
    buffer,
    load,
    local,
)
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fusion import Loop
from functrans.lower.nest.linearisation import Values
from functrans.lower.product.block import Bounds
from functrans.lower.product.mask import Columns, Mask, columns_of, masks
from functrans.lower.product.outside import Outside
from functrans.lower.product.stream import Stream, Streaming
from functrans.lower.select.root import Contraction, Elements, Readers, Root, extent_of
from functrans.records import dataclass


@dataclass(frozen=True)
class Narrowed:
    """A stream whose loops over columns have bounds that each block of rows computes."""

    stream: Stream
    readers: Readers  # all roots that read a buffer
    mask: Mask
    columns: Columns  # the loops and counters of roots over columns
    tests: Buffer  # for each row, whether a test has failed
    # the bounds of products' elements for each matrix, and the roots that compute them
    largest: Mapping[Buffer, Reduce]
    first: Scalar  # a local: the first tile of columns
    last: Scalar  # a local: the tile after the last one
    failed: Scalar  # a local: whether a test of these rows has failed
    whole: Scalar  # a local: whether these rows are computed again, with all columns
    tile: int  # the columns of a tile
    simplify: Simplifier

    @property
    def extent(self) -> int:
        """The number of columns."""
        return extent_of(self.mask.column)

    @property
    def bounds(self) -> Bounds:
        """The first column of a block of rows, and the one after the last."""
        return _bounds(self.first, self.last, self.tile, self.extent, self.simplify)

    def before(self) -> list[Nest]:
        """The nests that compute the bounds of products once, before threads share rows."""
        batch = self.stream.batch
        body: Body = ()
        for one, found in self.largest.items():
            (target,) = found.targets
            body += (found, Store(one, batch, target))
        for loop in reversed(batch):
            stop = as_index(extent_of(loop))
            body = (For(loop, ZERO, stop, body, parallel=loop is batch[0]),)
        return [Nest(body, ())] if body else []

    def found(self, rows: Bounds, batch: Values) -> Body:
        """Statements that compute the range of columns of a block of rows."""
        count = -(-self.extent // self.tile)
        none, all_tiles = ZERO, as_index(count)
        tile, lane = index("tile", count), index("lane", self.tile)
        column = tile * self.tile + lane
        values = {**batch, self.mask.column: self.simplify(column)}
        (chosen,) = self.simplify.substitute([self.mask.chosen], values)
        some, low, high, first, last = (
            local(BOOL, "some"),
            *(local(INDEX, name) for name in ("low", "high", "first", "last")),
        )
        left = self.simplify(minimum(self.extent - tile * self.tile, self.tile))
        whole = self.extent % self.tile == 0
        within = Reduce((some,), ("or",), (chosen,), ((lane, ZERO, left),), (), self.tile, whole)
        of_row = Reduce(
            (low, high),
            ("min", "max"),
            (where(some, tile, all_tiles), where(some, tile + 1, none)),
            ((tile, ZERO, all_tiles),),
            (within,),
        )
        is_empty = eq(high, none)
        of_rows = Reduce(
            (first, last),
            ("min", "max"),
            (where(is_empty, none, low), where(is_empty, all_tiles, high)),
            ((self.stream.row, *rows),),
            (of_row,),
        )
        low = where(self.whole, none, first)
        high = where(self.whole, all_tiles, last)
        return (
            of_rows,
            Let((self.first,), (maximum(minimum(low, all_tiles - 1), none),)),
            Let((self.last,), (minimum(maximum(high, self.first + 1), all_tiles),)),
        )

    def tested(self, rows: Bounds, elsewhere: Relocation) -> Body:
        """Statements that check whether a test of a block of rows has failed."""
        row, some = self.stream.row, local(BOOL, "some")
        values = elsewhere.expressions([load(self.tests, self.stream.around)])
        return (
            Reduce((some,), ("or",), tuple(values), ((row, *rows),)),
            Assign((self.failed,), (self.failed | some,)),
        )

    def around(self, body: Body, batch: Values) -> Body:
        """Execute statements for rows of a matrix, and again with all columns if a test fails."""
        once = While(
            body,
            self.failed & ~self.whole,
            (Assign((self.failed, self.whole), (FALSE, TRUE)),),
            most=1,
        )
        bounds = [target for found in self.largest.values() for target in found.targets]
        values = [load(one, self.stream.batch) for one in self.largest]
        values = self.simplify.substitute([*values, FALSE, FALSE], batch)
        return (Let((*bounds, self.failed, self.whole), tuple(values)), once)

    def loops(self, body: Body) -> Body:
        """The statements with narrowed loops over columns, of which there may be fewer lanes."""
        start, stop = self.bounds
        inner = {root.loops[-1] for root, own in self.columns.items() if root.loops[-1] in own}
        found: list[Statement] = []
        for each in body:
            if isinstance(each, For):
                each = replace(each, body=self.loops(each.body))
                if each.index in inner:
                    whole = self.extent % self.tile == self.tile % each.lanes == 0
                    each = replace(each, start=start, stop=stop, repeatable=False, whole=whole)
            found.append(each)
        return tuple(found)


def _bounds(first: Scalar, last: Scalar, tile: int, extent: int, simplify: Simplifier) -> Bounds:
    return simplify(first * tile), simplify(minimum(last * tile, extent))


def narrowed(
    stream: Stream,
    readers: Readers,  # all roots that read a buffer
    tile: int,  # the columns of a tile
    target: Target,
    simplify: Simplifier,
) -> Narrowed | None:
    """The stream with narrowed loops; None if there is no mask whose columns can be skipped."""
    if all(isinstance(root, Contraction) for root in stream.roots):
        return None
    for root, mask in masks(stream):
        if extent_of(mask.column) < target[Streaming].fewest_tiles * tile:
            continue
        columns = columns_of(stream, root, mask.column, readers)
        if columns is None:
            continue
        outside = Outside(stream, mask, columns, target, simplify)
        tests = outside.tests()
        if tests is not None:
            return _rewritten(outside, tests, tile, readers)
    return None


def _rewritten(
    outside: Outside, tests: Sequence[Scalar], tile: int, readers: Readers
) -> Narrowed | None:
    """The stream with narrowed sums, and with the tests at the end of the last nest over rows.

    None if a test reads a value that is only computed after that nest.
    """
    stream, simplify = outside.stream, outside.simplify
    first, last = local(INDEX, "first"), local(INDEX, "last")
    extent = extent_of(outside.mask.column)
    bounds = _bounds(first, last, tile, extent, simplify)
    new: dict[Root, Elements] = {}
    for root in stream.roots:
        new[root] = _with_sums(root, outside.columns.get(root, frozenset()), bounds, simplify)
    holds = TRUE
    for test in tests:
        holds = holds & test
    failed = simplify(~holds)
    around = stream.around
    flags = buffer("failed", BOOL, map(extent_of, around))
    flag = Elements(flags, around, tuple(range(len(around))), ((around, failed),))
    members = [_replaced(loop, new) for loop in stream.members]
    by_rows = [
        number
        for number, loop in enumerate(members)
        if any(not isinstance(x, Contraction) for x in loop.roots)
    ]
    last_nest = by_rows[-1]
    after = {root.target for loop in members[last_nest + 1 :] for root in loop.roots}
    if not after.isdisjoint(flag.loads):
        return None
    _add_to_rows(members[last_nest], around, flag)
    made = {flags: flag, **{target: new[root] for target, root in stream.made.items()}}
    read = {one: [new.get(root, root) for root in roots] for one, roots in readers.items()}
    for source in flag.loads:
        read[source] = [*read.get(source, ()), flag]
    return Narrowed(
        stream=replace(stream, members=members, made=made),
        readers=read,
        mask=outside.mask,
        columns=outside.columns,
        tests=flags,
        largest={
            buffer("largest", found.targets[0].dtype, map(extent_of, stream.batch)): found
            for found in outside.largest
        },
        first=first,
        last=last,
        failed=local(BOOL, "failed"),
        whole=local(BOOL, "whole"),
        tile=tile,
        simplify=simplify,
    )


def _with_sums(
    root: Elements, columns: frozenset[Scalar], bounds: Bounds, simplify: Simplifier
) -> Elements:
    """A root whose sums over columns are narrowed."""
    if isinstance(root, Contraction):
        return root
    start, stop = bounds
    values = {}
    for fold in root.folds:
        op, counters = fold.attribute
        if columns.isdisjoint(counters):
            continue
        (column,) = counters
        counter = index(column.attribute[0], extent_of(column))
        (term,) = simplify.substitute(fold.args[:1], {column: start + counter})
        values[fold] = Scalar("fold", (term, simplify(stop - start)), fold.dtype, (op, (counter,)))
    if not values:
        return root
    elements = [
        (position, simplify.substitute([value], values)[0]) for position, value in root.elements
    ]
    return replace(root, elements=tuple(elements))


def _replaced(loop: Loop, new: Mapping[Root, Elements]) -> Loop:
    """The loop with some roots replaced."""
    found = Loop(loop.index, loop.target)
    for child in loop.children:
        found.add(_replaced(child, new) if isinstance(child, Loop) else new[child])
    found.vectorisable = loop.vectorisable
    return found


def _add_to_rows(nest: Loop, around: Sequence[Scalar], root: Root) -> None:
    """Append a root to the statements of a row, if these are in one loop."""
    loop = nest
    for each in around[1:]:
        loop.record(root)
        inner = [x for x in loop.children if isinstance(x, Loop) and x.index is each]
        if not inner:
            break
        loop = inner[-1]
    loop.add(root)
