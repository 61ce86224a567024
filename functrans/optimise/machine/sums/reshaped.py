"""Sums of all elements or of leading axes: along axes whose indices need no division.

The sum of all elements does not depend on the shape. In a flattened concatenation, quotients and
remainders of the index decide which part an element belongs to; in its original shape they are not
needed. A value that is computed elementwise from arrays in memory is summed as if it had one axis
(loop coalescing), because rows of three elements do not fill a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import accumulate, groupby
from math import prod
from operator import mul
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.ir.types import Shape
from functrans.loop.target import Target
from functrans.ops.arrays.shape import Joins
from functrans.ops.arrays.structural import reduce_sum, reshape, reshape_p
from functrans.ops.compiled.regrouping import MOST_BETWEEN, reshape_in
from functrans.ops.linalg.contraction import dot_general
from functrans.ops.reductions.reduce import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
)
from functrans.optimise.rewrite import Rule
from functrans.trace.stage import Environment

SHORT = 8
"""The largest extent of a last axis that does not fill a vector."""

REDUCTIONS = (reduce_sum, reduce_max, reduce_min, reduce_prod, reduce_or, reduce_and)


def of_reshaped_arrays(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """The rules that sum reshaped arrays along the axes that they had before."""
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if _is_apart(eqn, target) and eqn.inputs[0].aval.size > target[Joins].small:
            shape = _shape_before(eqn, graph.makers, target)
            if shape is not None:
                rules[eqn] = partial(_reduced, eqn, shape, graph.makers)
    return rules


def of_dense_arrays(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """The rules that sum arrays in memory, with several axes, along a single axis."""
    if target.lanes_are_threads:
        return {}
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        shape = _fewest_axes(eqn)
        if shape is not None and eqn.inputs[0].aval.size > target[Joins].small:
            if all(_lies_in_memory(x, graph.makers, eqn.outputs[0].aval.shape) for x in eqn.inputs):
                rules[eqn] = partial(_reduced, eqn, shape, {})
    return rules


def _fewest_axes(eqn: Eqn) -> Shape | None:
    """The fewest axes for a reduction: adjacent reduced axes are one, as are short kept ones."""
    if _takes_all_axes(eqn):
        return (eqn.inputs[0].aval.size,)
    if eqn.primitive not in REDUCTIONS or not eqn.inputs[0].aval.ndim:
        return None
    shape, axes = eqn.inputs[0].aval.shape, eqn.params["axes"]
    joins = [True, shape[-1] < SHORT]  # of reduced, and of kept axes
    found: list[int] = []
    for is_kept, group in groupby(range(len(shape)), lambda axis: axis not in axes):
        extents = [shape[axis] for axis in group]
        found += [prod(extents)] if joins[is_kept] else extents
    return tuple(found) if len(found) < len(shape) else None


def _takes_all_axes(eqn: Eqn) -> bool:
    """Whether an equation reduces operands with several axes to one number."""
    if eqn.primitive is dot_general:
        first, second = eqn.params["contract"]
        return first == second and all(x.aval.ndim == len(first) > 1 for x in eqn.inputs)
    return eqn.primitive in REDUCTIONS and len(eqn.params["axes"]) == eqn.inputs[0].aval.ndim > 1


def _lies_in_memory(atom: Atom, producers: Mapping[Atom, Eqn], columns: Shape) -> bool:
    """Whether a value is computed elementwise from the graph's inputs and numbers alone.

    Inputs may also be ``columns``, which all rows share.
    """
    waiting, seen = [atom], {atom}
    while waiting and len(seen) <= MOST_BETWEEN:
        one = waiting.pop()
        eqn = producers.get(one)
        if one.aval.size > 1 and one.aval.shape not in (atom.aval.shape, columns):
            return False
        if eqn is None or one.aval.size <= 1:
            continue
        if eqn.primitive.scalar is None:
            return False
        own = [x for x in eqn.inputs if x not in seen]
        waiting += own
        seen.update(own)
    return not waiting


def _is_apart(eqn: Eqn, target: Target) -> bool:
    """Whether an equation reduces all elements of flat operands; on a grid, also rows."""
    if eqn.primitive is dot_general:
        return all(x.aval.ndim == 1 for x in eqn.inputs) and not eqn.outputs[0].aval.shape
    takes_all = eqn.outputs[0].aval.size == 1
    return eqn.primitive in REDUCTIONS and (takes_all or target.lanes_are_threads)


def _shape_before(eqn: Eqn, producers: Mapping[Atom, Eqn], target: Target) -> Shape | None:
    """The shape that operands had before they were reshaped; None if all of them are in memory.

    A grid of threads reshapes those in memory, too: neighbouring accesses cannot be recognised
    through quotients.
    """
    found = [reshape_in(x, producers, ()) for x in eqn.inputs]
    # an array in memory can be read in any shape
    shapes = {each.inputs[0].aval.shape for each in found if each is not None}
    computed = target.lanes_are_threads or any(
        each is not None and each.inputs[0] in producers for each in found
    )
    return shapes.pop() if len(shapes) == 1 and computed else None


def _reduced(
    eqn: Eqn, shape: Shape, producers: Mapping[Atom, Eqn], values: Environment
) -> list[Any]:
    def operand(x: Any) -> Any:
        maker = producers.get(x)
        if maker is not None and maker.primitive is reshape_p:
            # later laws look for the operand of a reshape
            x = maker.inputs[0]
        return reshape(values.read(x), shape=shape)

    operands = [operand(x) for x in eqn.inputs]
    if eqn.primitive is dot_general:
        axes = tuple(range(len(shape)))
        return [dot_general(*operands, contract=(axes, axes), batch=((), ()))]
    axes = _axes_before(shape, eqn.inputs[0].aval.shape, eqn.params["axes"])
    result = eqn.primitive(*operands, **{**eqn.params, "axes": axes})
    return [reshape(result, shape=eqn.outputs[0].aval.shape)]


def _axes_before(before: Shape, after: Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of the former shape that correspond to given axes of the new shape."""
    ends = list(accumulate(before, mul))
    found: list[int] = []
    done = 1
    for axis, extent in enumerate(after):
        own = [i for i, end in enumerate(ends) if done < end <= done * extent]
        found += own if axis in axes else []
        done *= extent
    return tuple(found)
