"""Sparse derivatives by compression: one product for all columns, or rows, that do not overlap.

The sparsity pattern is derived from the linear graph of the derivative. Its columns are coloured,
and the products with one vector for each colour contain all entries (Gebremedhin, Manne and Pothen,
"What color is your Jacobian?", SIAM Review, 2005). Pattern and colours are computed while a
function is traced, so that a compiled function computes only the products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from functrans.api.arguments import aval_of_leaf, name_of
from functrans.api.compressed import structure_of
from functrans.api.jacobians import shapes
from functrans.api.linearization import Point, is_tracer, run_derivative
from functrans.api.problem import Problem
from functrans.caches import Table
from functrans.errors import DtypeError, ShapeError, TracerConversionError
from functrans.ir.graph import Graph, Var
from functrans.ir.primitive import current
from functrans.ir.types import is_complex
from functrans.ops.arrays.structural import cast, made, reshape
from functrans.ops.calls.custom import is_reverse_only
from functrans.ops.control.layout import spread
from functrans.ops.dependence import Pattern, stacked
from functrans.ops.indexing.cyclic import cyclic_vectors
from functrans.ops.indexing.gather import gather
from functrans.records import NamedTuple
from functrans.trace.source import here
from functrans.trace.trace import Trace
from functrans.transform.acyclic import (
    MOST_PATHS,
    Substitution,
    colour_acyclic,
    count_paths,
    substituted,
    substitution,
)
from functrans.transform.bands import Band, band_of, cyclic_colours, read_band
from functrans.transform.colouring import (
    colour_columns,
    colour_star,
    count_colours,
    places_of_columns,
    places_of_star,
)
from functrans.transform.forward import variables
from functrans.transform.jacobian import forward_lanes, reverse_lanes
from functrans.transform.sparsity import patterns
from functrans.transform.split import split
from functrans.tree.compare import Structure

Sides = Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
"""The shape and dtype of each leaf of the results, or of the arguments."""


class Plan(NamedTuple):
    """The plan of a sparse derivative: products to compute, and how entries are read from them."""

    pattern: Pattern  # its rows are the elements of all results, its columns those of all arguments
    colours: Any  # the colours of the columns; in reverse mode, of the rows
    # for each entry, its element in a product, and the colour of that product
    places: tuple[Any, Any]
    is_reverse: bool  # whether the products are computed in reverse mode, for rows
    band: Band | None = None  # how entries are read if the matrix is a band with cyclic colours
    # how entries are computed from an acyclic colouring, in place of ``places``
    substitution: Substitution | None = None


def pattern_of(point: Point, name: str) -> Pattern:
    """The sparsity pattern of the derivative at a point, of a function of that name."""
    linear = point.linear
    found = patterns(linear.graph, _known(point, name))
    width = sum(prod(aval.shape) for aval in linear.graph.in_avals[len(linear.residuals) :])
    sizes, flags = _heights(point), linear.nonzero[: point.count]
    whole = stacked(spread(found, flags), sizes)
    pattern = csr_array((sum(sizes), width), dtype=bool) if whole is None else whole
    pattern.sum_duplicates()
    return pattern


def _heights(point: Point) -> tuple[int, ...]:
    """The number of elements of each result."""
    return tuple(prod(atom.aval.shape) for atom in point.graph.outputs[: point.count])


def _known(point: Point, name: str) -> list[Any]:
    """The known values of residuals that do not depend on differentiated arguments."""
    tangent = point.tangent
    every = variables(point.graph)
    moved = _reached(point.graph, point.moving)
    unknown = (False,) * len(tangent.needed) + (True,) * sum(point.moving)
    known = split(tangent.graph, unknown).known
    reached = _reached(known, [every[i] in moved for i in tangent.needed])
    residuals = point.linear.residuals
    atoms = known.outputs[len(known.outputs) - len(residuals) :]
    found = []
    for atom, x in zip(atoms, residuals, strict=True):
        is_fixed = atom not in reached
        if is_fixed and is_tracer(x):
            _check_positions(x, name)
        found.append(x if is_fixed and not is_tracer(x) else None)
    return found


def _check_positions(x: Any, name: str) -> None:
    """Raise for traced positions: any element might be read, so the derivative would be dense.

    For a captured array of a jitted function, the error turns the array into a constant.
    """
    if x.dtype.kind in "iu" and x.ndim:
        raise TracerConversionError(
            f"the sparsity pattern of {name} depends on positions that are traced, "
            f"{aval_of_leaf(x)}{here()}: let {name} close over them, or give the "
            "pattern, sparse=functrans.sparsity(f)(*arguments)"
        )


def _reached(graph: Graph, flags: Sequence[bool]) -> set[Any]:
    """The variables that depend on some of the inputs."""
    reached: set[Any] = {var for var, flag in zip(graph.inputs, flags, strict=True) if flag}
    for eqn in graph.eqns:
        if not reached.isdisjoint(x for x in eqn.inputs if isinstance(x, Var)):
            reached.update(eqn.outputs)
    return reached


_plans: Table[Any, tuple[list[Any], Plan]] = Table(64)
"""Plans, by the linear graph and the sizes of the results; each is valid for the known values for
which it was made."""


def plan_of(point: Point, name: str, is_symmetric: bool, given: Pattern | None) -> Plan:
    """The plan of the derivative at a point; ``given`` is a pattern from the user."""
    graph = point.linear.graph
    reverse_only = is_reverse_only(graph)
    if given is not None:
        return _planned(given, is_symmetric, reverse_only)
    known = _known(point, name)
    # a result that depends on no argument is not in the linear graph
    key = (graph, point.linear.nonzero, _heights(point), is_symmetric)
    before = _plans.get(key)
    if before is not None and _are_same(before[0], known):
        return before[1]
    plan = _planned(pattern_of(point, name), is_symmetric, reverse_only)
    _plans.remember(key, ([None if x is None else np.array(x) for x in known], plan))
    return plan


def _are_same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    return all(
        x is None if y is None else x is not None and np.array_equal(x, y)
        for x, y in zip(before, now, strict=True)
    )


def _planned(pattern: Pattern, is_symmetric: bool, reverse_only: bool) -> Plan:
    """The plan with the fewest colours; forward mode in case of a tie."""
    if is_symmetric:
        pattern = pattern + pattern.T.tocsr()
        pattern.sum_duplicates()
        colours = colour_star(pattern)
        if (plan := _of_a_band(pattern, reverse_only, count_colours(colours))) is not None:
            return plan
        if (plan := _by_substitution(pattern, reverse_only, count_colours(colours))) is not None:
            return plan
        return Plan(pattern, colours, places_of_star(pattern, colours), reverse_only)
    of_rows = colour_columns(pattern.T.tocsr())
    by_columns = False
    if not reverse_only:
        of_columns = colour_columns(pattern)
        by_columns = count_colours(of_columns) <= count_colours(of_rows)
    colours = of_columns if by_columns else of_rows
    if (plan := _of_a_band(pattern, not by_columns, count_colours(colours))) is not None:
        return plan
    return Plan(pattern, colours, _places(pattern, colours, not by_columns), not by_columns)


def _by_substitution(pattern: Pattern, is_reverse: bool, fewest: int) -> Plan | None:
    """The plan with an acyclic colouring, if it saves at least a third of the colours.

    Entries that are computed from others accumulate rounding errors, so a small gain is declined.
    """
    edges = (pattern.nnz - pattern.shape[0]) // 2
    if fewest < 3 or count_paths(pattern) > MOST_PATHS:
        return None
    colours = colour_acyclic(pattern)
    saved = fewest - count_colours(colours)
    if 3 * saved < fewest or saved * pattern.shape[0] < edges:
        return None
    how = substitution(pattern, colours)
    nowhere = np.zeros(0, np.int64), np.zeros(0, np.int64)
    return None if how is None else Plan(pattern, colours, nowhere, is_reverse, None, how)


def _places(pattern: Pattern, colours: Any, is_reverse: bool) -> tuple[Any, Any]:
    """The element and colour of each entry, if no row has two columns of equal colour."""
    rows, of_columns = places_of_columns(pattern, np.arange(pattern.shape[1]))
    return (of_columns, colours[rows]) if is_reverse else (rows, colours[of_columns])


def _of_a_band(pattern: Pattern, is_reverse: bool, fewest: int) -> Plan | None:
    """The plan for a band, which needs no stored positions; it may need up to half more colours."""
    colours = cyclic_colours(pattern.T.tocsr() if is_reverse else pattern, fewest + fewest // 2)
    if colours is None:
        return None
    places = _places(pattern, colours, is_reverse)
    band = band_of(pattern, places, count_colours(colours))
    return None if band is None else Plan(pattern, colours, places, is_reverse, band)


def sparse_blocks(
    given: Any, is_symmetric: Callable[[Problem], bool]
) -> Callable[[Point, Problem, int | None], list[list[Any]]]:
    """A function that computes the blocks of a derivative as sparse matrices."""

    def blocks(point: Point, problem: Problem, chunk_size: int | None) -> list[list[Any]]:
        ins, outs = shapes(problem.leaves), shapes(problem.outs)
        _check_real([*ins, *outs], problem)
        heights, widths = [prod(shape) for shape, _ in outs], [prod(shape) for shape, _ in ins]
        own = None if given is True else _checked(given, (sum(heights), sum(widths)), problem)
        plan = plan_of(point, name_of(problem.function), is_symmetric(problem), own)
        values = _entries(point, plan, (outs if plan.is_reverse else ins), chunk_size)
        return _divided(plan.pattern, values, heights, widths, [dtype for _, dtype in outs])

    return blocks


def _check_real(sides: Sides, problem: Problem) -> None:
    if any(is_complex(dtype) for _, dtype in sides):
        raise DtypeError(
            f"a sparse {problem.transform} is of real numbers, but {name_of(problem.function)} "
            "takes or returns complex ones: take their real and imaginary parts apart"
        )


def _checked(given: Any, shape: tuple[int, int], problem: Problem) -> Pattern:
    if not issparse(given):
        raise TypeError(
            f"sparse of {problem.transform} is True or a pattern, a matrix of scipy.sparse (as "
            f"functrans.sparsity gives), not {type(given).__name__}"
        )
    if given.shape != shape:
        raise ShapeError(
            f"the pattern for {problem.transform} of {name_of(problem.function)} has shape "
            f"{given.shape}, but there are {shape[0]} results and {shape[1]} arguments: {shape}"
        )
    stored = csr_array(given)
    pattern = csr_array((np.ones(stored.nnz, bool), stored.indices, stored.indptr), shape)
    pattern = pattern.copy()
    pattern.sum_duplicates()
    return pattern


def _entries(point: Point, plan: Plan, sides: Sides, chunk_size: int | None) -> Any:
    """The values of the pattern's entries, in order; ``sides`` are the coloured leaves."""
    count = count_colours(plan.colours)
    if not count or not plan.pattern.nnz:
        return np.zeros(0)
    step = count if chunk_size is None else min(chunk_size, count)
    if plan.band is not None and step == count and isinstance(current.get(), Trace):
        return read_band(_products(point, plan, sides, 0, count), plan.band)
    parts = [
        _products(point, plan, sides, first, min(step, count - first))
        for first in range(0, count, step)
    ]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=0)
    if plan.substitution is not None:
        width = aval_of_leaf(whole).shape[1]
        return substituted(reshape(whole, shape=(count * width,)), plan.substitution)
    elements, colours = (np.asarray(each, np.int64) for each in plan.places)
    # indexed by colour and element: in a flat array each element would need a division
    return gather(whole, colours, elements, axes=(0, 1))


def _products(point: Point, plan: Plan, sides: Sides, first: int, count: int) -> Any:
    """The products for some colours, as rows with the elements of all leaves."""
    linear = point.linear
    nonzero = linear.nonzero[: point.count]
    flags = nonzero if plan.is_reverse else (True,) * len(sides)
    starts = accumulate((prod(shape) for shape, _ in sides), initial=0)
    is_cyclic = plan.band is not None and count == plan.band.period and len(sides) == 1
    vectors = [
        _cyclic(count, shape, dtype)
        if is_cyclic
        else _vectors(plan.colours[start : start + prod(shape)], first, count, shape, dtype)
        for (shape, dtype), start, flag in zip(sides, starts, flags, strict=False)
        if flag
    ]
    lanes = reverse_lanes if plan.is_reverse else forward_lanes
    graph = lanes(linear.graph, len(linear.residuals), count)
    products = run_derivative(graph, [*linear.residuals, *vectors])
    if not plan.is_reverse:
        found = iter(products)
        products = [
            next(found) if flag else np.zeros((count, size))
            for flag, size in zip(nonzero, _heights(point), strict=True)
        ]
    flat = [reshape(x, shape=(count, prod(aval_of_leaf(x).shape[1:]))) for x in products]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)


_MOST_FOLDED = 1 << 18
"""Up to this many elements, the vectors are constants, which are folded during tracing. Larger ones
would take too much memory, and be slower to read."""


def _vectors(colours: Any, first: int, count: int, shape: Any, dtype: np.dtype[Any]) -> Any:
    """For each colour, the sum of the basis vectors of that colour."""
    chosen = np.arange(first, first + count)[:, None] == colours
    vectors = chosen.astype(dtype).reshape(count, *shape)
    trace = current.get()
    if vectors.size > _MOST_FOLDED and isinstance(trace, Trace):
        return trace.lift(vectors)
    return vectors


def _cyclic(count: int, shape: Any, dtype: np.dtype[Any]) -> Any:
    """As `_vectors`, for cyclic colours: in a trace an equation computes the vectors."""
    vectors = made(cyclic_vectors, period=count, shift=0, size=prod(shape), dtype=dtype)
    return reshape(vectors, shape=(count, *shape))


_structures: Table[int, tuple[Pattern, Structure]] = Table(64)
"""Pytrees of matrices, by the id of their pattern, which the entry keeps alive."""


def _divided(
    pattern: Pattern,
    values: Any,
    heights: Sequence[int],
    widths: Sequence[int],
    dtypes: Sequence[np.dtype[Any]],
) -> list[list[Any]]:
    """Divide a sparse matrix into blocks, by leaves of the results and arguments."""
    if len(heights) == len(widths) == 1:
        kept = _structures.get(id(pattern))
        if kept is None:
            kept = pattern, structure_of(pattern)
            _structures.remember(id(pattern), kept)
        return [[kept[1].unflatten([_as(values, dtypes[0])])]]
    numbers = csr_array(
        (np.arange(1, pattern.nnz + 1), pattern.indices, pattern.indptr), pattern.shape
    )
    blocks = []
    for top, height, dtype in zip(accumulate(heights, initial=0), heights, dtypes, strict=False):
        rows = numbers[top : top + height]
        row = []
        for left, width in zip(accumulate(widths, initial=0), widths, strict=False):
            block = rows[:, left : left + width]
            own = gather(values, block.data - 1, axes=(0,))
            row.append(structure_of(block).unflatten([_as(own, dtype)]))
        blocks.append(row)
    return blocks


def _as(values: Any, dtype: np.dtype[Any]) -> Any:
    return values if aval_of_leaf(values).dtype == dtype else cast(values, dtype=dtype)
