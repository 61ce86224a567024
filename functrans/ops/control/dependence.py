"""Sparsity patterns of loops and branches: a step's pattern is applied to that of the carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from functrans.ir.graph import Graph
from functrans.ir.types import GROWS
from functrans.ops.control.layout import Scan, cut
from functrans.ops.dependence import (
    Dependent,
    Pattern,
    identity,
    pairs,
    product,
    size,
    stacked,
    union,
)

Inner = Callable[[Graph, Sequence[Dependent]], Sequence[Dependent]]
Patterns = Sequence[Pattern | None]


def of_scan(scan: Scan, *operands: Dependent, inner: Inner) -> Patterns:
    """Apply one pattern for all steps to the carry, and to the rows of each step."""
    _, *parts = scan.parts(operands)
    consts, carry, xs = ([x.pattern for x in part] for part in parts)
    carried: Patterns = carry
    step = _Step(scan.body, parts[0], inner)
    sizes = [size(aval) for aval in scan.body.in_avals[scan.n_consts + scan.n_carry :]]
    if scan.counted or scan.length == GROWS:
        return _of_any_number(scan, step, consts, carry, xs, sizes)
    order = range(scan.length)
    rows: dict[int, Patterns] = {}
    for i in reversed(order) if scan.reverse else order:
        of_row = [
            None if x is None else x[i * n : (i + 1) * n] for x, n in zip(xs, sizes, strict=True)
        ]
        carried, rows[i] = cut(step([*consts, *carried, *of_row]), scan.n_carry)
    written = [size(aval) for aval in scan.body.out_avals[scan.n_carry :]]
    ys = [
        stacked([rows[i][y] for i in order], [count] * scan.length)
        for y, count in enumerate(written)
    ]
    return [*carried, *ys]


class _Step:
    """The body of a loop, as its pattern."""

    def __init__(self, body: Graph, consts: Sequence[Dependent], inner: Inner) -> None:
        self._sizes = [size(aval) for aval in body.in_avals]
        *starts, width = accumulate(self._sizes, initial=0)
        inputs = [
            Dependent(aval, identity(count, first, width))
            for aval, count, first in zip(body.in_avals, self._sizes, starts, strict=True)
        ]
        for number, const in enumerate(consts):
            if const.is_known:
                inputs[number] = const
        self._patterns = [out.pattern for out in inner(body, inputs)]

    def __call__(self, inputs: Patterns) -> Patterns:
        below = stacked(inputs, self._sizes)
        return [
            None if own is None or below is None else product(own, below) for own in self._patterns
        ]


def _of_any_number(
    scan: Scan, step: _Step, consts: Patterns, carry: Patterns, xs: Patterns, sizes: Sequence[int]
) -> Patterns:
    """The pattern of a loop with an unknown number of steps, as a fixed point."""
    of_any_row = [
        None if x is None else _united(x, count) for x, count in zip(xs, sizes, strict=True)
    ]
    entries = -1
    while entries != (entries := sum(0 if x is None else x.nnz for x in carry)):
        after, _ = cut(step([*consts, *carry, *of_any_row]), scan.n_carry)
        carry = [union(pair) for pair in zip(carry, after, strict=True)]
    _, row = cut(step([*consts, *carry, *of_any_row]), scan.n_carry)
    written = [size(aval) for aval in scan.body.out_avals[scan.n_carry :]]
    return [
        *carry,
        *(stacked([y] * scan.length, [n] * scan.length) for y, n in zip(row, written, strict=True)),
    ]


def _united(x: Pattern, count: int) -> Pattern:
    """The union of the patterns of an array's rows."""
    positions = np.arange(x.shape[0])
    return product(pairs(positions % max(count, 1), positions, (count, x.shape[0])), x)


def of_cond(*operands: Dependent, inner: Inner, branches: tuple[Graph, ...]) -> Patterns:
    """The union of the patterns of all branches that may be taken."""
    index, *taken = operands
    results = [
        [out.pattern for out in inner(branch, taken)]
        for number, branch in enumerate(branches)
        if index.value is None or number == min(max(int(index.value), 0), len(branches) - 1)
    ]
    return [union(patterns) for patterns in zip(*results, strict=True)]


def of_call(*operands: Dependent, inner: Inner, graph: Graph, **params: Any) -> Patterns:
    """The pattern of an inner graph that is applied once."""
    return [out.pattern for out in inner(graph, operands)]
