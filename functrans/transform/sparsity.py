"""Sparsity patterns of linear graphs, by forward abstract interpretation of the equations.

A derivative at a point is a linear graph (`functrans.transform.split`) of few primitives. The
pattern of an equation follows from the elements that it reads, or from the primitive's own rule;
otherwise a result is assumed to depend on everything, which makes a pattern larger, but no
derivative wrong. A pattern is valid for all values that are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import DensePatternError
from functrans.ir.graph import Eqn, Graph, Literal
from functrans.ir.primitive import compute
from functrans.ops.dependence import (
    Dependent,
    Pattern,
    TooDense,
    elementwise,
    everything,
    identity,
    pairs,
    product,
    size,
    union,
)
from functrans.trace.source import located
from functrans.transform.accesses import accesses


def patterns(
    graph: Graph,  # maps residuals and tangents to tangents
    # The value of each residual, or None if it may change. The other inputs are the tangents, whose
    # elements are the columns of the patterns.
    known: Sequence[Any],
) -> list[Pattern]:
    """The sparsity pattern of each output of a linear graph."""
    residuals = [
        Dependent(aval, None, None if value is None else np.asarray(value))
        for aval, value in zip(graph.in_avals, known, strict=False)
    ]
    avals = graph.in_avals[len(known) :]
    width = sum(map(size, avals))
    tangents, first = [], 0
    for aval in avals:
        tangents.append(Dependent(aval, identity(size(aval), first, width)))
        first += size(aval)
    return [
        pairs([], [], (size(out.aval), width)) if out.pattern is None else out.pattern
        for out in propagated(graph, [*residuals, *tangents])
    ]


def propagated(graph: Graph, inputs: Sequence[Dependent]) -> list[Dependent]:
    """The outputs of a linear graph, with their dependences."""
    env: dict[Any, Dependent] = dict(zip(graph.inputs, inputs, strict=True))

    def read(atom: Any) -> Dependent:
        if isinstance(atom, Literal):
            return Dependent(atom.aval, None, np.asarray(atom.value, atom.aval.dtype))
        return env[atom]

    for eqn in graph.eqns:
        try:
            results = _results(eqn, [read(atom) for atom in eqn.inputs])
        except TooDense as error:
            raise DensePatternError(
                f"what is computed{located(eqn.source)} depends on so much that its sparsity "
                f"pattern would have {error.entries:,} entries: this derivative is dense. Take "
                "products with it, by jvp, vjp or hvp, which need no matrix"
            ) from None
        env.update(zip(eqn.outputs, results, strict=True))
    return [read(atom) for atom in graph.outputs]


def _results(eqn: Eqn, operands: Sequence[Dependent]) -> list[Dependent]:
    avals = [var.aval for var in eqn.outputs]
    if all(x.pattern is None for x in operands):
        return _of_residuals(eqn, operands)
    found = _patterns(eqn, operands)
    return [Dependent(aval, pattern) for aval, pattern in zip(avals, found, strict=True)]


def _of_residuals(eqn: Eqn, operands: Sequence[Dependent]) -> list[Dependent]:
    """The results of an equation on residuals, which depend on no tangent."""
    avals = [var.aval for var in eqn.outputs]
    if not all(x.is_known for x in operands):
        return [Dependent(aval) for aval in avals]
    with np.errstate(all="ignore"):
        values = compute(eqn.primitive, [x.value for x in operands], eqn.params)
    every = values if eqn.primitive.several else (values,)
    return [Dependent(aval, None, np.asarray(x)) for aval, x in zip(avals, every, strict=True)]


def _patterns(eqn: Eqn, operands: Sequence[Dependent]) -> Sequence[Pattern | None]:
    primitive = eqn.primitive
    if primitive.sparsity is not None:
        more = {"inner": propagated} if primitive.higher_order else {}
        found = primitive.sparsity(*operands, **more, **eqn.params)
        if found is not NotImplemented:
            return found if primitive.several else (found,)
    if primitive.elementwise or primitive.scalar is not None:
        return (elementwise(*operands),)
    if primitive.pull is not None:
        return (_by_elements(eqn, operands),)
    return [everything(operands, var.aval) for var in eqn.outputs]


def _by_elements(eqn: Eqn, operands: Sequence[Dependent]) -> Pattern | None:
    wanted = [number for number, x in enumerate(operands) if x.pattern is not None]
    out = eqn.outputs[0].aval
    found = accesses(
        eqn.primitive, [x.aval for x in operands], [x.value for x in operands], wanted,
        eqn.params, out,
    )  # fmt: skip
    return union(
        [
            product(pairs(*found[number], (size(out), size(operands[number].aval))), pattern)
            for number in wanted
            if (pattern := operands[number].pattern) is not None
        ]
    )
