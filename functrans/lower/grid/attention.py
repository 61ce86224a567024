"""Fused attention: softmax-weighted sums of rows, without the weights in memory.

Expects attention (`functrans.lower.select.attention`). Leaves a root that is the kernel of a team,
whose band goes over tiles of queries:

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
from typing import NamedTuple

import numpy as np

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, ZERO, as_index, combine_pairwise, identity, index
from functrans.loop.scalar import Scalar, const, convert, eq, postorder, where
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
from functrans.loop.walk import loaded
from functrans.lower.select.attention import Attention
from functrans.lower.select.products import extents
from functrans.lower.select.root import Root, extent_of

Values = dict[Scalar, Scalar]

NEAR = 8
"""Neighbouring threads load so many neighbouring terms, a sector of memory, and then those of the
next row: what they store side by side is then in different banks."""

LOWEST = float("-inf")


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
        self.terms = extents(of.counters)
        self.keys = extent_of(of.key)
        self.groups = tile.groups(extents(of.columns))
        self.query_block = index("query_block", -(-extents(of.queries) // tile.queries))
        self.key_block = index("key_block", -(-self.keys // tile.keys))
        self.rows: list[Buffer] = []
        self.private: list[Buffer] = []
        across, wide = tile.queries + tile.padding, of.widest
        depth = -(-self.terms // tile.depth) * tile.depth
        width = self.groups * tile.keys + tile.padding
        self.left = [self._row("queries", x.dtype, depth, across) for x in of.left]
        self.right = [self._row("keys", x.dtype, tile.depth, width) for x in of.right]
        # what is of keys has been used when what is of values is loaded
        free = [row for row in self.right if row.dtype == of.value.dtype]
        self.values = free[0] if free else self._row("values", of.value.dtype, tile.depth, width)
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
            self._in_stretches(self.terms, self._load_keys, self._multiply),
            self._by_threads(self._score),
            self._by_queries(self._grow),
            self._by_threads(self._weigh),
            self._by_queries(self._total),
            self._in_stretches(tile.keys, self._load_values, self._add),
        )
        body: tuple[Statement, ...] = (
            self._by_threads(self._no_sums),
            self._by_queries(self._start),
            self._in_stretches(self.terms, self._load_queries),
            _loop(self.key_block, of_keys),
            *(each for group in range(self.groups) for each in self._results(group)),
        )
        for each in reversed([*self.of.batch, self.query_block]):
            body = (replace(_loop(each, body), parallel=True),)
        return body

    def _dealt(self, counter: Scalar, body: Sequence[Statement]) -> For:
        return replace(_loop(counter, body), lanes=self.tile.threads)

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

    # -- loading ----------------------------------------------------------------------------------

    def _load_queries(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """A thread's share of the queries' operands for a stretch of terms."""
        first = stretch * self.tile.depth
        found = [
            (row, (first + term, own), self._at_term(operand, first + term, self._query(own)))
            for row, operand in zip(self.left, self.of.left, strict=True)
            for own, term in self._share(thread, self.tile.queries, operand, self.of.queries)
        ]
        return _stored(found)

    def _load_keys(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """A thread's share of the keys' operands for a stretch of terms."""
        first = stretch * self.tile.depth
        found = [
            (row, (term, own), self._at_term(operand, first + term, self._key(own)))
            for row, operand in zip(self.right, self.of.right, strict=True)
            for own, term in self._share(thread, self.tile.keys, operand, (self.of.key,))
        ]
        return _stored(found)

    def _load_values(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """A thread's share of the values of a stretch of keys; behind the last key they are 0."""
        value, columns = self.of.value, self.of.columns
        width = self.groups * self.tile.keys
        near = _lies_along(value, self.of.key, columns)
        found = []
        for own, term in self._divided_among(thread, width, near):
            key = stretch * self.tile.depth + term
            known = self._positions(columns, _least(own, extents(columns) - 1))
            (number,) = self.substitute([value], {**known, **self._key(key)})
            number = where(self._is_key(key), number, const(0, value.dtype))
            found.append((self.values, (term, own), self.simplify(number)))
        return _stored(found)

    def _at_term(self, operand: Scalar, term: Scalar, known: Values) -> Scalar:
        terms = self._positions(self.of.counters, _least(term, self.terms - 1))
        (value,) = self.substitute([operand], {**known, **terms})
        return value

    def _share(
        self, thread: Scalar, length: int, operand: Scalar, loops: Sequence[Scalar]
    ) -> list[tuple[Scalar, Scalar]]:
        near = _lies_along(operand, self.of.counters[-1], loops)
        return self._divided_among(thread, length, near)

    def _divided_among(
        self, thread: Scalar, length: int, near: bool
    ) -> list[tuple[Scalar, Scalar]]:
        """Which elements of so many rows a thread loads: which row, and which term of it.

        Neighbours load what is side by side in memory: terms, if these are near, or else rows.
        """
        found = []
        inner = min(NEAR, self.tile.depth)
        for start in range(0, length * self.tile.depth, self.tile.threads):
            if near:
                rest, low = self._divided(thread + start, inner)
                high, own = self._divided(rest, length)
                found.append((own, self.simplify(high * inner + low)))
            else:
                term, own = self._divided(thread + start, length)
                found.append((own, term))
        return found

    def _query(self, within: Scalar) -> Values:
        """The indices of a query of the tile; behind the last one, of that."""
        number = self.query_block * self.tile.queries + within
        loops = self.of.queries
        return self._positions(loops, _least(number, extents(loops) - 1))

    def _key(self, within: Scalar) -> Values:
        """The index of a key of the tile; behind the last one, of that."""
        number = self.key_block * self.tile.keys + within
        return {self.of.key: self.simplify(_least(number, self.keys - 1))}

    def _is_key(self, within: Scalar) -> Scalar:
        return self.simplify(self.key_block * self.tile.keys + within < self.keys)

    def _positions(self, loops: Sequence[Scalar], flat: Scalar) -> Values:
        """The indices of loops that go on as one, for an iteration of that."""
        values: Values = {}
        rest = self.simplify(flat)
        for loop in reversed(loops[1:]):
            rest, values[loop] = self._divided(rest, extent_of(loop))
        values[loops[0]] = rest
        return values

    def _divided(self, x: Scalar, divisor: int) -> tuple[Scalar, Scalar]:
        by = as_index(divisor)
        quotient, rest = Scalar("idiv", (x, by), INDEX), Scalar("irem", (x, by), INDEX)
        return self.simplify(quotient), self.simplify(rest)

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
        declared, queries = _named_loads(
            [[load(row, (at, own)) for row in self.left] for own in self._own_queries(thread)]
        )
        more, keys = _named_loads(
            [[load(row, (term, own)) for row in self.right] for own in self._own_keys(thread)]
        )
        body: list[Statement] = [*declared, *more]
        for number, (query, key) in enumerate((x, y) for x in queries for y in keys):
            known = dict(zip((*self.of.left, *self.of.right), (*query, *key), strict=True))
            (value,) = self.substitute([self.of.term], known)
            place = (thread, as_index(number))
            body.append(Store(self.products, place, value, self.of.product.attribute[0]))
        stop = self.simplify(_least(as_index(depth), self.terms - stretch * depth))
        return [replace(_loop(term, body), stop=stop)]

    def _score(self, thread: Scalar) -> list[Statement]:
        """A thread's scores, and the largest of them for each of its queries."""
        keys = self._own_keys(thread)
        places = [(query, key) for query in self._own_queries(thread) for key in keys]
        products = [load(self.products, (thread, as_index(i))) for i in range(len(places))]
        stores = [
            Store(self.weights, place, convert(product, self.weights.dtype))
            for place, product in zip(places, products, strict=True)
        ]
        own, number = self._one_query(thread)
        query = self._named(self._query(own))
        values = []
        for key in keys:
            product = convert(load(self.weights, (own, key)), self.of.product.dtype)
            known = {**query.known, **self._key(key), self.of.product: product}
            (value,) = self.substitute([self.of.score], known)
            lowest = const(LOWEST, value.dtype)
            values.append(self.simplify(where(self._is_key(key), value, lowest)))
        body = [query.declared, *self._each(own, keys, values, values, "max", thread)]
        return [*stores, _loop(number, body)]

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
        query = self._named(self._query(own))
        shift = local(self.of.shift.dtype, "shift")
        weights, weighted = [], []
        for key in keys:
            score = convert(load(self.weights, (own, key)), self.of.score.dtype)
            weight = self.of.exponential((convert(score, shift.dtype) - shift,))
            known = {**query.known, **self._key(key), self.of.weight: weight}
            weights.append(weight)
            weighted += self.substitute([self.of.weighted], known)
        body = [
            query.declared,
            _let(shift, self._shift(load(self.largest, (own,)))),
            *self._each(own, keys, weights, weighted, "add", thread),
        ]
        own_scales = [[load(self.scale, (each,))] for each in self._own_queries(thread)]
        declared, scales = _named_loads(own_scales)
        scaled = [
            Store(self.sums, at, load(self.sums, at) * scale)
            for (scale,), columns in zip(scales, self._sums_of(thread), strict=True)
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
        _, across = self._divided(thread, self.tile.across)
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
        step = index("step", tile.depth // count)
        terms = [self.simplify(step * count + number) for number in range(count)]
        first = self.simplify(stretch * tile.depth)
        declared, weights = _named_loads(
            [
                [convert(load(self.weights, (own, first + term)), wide) for term in terms]
                for own in self._own_queries(thread)
            ]
        )
        columns = self._columns(thread)
        more, values = _named_loads(
            [[load(self.values, (term, column)) for column in columns] for term in terms]
        )
        body: list[Statement] = [*declared, *more]
        for weight, places in zip(weights, self._sums_of(thread), strict=True):
            for column, place in enumerate(places):
                products = [x * value[column] for x, value in zip(weight, values, strict=True)]
                total = load(self.sums, place)
                for product in products:
                    total = total + product
                body.append(Store(self.sums, place, total))
        return [_loop(step, body)]

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
        own, key = self._divided(element, tile.keys)
        number = self.simplify(key + group * tile.keys)
        query = self._named(self._query(own))
        column = self._named(self._positions(self.of.columns, number))
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
        of_tile = self.query_block * tile.queries + own
        body = _where(self.simplify(of_tile < extents(self.of.queries)), body)
        return [self._by_threads(handed_on), self._dealt(element, body)]

    # -- what a thread has ------------------------------------------------------------------------

    def _own_queries(self, thread: Scalar) -> list[Scalar]:
        down, _ = self._divided(thread, self.tile.across)
        count = self.tile.thread_queries
        return [self.simplify(down * count + number) for number in range(count)]

    def _own_keys(self, thread: Scalar) -> list[Scalar]:
        _, across = self._divided(thread, self.tile.across)
        count = self.tile.thread_keys
        return [self.simplify(across * count + number) for number in range(count)]

    def _one_query(self, thread: Scalar) -> tuple[Scalar, Scalar]:
        """One of a thread's queries, and the index of the loop over them."""
        number = index("own", self.tile.thread_queries)
        down, _ = self._divided(thread, self.tile.across)
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


def _stored(found: Sequence[tuple[Buffer, tuple[Scalar, ...], Scalar]]) -> list[Statement]:
    """Stores of values that are all loaded before."""
    names = [local(value.dtype, "next") for *_, value in found]
    stores = [Store(row, at, name) for (row, at, _), name in zip(found, names, strict=True)]
    return [Let(tuple(names), tuple(value for *_, value in found)), *stores]


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


def _least(x: Scalar, y: Scalar | int) -> Scalar:
    return Scalar("min", (x, as_index(y)), INDEX)


def _lies_along(operand: Scalar, inner: Scalar, loops: Sequence[Scalar]) -> bool:
    """Whether what is next to each other in memory are an operand's terms, and not its rows."""
    near = Coefficients(inner), Coefficients(loops[-1])
    votes = [0, 0]
    for node in postorder([operand]):
        if node.op == "load":
            for number, own in enumerate(near):
                votes[number] += own.of_element(node.attribute, node.args) in (1, -1)
    return votes[0] > votes[1]
