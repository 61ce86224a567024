"""Order statistics on a CPU, by bisection of the range of sort keys (`sort_keys.py`).

Each step counts the elements up to the middle of the range, in vectors and without a branch, and
halves it: as many steps as a key has bits. A sort by digits moves each key once for each byte, one
by one, which takes longer. The next element in order takes one more pass. Lines that are in order
already are only read once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from functrans.ir.types import is_float
from functrans.loop.nodes import INDEX, ZERO, as_index, fold, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import Scalar, bitcast, const, convert, eq, where
from functrans.loop.statements import Assign, Buffer, For, If, Let, Statement, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import nest
from functrans.ops.reductions.compiled.sort_keys import Keys
from functrans.ops.reductions.compiled.sorts import out_of_order
from functrans.records import NamedTuple


def emit(at: Emission) -> None:
    """The elements of a rank, and of the next one if there are two, in each line."""
    source, target = at.operand(0), at.result()
    if not target.count:
        return
    *lines, extent = source.extents
    line = tuple(index("line", n) for n in lines)
    rank: int = at.eqn.params["rank"]
    own = _Line(at, source, line, extent)
    check, disordered = out_of_order(own.element, extent, at)
    copies = tuple(
        Store(target, (*line, as_index(i)), own.element(as_index(rank + i)))
        for i in range(target.extents[-1])
    )
    body = (*check, If(disordered, own.found(target, rank), copies))
    comparisons = source.count * 8 * source.dtype.itemsize
    at.call(nest(line[:1], nest(line[1:], body), parallel=True), uncounted=comparisons)


class _Line(NamedTuple):
    """A line of elements, along the last axis of a buffer."""

    at: Emission
    source: Buffer
    line: Position
    extent: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.source.dtype

    def found(self, target: Buffer, rank: int) -> Body:
        """Statements that store the elements of a rank, and of the next one."""
        keys = Keys(self.dtype, self.extent, numbered=False)
        low, high = local(keys.plain, "low"), local(keys.plain, "high")
        body, (least, beyond) = self.range(keys)
        body += (Let((low, high), (least, beyond)), self.bisection(keys, low, high, rank))
        value = keys.result((low,), self.dtype)
        if is_float(self.dtype):
            value = where(low >= beyond, self.const(np.nan), value)
        first = local(self.dtype, "first")
        body += (Let((first,), (value,)),)
        values = [first]
        if target.extents[-1] > 1:
            more, second = self.next(first, rank)
            body, values = body + more, [first, second]
        if is_float(self.dtype):
            more, (below,) = self.folds(self.sum(self.is_below_zero))
            body += more
            values = [
                where(eq(x, 0), where(below > rank + i, self.const(-0.0), self.const(0.0)), x)
                for i, x in enumerate(values)
            ]
        return (
            *body,
            *(Store(target, (*self.line, as_index(i)), x) for i, x in enumerate(values)),
        )

    def range(self, keys: Keys) -> tuple[Body, list[Scalar]]:
        """The least key, and one that no lesser result can exceed: that of NaN, for floats."""
        if is_float(self.dtype):
            infinite = keys.of(self.const(np.inf), ZERO)[0]
            return (), [const(0, keys.plain), infinite + 1]
        body, ends = self.folds(
            fold("min", [self.extent], self.element), fold("max", [self.extent], self.element)
        )
        return body, [keys.of(x, ZERO)[0] for x in ends]

    def bisection(self, keys: Keys, low: Scalar, high: Scalar, rank: int) -> Statement:
        """Halve the range of keys in which the element of a rank is, until one is left."""
        pivot, middle = local(self.dtype, "pivot"), local(keys.plain, "middle")
        count, (up_to,) = self.folds(self.sum(lambda x: x <= pivot))
        is_enough = up_to > rank
        halve = (
            Let((middle,), (low + ((high - low) >> 1),)),
            Let((pivot,), (keys.result((middle,), self.dtype),)),
            *count,
            Assign(
                (low, high), (where(is_enough, low, middle + 1), where(is_enough, middle, high))
            ),
        )
        step = index("step", keys.bits)
        return For(step, ZERO, as_index(keys.bits), (If(low < high, halve),))

    def next(self, first: Scalar, rank: int) -> tuple[Body, Scalar]:
        """The element of the next rank, after that of a rank."""
        last = np.inf if is_float(self.dtype) else int(np.iinfo(self.dtype.str).max)

        def after(k: Scalar) -> Scalar:
            return where(self.element(k) > first, self.element(k), self.const(last))

        body, (up_to, numbers, following) = self.folds(
            self.sum(lambda x: x <= first),
            self.sum(lambda x: eq(x, x)),
            fold("min", [self.extent], after),
        )
        if is_float(self.dtype):
            following = where(numbers > rank + 1, following, self.const(np.nan))
        return body, where(up_to > rank + 1, first, following)

    # -- parts of these -------------------------------------------------------------------------

    def element(self, place: Scalar) -> Scalar:
        return load(self.source, (*self.line, place))

    def const(self, value: float) -> Scalar:
        return const(value, self.dtype)

    def is_below_zero(self, x: Scalar) -> Scalar:
        """Whether a number has a sign, which -0.0 has, too."""
        return (x <= 0) & (bitcast(x, f"i{self.dtype.itemsize}") < 0)

    def sum(self, condition: Callable[[Scalar], Scalar]) -> Scalar:
        """The number of elements for which a condition holds."""
        is_short = self.dtype.itemsize < INDEX.itemsize and self.extent <= np.iinfo(np.int32).max
        dtype = np.dtype(np.int32) if is_short else INDEX
        return fold("add", [self.extent], lambda k: convert(condition(self.element(k)), dtype))

    def folds(self, *expressions: Scalar) -> tuple[Body, list[Scalar]]:
        lanes = self.at.target.lanes(self.dtype.itemsize)
        body, values = lower_folds(expressions, lanes, self.at.simplify, self.at.target)
        return tuple(body), values
