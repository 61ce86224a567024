"""Loop unrolling of scans: ``unroll`` steps become one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from functrans.errors import GraphTypeError
from functrans.ir.graph import Eqn, Graph
from functrans.loop.target import Target
from functrans.ops.arrays.shape import concatenate, read_along, stack
from functrans.ops.arrays.structural import reshape
from functrans.ops.control.layout import Scan, cut
from functrans.ops.control.scan import scan_p
from functrans.optimise.rewrite import replaced
from functrans.trace.stage import Environment, replay, rewrite


def unroll_scans(graph: Graph, target: Target) -> Graph:
    """Unroll scans by their parameter `unroll`; the remaining steps are a second scan.

    Expects any graph.
    Leaves no scan to unroll: each body is one step.
    """
    return replaced(graph, {x: partial(_unrolled, x) for x in graph.eqns if _is_to_be(x)})


def _is_to_be(eqn: Eqn) -> bool:
    return eqn.primitive is scan_p and min(eqn.params["unroll"], eqn.params["length"]) > 1


def none_is_to_be_unrolled(graph: Graph, target: Target) -> None:
    """Raise an error if a scan is still to be unrolled."""
    if any(map(_is_to_be, graph.eqns)):
        raise GraphTypeError("a scan is to be unrolled")


def _unrolled(eqn: Eqn, values: Environment) -> Sequence[Any]:
    scan = Scan.of(eqn)
    _, consts, init, xs = scan.parts([values.read(atom) for atom in eqn.inputs])
    together = min(scan.unroll, scan.length)
    turns, rest = divmod(scan.length, together)
    whole = turns * together

    def steps(*inputs: Any) -> list[Any]:
        consts, carry, rows = cut(inputs, scan.n_consts, scan.n_carry)
        made: list[Sequence[Any]] = []
        for step in reversed(range(together)) if scan.reverse else range(together):
            row = (reshape(read_along(x, 0, step, 1), shape=x.shape[1:]) for x in rows)
            carry, ys = cut(replay(scan.body, [*consts, *carry, *row]), scan.n_carry)
            made.append(ys)
        made = made[::-1] if scan.reverse else made
        return [*carry, *(stack(list(each), axis=0) for each in zip(*made, strict=True))]

    def in_turns(init: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
        rows = [read_along(x, 0, 0, whole) for x in xs]
        if turns == 1:
            carry, ys = cut(steps(*consts, *init, *rows), scan.n_carry)
            return carry, list(ys)
        blocks = [reshape(x, shape=(turns, together, *x.shape[1:])) for x in rows]
        n_rows = scan.n_consts + scan.n_carry
        avals = list(scan.body.in_avals)
        for i, block in enumerate(blocks):
            avals[n_rows + i] = avals[n_rows + i].update(shape=block.shape[1:])
        own = scan.but(body=rewrite(steps, avals), length=turns, unroll=1)
        carry, ys = cut(own.bind((), consts, init, blocks), scan.n_carry)
        return carry, [reshape(y, shape=(whole, *y.shape[2:])) for y in ys]

    def left(init: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
        rows = [read_along(x, 0, whole, rest) for x in xs]
        own = scan.but(length=rest, unroll=1)
        carry, ys = cut(own.bind((), consts, init, rows), scan.n_carry)
        return carry, list(ys)

    if not rest:
        carry, ys = in_turns(init)
        return [*carry, *ys]
    if scan.reverse:
        carry, last = left(init)
        carry, first = in_turns(carry)
    else:
        carry, first = in_turns(init)
        carry, last = left(carry)
    return [*carry, *(concatenate(list(each), axis=0) for each in zip(first, last, strict=True))]
