"""cond: one of several branches, selected by a bool or an integer.

The operands are ``index, *operands``. Of two branches, a bool selects the second if it is true; of
more, an int64 selects the one of that number (clipped to the valid range). Every branch takes all
operands. Parameter: ``branches``, a tuple of graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Atom, Eqn, Graph, Var, inlined, prune
from functrans.ir.primitive import EqnSplit, Primitive
from functrans.ir.types import GROWS, Aval, interned
from functrans.lazily import lazy
from functrans.ops.arrays.structural import full_p, place
from functrans.ops.compiled.emission import Emit
from functrans.ops.compiled.pairs import flattened
from functrans.ops.control.layout import (
    Flags,
    check_operands,
    compact,
    cut,
    each,
    either,
    elsewhere,
    has_fixed_sizes,
    spread,
    strong,
    together,
    undivided,
    unused,
    unused_like,
    where,
    where_not,
)
from functrans.ops.control.partial_evaluation import mentioned, merged
from functrans.ops.control.residuals import choose
from functrans.ops.control.scan import each_lane
from functrans.ops.define import primitive
from functrans.records import NamedTuple
from functrans.trace.stage import replay, rewrite

Branches = tuple[Graph, ...]


def _infer(index: Aval, *avals: Aval, branches: Branches) -> tuple[Aval, ...]:
    if not index.same_array_type(index_aval(len(branches))):
        raise ShapeError(f"of {len(branches)} branches none is picked by {index}")
    results = strong(branches[0].out_avals)
    for branch in branches:
        check_operands("a branch of cond", branch.in_avals, avals)
        check_operands("the results of a branch of cond", results, branch.out_avals)
    return results


def _evaluate(index: Any, *operands: Any, branches: Branches) -> tuple[Any, ...]:
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    return tuple(evaluate(chosen, operands))


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, transform: Any, branches: Branches,
    order: int = 1,
) -> tuple[Sequence[Any], Sequence[Any]]:  # fmt: skip
    """Tangents, or tuples of derivatives up to ``order`` with a Taylor transform."""
    moving = tuple(t is not None for t in tangents[1:])
    pushed = [transform(branch, moving) for branch in branches]
    nonzero = reduce(either, (found for _, found in pushed))
    count = len(branches[0].outputs)
    wanted = where(nonzero, branches[0].out_avals)

    def with_tangents(graph: Graph, found: Flags) -> Graph:
        def branch(*inputs: Any) -> list[Any]:
            results = replay(graph, inputs)
            dots = where(nonzero, spread(together(results[count:], order), found))
            return [*results[:count], *each(_filled(dots, wanted, order))]

        return rewrite(branch, graph.in_avals)

    results = cond_p(
        *primals, *each(tangents[1:]), branches=tuple(with_tangents(*p) for p in pushed)
    )
    return results[:count], spread(together(results[count:], order), nonzero)


def _filled(values: Sequence[Any], avals: Sequence[Aval], order: int = 1) -> list[Any]:
    """Derivatives, with zeros for those that are absent in this branch but not in another."""
    return [
        x if x is not None else elsewhere(aval) if order == 1 else (elsewhere(aval),) * order
        for x, aval in zip(values, avals, strict=True)
    ]


def _transpose(
    cotangents: Sequence[Any], index: Any, *operands: Any, transform: Any, branches: Branches
) -> list[Any]:
    linear = tuple(isinstance(x, Aval) for x in operands)
    given = tuple(ct is not None for ct in cotangents)
    transposed = [transform(branch, linear, given) for branch in branches]
    nonzero = reduce(either, (t.nonzero for t in transposed))
    wanted = where(nonzero, where(linear, branches[0].in_avals))

    def with_cotangents(graph: Graph, found: Flags) -> Graph:
        def branch(*inputs: Any) -> list[Any]:
            results = replay(graph, inputs)
            # the cotangents follow the results that do not depend on linear operands
            cts = spread(results[len(results) - sum(found) :], found)
            return _filled(where(nonzero, cts), wanted)

        return rewrite(branch, graph.in_avals)

    known = [x for x in operands if not isinstance(x, Aval)]
    results = cond_p(
        index, *known, *compact(cotangents), branches=tuple(with_cotangents(*t) for t in transposed)
    )
    return [None, *spread(spread(results, nonzero), linear)]


# -- partial evaluation ----------------------------------------------------------------------------


def _split(unknown: Flags, *, transform: Any, branches: Branches) -> EqnSplit:
    """Split a cond into two: one selects the branch's known part, the other its unknown part.

    Each branch has its own residuals; the other branches return unused values in their place.
    """
    flags = tuple(unknown[1:])
    operands = [Var(aval) for aval in branches[0].in_avals]
    index = Var(index_aval(len(branches)))
    if unknown[0]:
        avals = [index.aval, *branches[0].in_avals]
        return undivided(cond_p, unknown, avals, {"branches": branches})
    known_in, unknown_in = where_not(flags, operands), where(flags, operands)
    parts = [transform(branch, flags) for branch in branches]
    unknown_out = reduce(either, (part.unknown_out for part in parts))
    divided = [_divide(part, unknown_out, known_in, unknown_in) for part in parts]
    saved = [var for part in divided for var in part.saved]
    shared = [var for var in known_in if any(var in part.reads for part in divided)]

    first = [_first(known_in, part, saved) for part in divided]
    rest = [Graph([*shared, *saved, *unknown_in], p.rest, p.rest_out) for p in divided]
    outs = [Var(aval) for aval in strong(first[0].out_avals)]
    rest_outs = [Var(aval) for aval in strong(rest[0].out_avals)]
    results, residuals = cut(outs, len(outs) - len(saved))
    return EqnSplit(
        prune(
            Graph(
                [index, *known_in],
                [Eqn(cond_p, [index, *known_in], outs, {"branches": tuple(first)})],
                [*results, index, *shared, *residuals],
            )
        ),
        Graph(
            [index, *shared, *residuals, *unknown_in],
            [
                Eqn(
                    cond_p,
                    [index, *shared, *residuals, *unknown_in],
                    rest_outs,
                    {"branches": tuple(rest)},
                )
            ],
            rest_outs,
        ),
        unknown_out,
    )


class _DividedBranch(NamedTuple):
    known: list[Eqn]
    known_out: list[Atom]
    saved: list[Var]
    rest: list[Eqn]
    rest_out: list[Atom]

    @property
    def reads(self) -> Mapping[Var, None]:
        """The reads of the unknown part."""
        return mentioned(self.rest, self.rest_out)


def _divide(
    part: Any, unknown_out: Flags, known_in: Sequence[Var], unknown_in: Sequence[Var]
) -> _DividedBranch:
    count = len(part.unknown_out) - sum(part.unknown_out)
    eqns, outs = inlined(part.known, known_in)
    rest, rest_out = inlined(part.unknown, [*outs[count:], *unknown_in])
    outputs = merged(part.unknown_out, outs[:count], rest_out)
    rest_out = where(unknown_out, outputs)
    theirs = {var for eqn in eqns for var in eqn.outputs}
    needed = [var for var in mentioned(rest, rest_out) if var in theirs]
    saved, again = choose(eqns, needed, known_in)
    return _DividedBranch(eqns, where_not(unknown_out, outputs), saved, [*again, *rest], rest_out)


def _first(inputs: Sequence[Var], part: _DividedBranch, saved: Sequence[Var]) -> Graph:
    """The known part of a branch, with a value for each residual of every branch."""
    fillers = {}
    for var in saved:
        if var not in part.saved:
            fillers[var] = _filler(var.aval)
    values = [fillers[var].outputs[0] if var in fillers else var for var in saved]
    return prune(Graph(inputs, [*part.known, *fillers.values()], [*part.known_out, *values]))


def _filler(aval: Aval) -> Eqn:
    """A value for another branch's residual: zeros, which compile, if that is possible."""
    params = {"shape": aval.shape, "dtype": aval.dtype}
    if GROWS in aval.shape:
        return Eqn(unused, (), [Var(aval)], params)
    return Eqn(full_p, (), [Var(aval)], {**params, "value": 0})


# -- vmap ------------------------------------------------------------------------------------------


def _batch(
    operands: Sequence[Any], axes: Sequence[int | None], *, size: int, transform: Any,
    branches: Branches,
) -> tuple[Sequence[Any], Sequence[int | None]]:  # fmt: skip
    if axes[0] is not None:
        lanes = {"branches": branches}, operands, axes, size
        return each_lane(cond_p, *lanes, _forwarded(branches))
    found = [transform(branch, tuple(axes[1:]), size) for branch in branches]
    out_axes = tuple(
        next((axis for axis in places if axis is not None), None)
        for places in zip(*(places for _, places in found), strict=True)
    )

    def placed(graph: Graph, places: Sequence[int | None]) -> Graph:
        def branch(*inputs: Any) -> list[Any]:
            return [
                _placed(x, axis, wanted, size)
                for x, axis, wanted in zip(replay(graph, inputs), places, out_axes, strict=True)
            ]

        return rewrite(branch, graph.in_avals)

    return cond_p(*operands, branches=tuple(placed(*f) for f in found)), out_axes


def _forwarded(branches: Branches) -> dict[int, int]:
    """The results that are the same operand in all branches, with that operand."""
    places = [
        [graph.inputs.index(x) if x in graph.inputs else None for x in graph.outputs]
        for graph in branches
    ]
    first, *others = places
    # operand 0 selects the branch
    return {
        result: place + 1
        for result, place in enumerate(first)
        if place is not None and all(other[result] == place for other in others)
    }


def _placed(x: Any, axis: int | None, wanted: int | None, size: int) -> Any:
    if wanted is not None and axis is None and GROWS in x.shape:
        # another branch's stack, which is not read
        return unused_like(interned((*x.shape[:wanted], size, *x.shape[wanted:]), x.dtype))
    return place(x, axis, wanted, size)


# -- complex numbers -------------------------------------------------------------------------------


def _in_parts(operands: Sequence[Any], *, transform: Any, branches: Branches) -> Sequence[Any]:
    return cond_p(*flattened(operands), branches=tuple(map(transform, branches)))


# -- the primitive ---------------------------------------------------------------------------------


def index_aval(branches: int) -> Aval:
    """The type of the operand that selects a branch."""
    return interned((), np.dtype(np.bool_ if branches == 2 else np.int64))


cond_p: Primitive = primitive(
    "cond",
    infer=_infer,
    numpy=_evaluate,
    jvp=_jvp,
    split=_split,
    transpose=_transpose,
    batch=_batch,
    parts=_in_parts,
    sparsity=lazy("functrans.ops.control.dependence:of_cond"),
    host=lazy("functrans.ops.control.compiled.growing:run_cond"),
    emit=Emit(
        lazy("functrans.ops.control.compiled.loops:cond"),
        applies=lambda eqn, target: has_fixed_sizes(eqn),
        operations=lambda eqn, of_graph: max(map(of_graph, eqn.params["branches"])),
    ),
    several=True,
    higher_order=True,
)
