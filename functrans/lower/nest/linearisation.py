"""Linearisation: one loop index from which those of several loops are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier

Values = dict[Scalar, Scalar]


def linearised(counters: Sequence[Scalar], simplify: Simplifier) -> tuple[Scalar, Values]:
    """One index for several loops, and the loops' indices as expressions of it."""
    one = index(counters[-1].attribute[0], prod(each.attribute[2] for each in counters))
    return one, delinearised(counters, one, simplify)


def delinearised(counters: Sequence[Scalar], flat: Scalar, simplify: Simplifier) -> Values:
    """The indices of several loops, of which the last is the fastest, from a linear index."""
    values: Values = {}
    rest = simplify(flat)
    for each in reversed(counters[1:]):
        rest, values[each] = quotient_and_rest(rest, each.attribute[2], simplify)
    return values | dict.fromkeys(counters[:1], rest)


def number_of(values: Mapping[Scalar, Scalar], simplify: Simplifier) -> Scalar:
    """The linear index of several loops, from the index of each."""
    total: Scalar = ZERO
    for loop, value in values.items():
        total = total * loop.attribute[2] + value
    return simplify(total)


def quotient_and_rest(x: Scalar, by: int, simplify: Simplifier) -> tuple[Scalar, Scalar]:
    """Quotient and remainder of a number by the length of a row: its row and column."""
    operands = (x, as_index(by))
    quotient, rest = (simplify(Scalar(op, operands, INDEX)) for op in ("idiv", "irem"))
    return quotient, rest
