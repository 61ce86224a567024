"""The rules that scans and while loops share: forward mode, vmap, and complex numbers.

Both apply a body to a carry; its further results are stacked. They differ in what decides how often
(`Scan`, `While`), and a while loop gives the number of its steps between the carry and the stacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans.ir.graph import Graph
from functrans.ops.arrays.structural import place, zeros_like
from functrans.ops.compiled.pairs import flattened
from functrans.ops.control.layout import Flags, cut, each, fixpoint, refit, spread, together
from functrans.records import NamedTuple

Loop = Any
"""A `Scan` or a `While`."""


def jvp(
    loop: Loop, primals: Sequence[Any], tangents: Sequence[Any], *, transform: Any, order: int = 1
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Tangents, or tuples of derivatives up to ``order`` with a Taylor transform."""
    steps, consts, init, xs = loop.parts(primals)
    _, consts_dot, init_dot, xs_dot = loop.parts(tangents)
    n_carry = loop.n_carry
    n_ys = len(loop.body.outputs) - n_carry
    c_moves, i_moves, x_moves = (
        tuple(t is not None for t in part) for part in (consts_dot, init_dot, xs_dot)
    )

    def push(carry_moves: Flags) -> tuple[Flags, Any]:
        instantiate = carry_moves + (False,) * n_ys
        pushed = transform(loop.body, c_moves + carry_moves + x_moves, instantiate)
        return pushed.nonzero[:n_carry], pushed

    carry_moves, (pushed, nonzero) = fixpoint(i_moves, push)
    carried = order * sum(carry_moves)
    counts = (len(consts), n_carry, len(xs), order * sum(c_moves), carried)
    c, i, x, dc, di, dx = cut(range(len(pushed.inputs)), *counts)
    out, ys, dout, dys = cut(range(len(pushed.outputs)), n_carry, n_ys, carried)
    body = refit(pushed, [*c, *dc, *i, *di, *x, *dx], [*out, *dout, *ys, *dys])
    init_dot = [
        (zeros_like(x),) * order if t is None else t
        for x, t, moves in zip(init, init_dot, carry_moves, strict=True)
        if moves
    ]
    results = loop.of_body(body, len(dc), len(di)).bind(
        steps, [*consts, *each(consts_dot)], [*init, *each(init_dot)], [*xs, *each(xs_dot)]
    )
    n_counts = len(results) - len(body.outputs)
    carry, carry_dot, count, ys_out, ys_dot = cut(results, n_carry, len(di), n_counts, n_ys)
    return (
        [*carry, *count, *ys_out],
        [
            *spread(together(carry_dot, order), carry_moves),
            *(None for _ in count),
            *spread(together(ys_dot, order), nonzero[n_carry:]),
        ],
    )


class MappedBody(NamedTuple):
    """The body of a loop under vmap."""

    graph: Graph
    carry: tuple[int | None, ...]  # the axes of the carry: the first one, if it is mapped
    ys: tuple[int | None, ...]  # the axes of a step's results

    def apply(
        self, loop: Loop, parts: Sequence[Sequence[Any]], axes: Sequence[int | None], size: int
    ) -> tuple[Sequence[Any], Sequence[int | None]]:
        """The results of a loop of this body, and their axes; ``axes`` are those of init."""
        steps, consts, init, xs = parts
        init = [
            place(x, axis, mapped, size)
            for x, axis, mapped in zip(init, axes, self.carry, strict=True)
        ]
        stacks = (None if axis is None else axis + 1 for axis in self.ys)
        results = loop.of_body(self.graph, 0, 0).bind(steps, consts, init, xs)
        counts = (None,) * (len(results) - len(self.graph.outputs))
        return results, [*self.carry, *counts, *stacks]


def map_body(
    loop: Loop, axes: Sequence[Sequence[int | None]], size: int, transform: Any
) -> MappedBody:
    """Batch the body, given the axes of consts, init, and a step's elements of xs."""
    c_axes, i_axes, x_axes = axes
    n_ys = len(loop.body.outputs) - loop.n_carry

    def map_(mapped: Flags) -> tuple[Flags, MappedBody]:
        carry = tuple(0 if flag else None for flag in mapped)
        graph, out_axes = transform(
            loop.body, (*c_axes, *carry, *x_axes), size, (*carry, *(None,) * n_ys)
        )
        own, ys = map(tuple, cut(out_axes, loop.n_carry))
        return tuple(axis is not None for axis in own), MappedBody(graph, carry, ys)

    return fixpoint(tuple(axis is not None for axis in i_axes), map_)[1]


def in_parts(loop: Loop, operands: Sequence[Any], *, transform: Any) -> Sequence[Any]:
    """Apply the loop to pairs of real and imaginary parts."""
    steps, *parts = loop.parts(operands)
    consts, init, xs = map(flattened, parts)
    apart = loop.of_parts(transform, len(consts), len(init))
    return apart.bind(steps, consts, init, xs)
