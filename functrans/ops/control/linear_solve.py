"""linear_solve: the solution of a linear system that is given by functions.

The solver itself is not differentiated. The derivative of the solution solves the same system with
another right-hand side, its transpose the transposed system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrans.errors import NotDifferentiableError
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Graph
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.ops.arrays.structural import instantiated, place
from functrans.ops.control.layout import check_operands, compact, cut, spread, strong, taking
from functrans.ops.define import primitive
from functrans.records import NamedTuple
from functrans.trace.stage import replay


class Solver(NamedTuple):
    """The functions of a linear system; each takes the consts and then a vector."""

    matvec: Graph  # maps x to A x
    # Maps b to the x with A x = b. This is what the equation computes, so it is inlined like a
    # call.
    graph: Graph
    # the same two graphs for the transposed system; empty if no transposed solver is given
    transposed: tuple[Graph, ...]
    n_consts: int

    def bind(self, consts: Sequence[Any], b: Sequence[Any]) -> Sequence[Any]:
        """The solution."""
        return linear_solve_p(*consts, *b, **self._asdict())

    def transpose(self) -> Solver:
        """The transposed system."""
        if not self.transposed:
            raise NotDifferentiableError(
                "reverse mode through custom_linear_solve needs to know how to solve the "
                "transposed system: pass transpose_solve=..., or symmetric=True"
            )
        matvec, solve = self.transposed
        return Solver(matvec, solve, (self.matvec, self.graph), self.n_consts)


def _jvp(
    solver: Solver, primals: Sequence[Any], tangents: Sequence[Any], *, transform: Any
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The jvp rule: A dx = db - dA x."""
    consts, b = cut(primals, solver.n_consts)
    consts_dot, b_dot = cut(tangents, solver.n_consts)
    x = solver.bind(consts, b)
    moving = tuple(t is not None for t in consts_dot)
    right = list(b_dot)
    if any(moving):
        pushed, nonzero = transform(solver.matvec, moving + (False,) * len(x))
        moved = replay(pushed, [*consts, *x, *compact(consts_dot)])[len(x) :]
        for i, t in enumerate(spread(moved, nonzero)):
            if t is not None:
                right[i] = -t if right[i] is None else right[i] - t
    if all(t is None for t in right):
        return x, right
    return x, solver.bind(consts, instantiated(right, b))


def _transpose(
    solver: Solver, cotangents: Sequence[Any], *operands: Any, transform: Any
) -> list[Any]:
    consts, b = cut(operands, solver.n_consts)
    right = instantiated(cotangents, solver.graph.out_avals)
    results = solver.transpose().bind(consts, right)
    return [
        *(None for _ in consts),
        *(ct if isinstance(y, Aval) else None for ct, y in zip(results, b, strict=True)),
    ]


def _batch(
    solver: Solver, operands: Sequence[Any], axes: Sequence[int | None], *, size: int,
    transform: Any,
) -> tuple[Sequence[Any], Sequence[int | None]]:  # fmt: skip
    consts, b = cut(operands, solver.n_consts)
    c_axes, b_axes = cut(axes, solver.n_consts)
    everywhere = (0,) * len(b)

    def batched(graph: Graph) -> Graph:
        return transform(graph, (*c_axes, *everywhere), size, everywhere)[0]

    mapped = Solver(
        batched(solver.matvec),
        batched(solver.graph),
        tuple(map(batched, solver.transposed)),
        solver.n_consts,
    )
    vectors = [place(y, axis, 0, size) for y, axis in zip(b, b_axes, strict=True)]
    return mapped.bind(consts, vectors), everywhere


def _infer(solver: Solver, *avals: Aval) -> tuple[Aval, ...]:
    check_operands("linear_solve", solver.graph.in_avals, avals)
    return strong(solver.graph.out_avals)


_rule = taking(Solver, Solver._fields)

linear_solve_p: Primitive = primitive(
    "linear_solve",
    infer=_rule(_infer),
    numpy=_rule(lambda solver, *values: tuple(evaluate(solver.graph, values))),
    jvp=_rule(_jvp),
    transpose=_rule(_transpose),
    batch=_rule(_batch),
    several=True,
    higher_order=True,
)
