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
    """A query, key or column: names of its indices, and whether it is one."""

    known: Values
    declared: Let
    inside: Scalar


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
        across, wide = tile.queries + tile.padding, of.value.dtype
        depth = -(-self.terms // tile.depth) * tile.depth
        width = self.groups * tile.keys
        self.left = [self._row("queries", x.dtype, depth, across) for x in of.left]
        widest = max(width, tile.keys) + tile.padding
        self.right = [self._row("keys", x.dtype, tile.depth, widest) for x in of.right]
        # what is of keys has been used when what is of values is loaded
        self.values = next((row for row in self.right if row.dtype == wide), None) or self._row(
            "values", wide, tile.depth, widest
        )
        self.weights = self._row("weights", wide, tile.keys, across)
        parts = tile.queries, tile.across + tile.padding
        self.part = self._row("part", wide, *parts)
        self.largest_part = self.part
        if of.score.dtype != wide:
            self.largest_part = self._row("largest_part", of.score.dtype, *parts)
        self.products = self._own("products", of.term.dtype, tile.scores)
        self.scores = self.products
        if of.score.dtype != of.term.dtype:
            self.scores = self._own("scores", of.score.dtype, tile.scores)
        self.largest = self._own("largest", of.score.dtype, tile.thread_queries)
        self.totals = self._own("totals", of.total.dtype, tile.thread_queries)
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
            self._by_threads(self._weigh),
            self._in_stretches(tile.keys, self._load_values, self._add),
        )
        body: tuple[Statement, ...] = (
            self._by_threads(self._start),
            self._in_stretches(self.terms, self._load_queries),
            _loop(self.key_block, of_keys),
            self._by_threads(self._share_totals),
            self._by_threads(self._results),
        )
        for each in reversed([*self.of.batch, self.query_block]):
            body = (replace(_loop(each, body), parallel=True),)
        return body

    def _by_threads(self, make: Callable[..., Sequence[Statement]], *args: Scalar) -> For:
        """What each thread of the team does."""
        thread = index("thread", self.tile.threads)
        return replace(_loop(thread, make(thread, *args)), lanes=self.tile.threads)

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

    def _start(self, thread: Scalar) -> list[Statement]:
        """Nothing has been summed."""
        return [
            *_filled(self.largest, thread, LOWEST),
            *_filled(self.totals, thread, 0),
            *_filled(self.sums, thread, 0),
        ]

    def _no_products(self, thread: Scalar) -> list[Statement]:
        start = identity(self.of.product.attribute[0], self.products.dtype)
        return _filled(self.products, thread, start)

    def _multiply(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """The terms of a stretch, added to the products of a thread."""
        depth = self.tile.depth
        term = index("term", depth)
        own = self._own_queries(thread), self._own_keys(thread)
        at = stretch * depth + term
        declared, names = self._named_loads([(row, at) for row in self.left], own[0])
        more, others = self._named_loads([(row, term) for row in self.right], own[1])
        body: list[Statement] = [*declared, *more]
        for number, (query, key) in enumerate((x, y) for x in names for y in others):
            known = dict(zip((*self.of.left, *self.of.right), (*query, *key), strict=True))
            (value,) = self.substitute([self.of.term], known)
            place = (thread, as_index(number))
            body.append(Store(self.products, place, value, self.of.product.attribute[0]))
        stop = self.simplify(_least(as_index(depth), self.terms - stretch * depth))
        return [replace(_loop(term, body), stop=stop)]

    def _score(self, thread: Scalar) -> list[Statement]:
        """A thread's scores, and the largest of them for each of its queries."""
        across = self._divided(thread, self.tile.across)[1]
        keys = [(self._key(own), self._is_key(own)) for own in self._own_keys(thread)]
        numbers = iter(range(self.tile.scores))
        declared: list[Statement] = []
        stores: list[Statement] = []
        for own in self._own_queries(thread):
            place = self._named(self._query(own))
            names, values = [], []
            for key, inside in keys:
                at = (thread, as_index(next(numbers)))
                product = convert(load(self.products, at), self.of.product.dtype)
                known = {**place.known, **key, self.of.product: product}
                (value,) = self.substitute([self.of.score], known)
                value = self.simplify(where(inside, value, const(LOWEST, value.dtype)))
                names.append(local(value.dtype, "score"))
                values.append(value)
                stores.append(Store(self.scores, at, names[-1]))
            declared += [place.declared, Let(tuple(names), tuple(values))]
            stores.append(Store(self.largest_part, (own, across), combine_pairwise("max", names)))
        return [*declared, *stores]

    def _weigh(self, thread: Scalar) -> list[Statement]:
        """Weights by the largest scores so far, to which all that has been summed is scaled."""
        wide = self.weights.dtype
        declared: list[Statement] = []
        weighted: dict[tuple[Scalar, Scalar], Scalar] = {}
        stores: list[Statement] = []
        for number, own in enumerate(self._own_queries(thread)):
            at = (thread, as_index(number))
            before = load(self.largest, at)
            largest = local(before.dtype, "largest")
            parts = [load(self.largest_part, (own, as_index(i))) for i in range(self.tile.across)]
            declared.append(_let(largest, combine_pairwise("max", [before, *parts])))
            shift = local(self.of.shift.dtype, "shift")
            declared.append(_let(shift, self._shift(largest)))
            grown = self.of.exponential((self._shift(before) - shift,))
            scale = local(wide, "scale")
            one = const(1, wide)
            declared.append(_let(scale, where(_is_lowest(before), one, convert(grown, wide))))
            stores.append(Store(self.largest, at, largest))
            declared.append(self._named_weights(thread, number, shift))
            names = declared[-1].targets
            place = self._named(self._query(own))
            if self.of.weighted is not self.of.weight:
                declared.append(place.declared)
            for key, name in zip(self._own_keys(thread), names, strict=True):
                known = {**place.known, **self._key(key), self.of.weight: name}
                (weighted[key, own],) = self.substitute([self.of.weighted], known)
            total = combine_pairwise("add", [convert(x, self.totals.dtype) for x in names])
            scaled = load(self.totals, at) * convert(scale, self.totals.dtype)
            stores.append(Store(self.totals, at, scaled + total))
            stores += self._scaled(thread, number, scale)
        stores += [
            Store(self.weights, (key, own), weighted[key, own])
            for key in self._own_keys(thread)
            for own in self._own_queries(thread)
        ]
        return [*declared, *stores]

    def _named_weights(self, thread: Scalar, query: int, shift: Scalar) -> Let:
        """The weights of a query's keys that a thread has."""
        first = query * self.tile.thread_keys
        values = []
        for number in range(first, first + self.tile.thread_keys):
            score = load(self.scores, (thread, as_index(number)))
            values.append(self.of.exponential((convert(score, shift.dtype) - shift,)))
        names = tuple(local(value.dtype, "weight") for value in values)
        return Let(names, tuple(values))

    def _shift(self, largest: Scalar) -> Scalar:
        """What is subtracted from scores: something finite, while all of them are -inf."""
        (shift,) = self.substitute([self.of.shift], {self.of.largest: largest})
        return where(_is_lowest(largest), const(0, shift.dtype), shift)

    def _scaled(self, thread: Scalar, query: int, scale: Scalar) -> list[Statement]:
        places = [(thread, as_index(number)) for _, number in self._sums_of(query)]
        return [Store(self.sums, at, load(self.sums, at) * scale) for at in places]

    # -- results ----------------------------------------------------------------------------------

    def _add(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """The weighted values of a stretch of keys, added to the sums of a thread."""
        term = index("term", self.tile.depth)
        at = stretch * self.tile.depth + term
        columns = [
            self.simplify(own + group * self.tile.keys)
            for group in range(self.groups)
            for own in self._own_keys(thread)
        ]
        declared, weights = self._named_loads([(self.weights, at)], self._own_queries(thread))
        more, values = self._named_loads([(self.values, term)], columns)
        body: list[Statement] = [*declared, *more]
        for query, (weight,) in enumerate(weights):
            for column, number in self._sums_of(query):
                (value,) = values[column]
                place = (thread, as_index(number))
                body.append(Store(self.sums, place, weight * value, "add"))
        return [_loop(term, body)]

    def _share_totals(self, thread: Scalar) -> list[Statement]:
        """What a thread has of the sums of weights."""
        across = self._divided(thread, self.tile.across)[1]
        return [
            Store(self.part, (own, across), load(self.totals, (thread, as_index(number))))
            for number, own in enumerate(self._own_queries(thread))
        ]

    def _results(self, thread: Scalar) -> list[Statement]:
        """A thread's elements of the result."""
        wide = self.sums.dtype
        columns = [
            self._column(self.simplify(own + group * self.tile.keys))
            for group in range(self.groups)
            for own in self._own_keys(thread)
        ]
        body: list[Statement] = [column.declared for column in columns]
        for query, own in enumerate(self._own_queries(thread)):
            place = self._named(self._query(own))
            largest = load(self.largest, (thread, as_index(query)))
            (shift,) = self.substitute([self.of.shift], {self.of.largest: largest})
            nothing, total = local(wide, "nothing"), local(self.of.total.dtype, "total")
            lowest = _is_lowest(largest)
            # what the program makes of scores of which all are -inf
            body += [place.declared, _let(nothing, convert(self.of.exponential((largest - shift,)), wide))]
            parts = [load(self.part, (own, as_index(i))) for i in range(self.tile.across)]
            body.append(_let(total, where(lowest, nothing, combine_pairwise("add", parts))))
            of_query: list[Statement] = []
            for column, number in self._sums_of(query):
                known = {**place.known, **columns[column].known}
                summed = load(self.sums, (thread, as_index(number)))
                known[self.of.sum] = where(lowest, nothing, summed)
                known[self.of.total] = total
                value, *position = self.substitute([self.of.made, *self.of.position], known)
                of_query += _where(
                    columns[column].inside,
                    [Store(self.of.roots[-1].target, tuple(position), value)],
                )
            number = self.query_block * self.tile.queries + own
            body += _where(self.simplify(number < extents(self.of.queries)), of_query)
        return body

    # -- what a thread has ------------------------------------------------------------------------

    def _own_queries(self, thread: Scalar) -> list[Scalar]:
        down, _ = self._divided(thread, self.tile.across)
        count = self.tile.thread_queries
        return [self.simplify(down * count + number) for number in range(count)]

    def _own_keys(self, thread: Scalar) -> list[Scalar]:
        _, across = self._divided(thread, self.tile.across)
        count = self.tile.thread_keys
        return [self.simplify(across * count + number) for number in range(count)]

    def _sums_of(self, query: int) -> list[tuple[int, int]]:
        """Of a query, the columns that a thread has, and which of its sums these are."""
        count = self.groups * self.tile.thread_keys
        return [(column, query * count + column) for column in range(count)]

    def _named_loads(
        self, rows: Sequence[tuple[Buffer, Scalar]], places: Sequence[Scalar]
    ) -> tuple[list[Let], list[tuple[Scalar, ...]]]:
        """Names for elements of rows: the statements, and for each place its names."""
        declared, found = [], []
        for row, first in rows:
            names = tuple(local(row.dtype, row.name[0]) for _ in places)
            loads = tuple(load(row, (self.simplify(first), place)) for place in places)
            declared.append(Let(names, loads))
            found.append(names)
        return declared, list(zip(*found, strict=True))

    def _named(self, positions: Values, inside: Scalar = ZERO) -> _Place:
        """Names for indices."""
        names = {loop: local(INDEX, loop.attribute[0]) for loop in positions}
        declared = Let(tuple(names.values()), tuple(positions.values()))
        return _Place(names, declared, inside)

    def _column(self, number: Scalar) -> _Place:
        """Names for the indices of a column of the result, and whether it is one."""
        loops = self.of.columns
        return self._named(
            self._positions(loops, number), self.simplify(number < extents(loops))
        )


def _loop(counter: Scalar, body: Sequence[Statement]) -> For:
    return For(counter, ZERO, as_index(extent_of(counter)), tuple(body))


def _let(name: Scalar, value: Scalar) -> Let:
    return Let((name,), (value,))


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
