"""Inlining: the statements of another graph in place of an operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.loop.relocation import Relocation
from functrans.loop.statements import Buffer, Statement
from functrans.ops.compiled.emission import Emission, Inner
from functrans.trace.stage import rewrite


def relocated(
    at: Emission, inner: Inner, operands: Sequence[Buffer], results: Sequence[Buffer]
) -> tuple[Statement, ...]:
    """The statements of an inner graph, applied to buffers of the enclosing graph."""
    relocation = Relocation(at.simplify)
    for own, other in zip((*inner.inputs, *inner.outputs), (*operands, *results), strict=True):
        relocation.moved[own] = other, ()
    return relocation.statements(inner.statements)


def inline(at: Emission, function: Callable[..., Sequence[Any]]) -> None:
    """Compute the results by a function of the operands, written in primitives."""
    inner = at.lower(rewrite(function, [atom.aval for atom in at.eqn.inputs]))
    operands = [at.operand(number) for number in range(len(at.eqn.inputs))]
    results = [at.result(number) for number in range(len(at.eqn.outputs))]
    at.call(relocated(at, inner, operands, results), uncounted=inner.uncounted, stack=inner.scratch)
