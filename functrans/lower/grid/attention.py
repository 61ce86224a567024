"""Fused attention: softmax-weighted sums of rows, without the weights in memory.

Expects roots. Leaves one instead of those that are attention together
(`functrans.lower.select.attention`): the kernel of a team, whose band goes over tiles of queries:

    for each tile of queries, by a team:
        the queries' operands, into shared memory
        for each tile of keys:
            the products of queries and keys, in registers, from stretches of the keys' operands
            each thread: its scores, and the largest of them for each of its queries
            each thread: the largest so far of all that have the query; its weights, into shared
                         memory; what it has summed so far, scaled to the new largest
            the products of weights and values, added to the thread's sums
        each thread: its elements of the result

(Online softmax of Milakov and Gimelshein, 2018; tiles as in FlashAttention of Dao et al., 2022.)
The largest score so far takes the place of the largest one, which is all that differs from one
pass after another: what has been summed is multiplied by the exponential of how much it grew. While
all scores of a query are -inf, its weights are 0; if they stay so, they are at the end what the
program makes of that, which is NaN unless it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, as_index, combine_pairwise, identity, index
from functrans.loop.scalar import Scalar, const, convert, eq, minimum, where
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
from functrans.loop.walk import loaded
from functrans.lower.grid.attention_operands import Operands
from functrans.lower.grid.dealing import deal
from functrans.lower.grid.linearisation import delinearised
from functrans.lower.select.attention import Attention
from functrans.lower.select.attention_matching import attentions
from functrans.lower.select.products import extents
from functrans.lower.select.root import Root, extent_of

Values = dict[Scalar, Scalar]

LOWEST = float("-inf")


def with_attention(roots: Sequence[Root], target: Target, simplify: Simplifier) -> tuple[Root, ...]:
    """Roots, of which those that are attention together have become one."""
    left = dict.fromkeys(roots)
    made: dict[Root, Root] = {}
    for found in attentions(roots, target, simplify):
        if all(root in left for root in found.roots):
            made[found.roots[-1]] = fused_attention(found, simplify)
            for root in found.roots[:-1]:
                del left[root]
    return tuple(made.get(root, root) for root in left)


def fused_attention(attention: Attention, simplify: Simplifier) -> Root:
    """The root of what attention computes, which says itself how it is made."""
    kernel = _Kernel(attention, simplify)
    body = kernel.body()
    last, tile = attention.roots[-1], attention.tile
    rows = set(kernel.rows)
    return Root(
        last.target,
        (),
        (),
        (),
        output=last.output,
        call=body,
        operands=tuple(one for one in loaded(body) if one not in rows),
        scratch=tuple(kernel.rows),
        call_work=sum(root.work for root in attention.roots),
        team=tile.threads,
        private=tuple(kernel.private),
        largest_constant=max(tile.threads, *tile),
    )


class _Place(NamedTuple):
    """A query or a column: names of its indices."""

    known: Values
    declared: Let


class _Kernel:
    """Makes the statements of fused attention.

    Parameters
    ----------
    attention : Attention
    simplify : Simplifier
    """

    def __init__(self, attention: Attention, simplify: Simplifier) -> None:
        self.of = of = attention
        self.tile = tile = attention.tile
        self.simplify = simplify
        self.substitute = simplify.substitute
        self.operands = Operands(attention, simplify)
        self.groups = self.operands.groups
        self.rows: list[Buffer] = self.operands.rows
        self.private: list[Buffer] = []
        wide = of.widest
        self.weights = self._row("weights", wide, tile.queries, tile.keys + tile.padding)
        self.parts = self._row("parts", wide, tile.queries, tile.across)
        self.largest = self._row("largest", of.score.dtype, tile.queries)
        self.scale = self._row("scale", of.sum.dtype, tile.queries)
        self.totals = self._row("totals", of.total.dtype, tile.queries)
        self.products = self._own("products", of.term.dtype, tile.scores)
        self.sums = self._own("sums", of.sum.dtype, self.groups * tile.scores)

    def _row(self, label: str, dtype: object, *shape: int) -> Buffer:
        """A row of the team, in shared memory."""
        self.rows.append(buffer(label, dtype, shape))
        return self.rows[-1]

    def _own(self, label: str, dtype: object, count: int) -> Buffer:
        """A row of each thread, which are registers."""
        self.private.append(self._row(label, dtype, self.tile.threads, count))
        return self.private[-1]

    def body(self) -> tuple[Statement, ...]:
        tile = self.tile
        of_keys = (
            self._by_threads(self._no_products),
            self._in_stretches(self.operands.terms, self.operands.load_keys, self._multiply),
            self._by_threads(self._score),
            self._by_queries(self._grow),
            self._by_threads(self._weigh),
            self._by_queries(self._total),
            self._in_stretches(tile.keys, self.operands.load_values, self._add),
        )
        body: tuple[Statement, ...] = (
            self._by_threads(self._no_sums),
            self._by_queries(self._start),
            self._in_stretches(self.operands.terms, self.operands.load_queries),
            _loop(self.operands.key_block, of_keys),
            *(each for group in range(self.groups) for each in self._results(group)),
        )
        for each in reversed([*self.of.batch, self.operands.query_block]):
            body = (replace(_loop(each, body), parallel=True),)
        return body

    def _dealt(self, counter: Scalar, body: Sequence[Statement]) -> For:
        return deal(counter, body, self.tile.threads)

    def _by_threads(self, make: Callable[..., Sequence[Statement]], *args: Scalar) -> For:
        """What each thread of the team does."""
        thread = index("thread", self.tile.threads)
        return self._dealt(thread, make(thread, *args))

    def _by_queries(self, make: Callable[[Scalar], Sequence[Statement]]) -> For:
        """What is done once for each query of the tile."""
        query = index("query", self.tile.queries)
        return self._dealt(query, make(query))

    def _in_stretches(self, count: int, *made: Callable[..., Sequence[Statement]]) -> For:
        """What the threads do in a stretch of terms, for all of them."""
        stretch = index("stretch", -(-count // self.tile.depth))
        return _loop(stretch, [self._by_threads(make, stretch) for make in made])

    # -- scores and weights -----------------------------------------------------------------------

    def _no_sums(self, thread: Scalar) -> list[Statement]:
        return _filled(self.sums, thread, 0)

    def _no_products(self, thread: Scalar) -> list[Statement]:
        start = identity(self.of.product.attribute[0], self.products.dtype)
        return _filled(self.products, thread, start)

    def _start(self, query: Scalar) -> list[Statement]:
        """There have been no scores."""
        return [
            Store(self.largest, (query,), const(LOWEST, self.largest.dtype)),
            Store(self.totals, (query,), const(0, self.totals.dtype)),
        ]

    def _multiply(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """The terms of a stretch, added to the products of a thread."""
        depth = self.tile.depth
        term = index("term", depth)
        at = self.simplify(stretch * depth + term)
        left, right = self.operands.left, self.operands.right
        queries, keys = self._own_queries(thread), self._own_keys(thread)
        declared, of_left = _named_loads(
            [[load(row, (at, own)) for own in queries] for row in left]
        )
        more, of_right = _named_loads([[load(row, (term, own)) for own in keys] for row in right])
        body: list[Statement] = [*declared, *more]
        pairs = product(zip(*of_left, strict=True), zip(*of_right, strict=True))
        for number, (query, key) in enumerate(pairs):
            known = dict(zip((*self.of.left, *self.of.right), (*query, *key), strict=True))
            (value,) = self.substitute([self.of.term], known)
            place = (thread, as_index(number))
            body.append(Store(self.products, place, value, self.of.product.attribute[0]))
        stop = self.simplify(minimum(as_index(depth), self.operands.terms - stretch * depth))
        return [replace(_loop(term, body), stop=stop)]

    def _score(self, thread: Scalar) -> list[Statement]:
        """A thread's scores, and the largest of them for each of its queries."""
        keys = self._own_keys(thread)
        places = [(query, key) for query in self._own_queries(thread) for key in keys]
        products = [load(self.products, (thread, as_index(i))) for i in range(len(places))]
        stores = [
            Store(self.weights, place, convert(number, self.weights.dtype))
            for place, number in zip(places, products, strict=True)
        ]
        own, counter = self._one_query(thread)
        query = self._named(self.operands.query(own))
        values = []
        for key in keys:
            number = convert(load(self.weights, (own, key)), self.of.product.dtype)
            known = {**query.known, **self.operands.key(key), self.of.product: number}
            (value,) = self.substitute([self.of.score], known)
            lowest = const(LOWEST, value.dtype)
            values.append(self.simplify(where(self.operands.is_key(key), value, lowest)))
        body = [query.declared, *self._each(own, keys, values, values, "max", thread)]
        return [*stores, _loop(counter, body)]

    def _grow(self, query: Scalar) -> list[Statement]:
        """The largest of a query's scores so far, and what it takes to scale sums to it."""
        before = load(self.largest, (query,))
        now = local(before.dtype, "largest")
        grown = self.of.exponential((self._shift(before) - self._shift(now),))
        scale = local(self.scale.dtype, "scale")
        one = const(1, scale.dtype)
        return [
            _let(now, combine_pairwise("max", [before, *self._parts(query, before.dtype)])),
            _let(scale, where(_is_lowest(before), one, convert(grown, scale.dtype))),
            Store(self.scale, (query,), scale),
            Store(self.largest, (query,), now),
        ]

    def _shift(self, largest: Scalar) -> Scalar:
        """What is subtracted from scores: something finite, while all of them are -inf."""
        (shift,) = self.substitute([self.of.shift], {self.of.largest: largest})
        return where(_is_lowest(largest), const(0, shift.dtype), shift)

    def _weigh(self, thread: Scalar) -> list[Statement]:
        """A thread's weights, and its sums scaled to the largest scores that these go by."""
        keys = self._own_keys(thread)
        own, number = self._one_query(thread)
        query = self._named(self.operands.query(own))
        shift = local(self.of.shift.dtype, "shift")
        weights, weighted = [], []
        for key in keys:
            score = convert(load(self.weights, (own, key)), self.of.score.dtype)
            weight = self.of.exponential((convert(score, shift.dtype) - shift,))
            known = {**query.known, **self.operands.key(key), self.of.weight: weight}
            weights.append(weight)
            weighted += self.substitute([self.of.weighted], known)
        body = [
            query.declared,
            _let(shift, self._shift(load(self.largest, (own,)))),
            *self._each(own, keys, weights, weighted, "add", thread),
        ]
        loads = [load(self.scale, (each,)) for each in self._own_queries(thread)]
        declared, (scales,) = _named_loads([loads])
        scaled = [
            Store(self.sums, at, load(self.sums, at) * scale)
            for scale, columns in zip(scales, self._sums_of(thread), strict=True)
            for at in columns
        ]
        return [_loop(number, body), *declared, *scaled]

    def _each(
        self,
        own: Scalar,
        keys: Sequence[Scalar],
        values: Sequence[Scalar],
        kept: Sequence[Scalar],
        op: str,
        thread: Scalar,
    ) -> list[Statement]:
        """Statements that keep what is made for a query and a thread's keys, and combine values."""
        names = tuple(local(value.dtype, "x") for value in values)
        replaced = dict(zip(values, names, strict=True))
        _, across = self.operands.divided(thread, self.tile.across)
        wide = self.weights.dtype
        combined = combine_pairwise(op, [convert(name, wide) for name in names])
        return [
            Let(names, tuple(values)),
            *(
                Store(self.weights, (own, key), convert(x, wide))
                for key, x in zip(keys, self.substitute(kept, replaced), strict=True)
            ),
            Store(self.parts, (own, across), combined),
        ]

    def _parts(self, query: Scalar, dtype: np.dtype[np.generic]) -> list[Scalar]:
        """What the threads that share a query have found."""
        parts = [load(self.parts, (query, as_index(i))) for i in range(self.tile.across)]
        return [convert(part, dtype) for part in parts]

    # -- results ----------------------------------------------------------------------------------

    def _total(self, query: Scalar) -> list[Statement]:
        """The sum of a query's weights so far."""
        before = load(self.totals, (query,))
        scale = convert(load(self.scale, (query,)), before.dtype)
        new = combine_pairwise("add", self._parts(query, before.dtype))
        return [Store(self.totals, (query,), before * scale + new)]

    def _add(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """The weighted values of a stretch of keys, added to the sums of a thread."""
        tile, wide = self.tile, self.sums.dtype
        count = tile.thread_keys
        run = index("run", tile.depth // count)
        terms = [self.simplify(run * count + number) for number in range(count)]
        first = self.simplify(stretch * tile.depth)
        declared, weights = _named_loads(
            [
                [convert(load(self.weights, (own, first + term)), wide) for term in terms]
                for own in self._own_queries(thread)
            ]
        )
        columns = self._columns(thread)
        more, values = _named_loads(
            [[load(self.operands.values, (term, column)) for column in columns] for term in terms]
        )
        body: list[Statement] = [*declared, *more]
        for weight, places in zip(weights, self._sums_of(thread), strict=True):
            for column, place in enumerate(places):
                products = [x * value[column] for x, value in zip(weight, values, strict=True)]
                total = load(self.sums, place)
                for each in products:
                    total = total + each
                body.append(Store(self.sums, place, total))
        return [_loop(run, body)]

    def _results(self, group: int) -> list[Statement]:
        """Elements of the result, by way of shared memory, so that neighbours store neighbours."""
        tile, wide = self.tile, self.sums.dtype

        def handed_on(thread: Scalar) -> list[Statement]:
            first = group * tile.thread_keys
            return [
                Store(self.weights, (own, key), convert(load(self.sums, place), self.weights.dtype))
                for own, places in zip(
                    self._own_queries(thread), self._sums_of(thread), strict=True
                )
                for key, place in zip(self._own_keys(thread), places[first:], strict=False)
            ]

        element = index("element", tile.queries * tile.keys)
        own, key = self.operands.divided(element, tile.keys)
        number = self.simplify(key + group * tile.keys)
        query = self._named(self.operands.query(own))
        column = self._named(delinearised(self.of.columns, number, self.simplify))
        largest = load(self.largest, (own,))
        (shift,) = self.substitute([self.of.shift], {self.of.largest: largest})
        # what the program makes of scores of which all are -inf
        nothing = convert(self.of.exponential((largest - shift,)), wide)
        lowest = _is_lowest(largest)
        total = load(self.totals, (own,))
        known = {
            **query.known,
            **column.known,
            self.of.sum: where(lowest, nothing, convert(load(self.weights, (own, key)), wide)),
            self.of.total: where(lowest, convert(nothing, total.dtype), total),
        }
        value, *position = self.substitute([self.of.made, *self.of.position], known)
        body: Sequence[Statement] = [
            query.declared,
            column.declared,
            Store(self.of.roots[-1].target, tuple(position), value),
        ]
        body = _where(self.simplify(number < extents(self.of.columns)), body)
        of_tile = self.operands.query_block * tile.queries + own
        body = _where(self.simplify(of_tile < extents(self.of.queries)), body)
        return [self._by_threads(handed_on), self._dealt(element, body)]

    # -- what a thread has ------------------------------------------------------------------------

    def _own_queries(self, thread: Scalar) -> list[Scalar]:
        down, _ = self.operands.divided(thread, self.tile.across)
        count = self.tile.thread_queries
        return [self.simplify(down * count + number) for number in range(count)]

    def _own_keys(self, thread: Scalar) -> list[Scalar]:
        _, across = self.operands.divided(thread, self.tile.across)
        count = self.tile.thread_keys
        return [self.simplify(across * count + number) for number in range(count)]

    def _one_query(self, thread: Scalar) -> tuple[Scalar, Scalar]:
        """One of a thread's queries, and the index of the loop over them."""
        number = index("own", self.tile.thread_queries)
        down, _ = self.operands.divided(thread, self.tile.across)
        return self.simplify(down * self.tile.thread_queries + number), number

    def _columns(self, thread: Scalar) -> list[Scalar]:
        """A thread's columns of the result."""
        return [
            self.simplify(own + group * self.tile.keys)
            for group in range(self.groups)
            for own in self._own_keys(thread)
        ]

    def _sums_of(self, thread: Scalar) -> list[list[tuple[Scalar, Scalar]]]:
        """Where a thread has its sums: for each of its queries, those of its columns."""
        count = self.groups * self.tile.thread_keys
        return [
            [(thread, as_index(query * count + column)) for column in range(count)]
            for query in range(self.tile.thread_queries)
        ]

    def _named(self, positions: Values) -> _Place:
        """Names for indices."""
        names = {loop: local(INDEX, loop.attribute[0]) for loop in positions}
        return _Place(names, Let(tuple(names.values()), tuple(positions.values())))


def _loop(counter: Scalar, body: Sequence[Statement]) -> For:
    return For(counter, ZERO, as_index(extent_of(counter)), tuple(body))


def _let(name: Scalar, value: Scalar) -> Let:
    return Let((name,), (value,))


def _named_loads(
    elements: Sequence[Sequence[Scalar]],
) -> tuple[list[Let], list[tuple[Scalar, ...]]]:
    """Names for what is loaded: a statement for each row of these, and the names."""
    rows = [tuple(local(x.dtype) for x in row) for row in elements]
    return [Let(names, tuple(row)) for names, row in zip(rows, elements, strict=True)], rows


def _filled(row: Buffer, thread: Scalar, number: float) -> list[Statement]:
    _, count = row.extents
    value = const(number, row.dtype)
    return [Store(row, (thread, as_index(each)), value) for each in range(count)]


def _is_lowest(x: Scalar) -> Scalar:
    return eq(x, const(LOWEST, x.dtype))


def _where(inside: Scalar, body: Sequence[Statement]) -> Sequence[Statement]:
    if inside.op == "const":
        return body if inside.attribute else ()
    return [If(inside, tuple(body))]
