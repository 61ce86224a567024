"""Gather sinking: costly elementwise operations before gathers that read elements several times.

Models with groups look up a parameter for the group of each row, and compute, for example, its
exponential, which is needed only once for each group.
"""

from __future__ import annotations

from functrans.ir.graph import Atom, Eqn, Graph, Var, prune
from functrans.loop.target import Target
from functrans.ops.compiled.elements import pattern
from functrans.ops.indexing.gather import gather
from functrans.optimise.rewrite import Rewriter
from functrans.records import NamedTuple


class Sinking(NamedTuple):
    """Thresholds of gather sinking. Measured: a product of gathered rows."""

    costly: int = 12
    """The fewest scalar operations, if none is slow, like a division: cheaper operations are
    computed wherever an element is read."""
    fewer: int = 2
    """The least ratio of the elements that a gather reads to those of the array."""


class _Read(NamedTuple):
    """A variable as a gather of an array; operations on the array that are not costly wait."""

    gather: Eqn
    array: Atom
    waiting: tuple[Eqn, ...] = ()


def gather_last(graph: Graph, target: Target) -> Graph:
    """Sink gathers below costly elementwise operations, which then compute fewer elements.

    Expects any graph.
    Leaves no costly elementwise operation on a gather from a much smaller array, and scalars,
    unless the operation may fail.
    """
    out, limits = Rewriter(graph), target[Sinking]
    reads: dict[Atom, _Read] = {}
    for eqn in graph.eqns:
        inputs = out.inputs(eqn)
        arrays = {x for x in inputs if x.aval.shape}
        read = reads.get(next(iter(arrays))) if len(arrays) == 1 else None
        if eqn.primitive is gather:
            source = inputs[0]
            if limits.fewer * source.aval.size <= eqn.outputs[0].aval.size:
                reads[eqn.outputs[0]] = _Read(eqn, source)
        elif read is not None and eqn.primitive.elementwise:
            (result,), (array,) = eqn.outputs, arrays
            fewer = Var(result.aval.update(shape=read.array.aval.shape))
            sources = [read.array if x is array else x for x in inputs]
            small = eqn.but(inputs=sources, outputs=(fewer,))
            waiting = (*read.waiting, small)
            own = pattern(small)
            if own.fails:  # perhaps for elements that are not read
                out.keep(eqn, inputs)
                continue
            if own.slow or own.work >= limits.costly:
                for one in waiting:
                    if one.outputs[0] not in out.producers:
                        out.keep(one, one.inputs)
                _, *indices = read.gather.inputs
                params, waiting = read.gather.params, ()
                eqn = Eqn(gather, (fewer, *indices), (result,), params, eqn.source)
                inputs = list(eqn.inputs)
            reads[result] = _Read(read.gather, fewer, waiting)
        out.keep(eqn, inputs)
    return prune(out.graph_now())
