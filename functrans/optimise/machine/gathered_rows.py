"""Layout selection for gathers: the indexed axes come first, so that each index reads a row.

If the last axis of an array is indexed, the elements that one index selects are far apart in
memory, and a vector of them is loaded element by element. If the gather reads at least as many
elements as the array has, it is faster to store a transposed copy first, in which each index
selects a row (docs/measurements.md). This occurs in derivatives with respect to many inputs:
tangents have the axis of the inputs first, and results have it last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.loop.target import Target
from functrans.ops.arrays.structural import reshape_p, transpose_p
from functrans.ops.compiled.regrouping import merged_axes
from functrans.ops.indexing.gather import gather
from functrans.optimise.machine.contraction_layout import Order, transposed
from functrans.records import NamedTuple


class GatheredRows(NamedTuple):
    """Thresholds for the transposition of arrays before gathers.

    Measured: `shortest` and `often` (gathers from transposed arrays).
    """

    shortest: int = 4
    """The fewest elements of a row that an index selects."""
    often: int = 1
    """The least number of times that each element of the array is read, on average."""


def gather_rows(graph: Graph, target: Target) -> Graph:
    """Transpose arrays before they are gathered from, so that each index selects a row.

    Expects contractions in their final layout, which absorb transposes.
    Leaves gathers along the first axes of transposed arrays (`functrans.lower.select.materialise`
    stores these).
    """
    outputs = set(graph.outputs)
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        order = _order_of_results(eqn, graph.readers, outputs) if eqn.primitive is gather else None
        eqns += [eqn] if order is None else _of_rows(eqn, order, target)
    return graph if len(eqns) == len(graph.eqns) else Graph(graph.inputs, eqns, graph.outputs)


def _order_of_results(
    eqn: Eqn, readers: Mapping[Atom, Sequence[Eqn]], outputs: Set[Atom]
) -> Order | None:
    """The axes of a gather's result, in the order in which an output of the graph stores them.

    Axes of one element are left out. None unless the result becomes an output by transposes,
    reshapes and elementwise operations.
    """
    (var,) = eqn.outputs
    groups: list[Order] = [(i,) for i in range(var.aval.ndim)]
    while var not in outputs:
        found = {*readers.get(var, ())}
        if len(found) != 1:
            return None
        (reader,) = found
        out = reader.outputs[0]
        if reader.primitive is transpose_p:
            groups = [groups[i] for i in reader.params["permutation"]]
        elif reader.primitive is reshape_p:
            merged = merged_axes(var.aval.shape, out.aval.shape)
            if merged is None:
                return None
            groups = [tuple(i for axis in axes for i in groups[axis]) for axes in merged]
        elif reader.primitive.scalar is None or out.aval.shape != var.aval.shape:
            return None
        var = out
    return tuple(i for group in groups for i in group if eqn.outputs[0].aval.shape[i] > 1)


def _of_rows(eqn: Eqn, order: Order, target: Target) -> list[Eqn]:
    """A gather of rows between two transposes, given the order in which its result is stored."""
    x, *indices = eqn.inputs
    (out,) = eqn.outputs
    axes = eqn.params["axes"]
    others = [i for i in range(x.aval.ndim) if i not in axes]
    indexed = out.aval.ndim - len(others)
    if not order or order[-1] < indexed:
        return [eqn]
    rest = [i - indexed for i in order if i >= indexed]
    rest = [i for i in range(len(others)) if i not in rest] + rest
    permutation = (*axes, *(others[i] for i in rest))
    last = permutation[-1]
    if last == x.aval.ndim - 1 or not is_worth_rows(eqn, x.aval.shape[last], target):
        return [eqn]
    made: list[Eqn] = []
    operand = transposed(x, permutation, eqn, made)
    rows = Var(out.aval.update(shape=(*out.aval.shape[:indexed], *operand.aval.shape[len(axes) :])))
    params = dict(eqn.params, axes=tuple(range(len(axes))))
    made.append(Eqn(gather, (operand, *indices), (rows,), params, eqn.source))
    back = (*range(indexed), *(indexed + rest.index(i) for i in range(len(rest))))
    made.append(Eqn(transpose_p, (rows,), (out,), {"permutation": back}, eqn.source))
    return made


def reads_rows(eqn: Eqn, x: Atom, target: Target) -> bool:
    """Whether a gather reads rows of an array, and enough of them to store a transposed copy."""
    if eqn.primitive is not gather or eqn.inputs[0] is not x:
        return False
    last = x.aval.ndim - 1
    return last not in eqn.params["axes"] and is_worth_rows(eqn, x.aval.shape[last], target)


def is_worth_rows(eqn: Eqn, length: int, target: Target) -> bool:
    """Whether a gather reads rows long enough, and often enough, to transpose its array before."""
    limits = target[GatheredRows]
    read, of = eqn.outputs[0].aval.size, eqn.inputs[0].aval.size
    return length >= limits.shortest and read >= limits.often * of
