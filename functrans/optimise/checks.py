"""Postconditions of graph passes: each check raises a `GraphTypeError` if it is violated.

Apart from these, every graph is type-checked after each pass (`functrans.ir.check`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from functrans.errors import GraphTypeError
from functrans.ir.graph import Atom, Eqn, Graph, prune
from functrans.ir.types import is_complex
from functrans.lazily import lazy
from functrans.loop.target import Target
from functrans.ops.elementwise.complex_numbers import interleave_p, join_p
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.loops import Loop, is_loop
from functrans.optimise.simplification import is_call, is_constant, value_number

# programs without products do without
_is_laid_out = lazy("functrans.ops.linalg.compiled.blas:is_laid_out")
_is_large = lazy("functrans.ops.linalg.compiled.blas:is_large")


def nothing_more(*of: Any) -> None:
    """No postcondition beyond the one of every pass: the graph computes the same."""


def has_no_calls(graph: Graph) -> None:
    none_is(graph, is_call, "is a call that could be inlined")


def has_no_constants(graph: Graph) -> None:
    none_is(graph, lambda eqn: is_constant(eqn, eqn.inputs), "could have been evaluated")


def has_no_duplicates(graph: Graph) -> None:
    seen: set[Hashable] = set()
    for eqn in graph.eqns:
        number = value_number(eqn, eqn.inputs)
        if number in seen:
            raise _violated(eqn, "is computed before")
        seen.add(number)


def has_no_dead_code(graph: Graph) -> None:
    needed = {*prune(graph).eqns}
    none_is(graph, lambda eqn: eqn not in needed, "is not needed")


def loops_are_lean(graph: Graph) -> None:
    message = "takes or stacks a value twice"
    none_is(graph, lambda eqn: is_loop(eqn) and _repeats(Loop(eqn)), message)


def _repeats(loop: Loop) -> bool:
    listed: tuple[list[Atom], ...] = (
        [const.outer for const in loop.consts],
        [row.outer for row in loop.rows],
        [stacked.out for stacked in loop.stacked],
    )
    return any(len({*atoms}) < len(atoms) for atoms in listed)


def is_real(graph: Graph, target: Target) -> None:
    """Complex values occur only as operands and results of NumPy calls and of interleaving."""
    if any(is_complex(atom.aval.dtype) for atom in (*graph.inputs, *graph.outputs)):
        raise GraphTypeError("an input or an output is complex")
    users = {atom: eqn for eqn in graph.eqns for atom in eqn.inputs}
    for eqn in graph.eqns:
        given = [graph.makers.get(x) for x in eqn.inputs if is_complex(x.aval.dtype)]
        used = [users.get(x) for x in eqn.outputs if is_complex(x.aval.dtype)]
        if eqn.primitive not in (join_p, interleave_p) and (
            any(each is not None and each.primitive is not join_p for each in given)
            or any(each is not None and each.primitive is not interleave_p for each in used)
        ):
            raise _violated(eqn, "hands on complex values")


def contractions_fit(graph: Graph, target: Target) -> None:
    def is_unfit(eqn: Eqn) -> bool:
        is_contraction = eqn.primitive is dot_general and _is_large(eqn, target)
        return bool(is_contraction and not _is_laid_out(eqn))

    none_is(graph, is_unfit, "has operands that BLAS cannot be told of")


def none_is(graph: Graph, is_wrong: Callable[[Eqn], bool], words: str) -> None:
    for eqn in graph.eqns:
        if is_wrong(eqn):
            raise _violated(eqn, words)


def _violated(eqn: Eqn, words: str) -> GraphTypeError:
    return GraphTypeError(f"{eqn.primitive.name} {words}: {eqn}")
