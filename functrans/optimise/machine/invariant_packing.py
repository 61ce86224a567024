"""Loop-invariant packing: matrices that all steps of a loop multiply by are packed before it.

The rows of a panel (a few columns, all terms) are a whole row of the matrix apart in memory. They
are in many pages, and, if that distance is a power of two, in few sets of the nearest cache. A copy
in panels, made once before the loop, is read contiguously. Products in loops read their right
operand in place (`functrans.ops.linalg.compiled.forms`): it becomes a transpose and a reshape of
this copy, which only change indices.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Var, inlined
from functrans.ir.types import GROWS, Aval
from functrans.loop.target import Target
from functrans.ops.arrays.shape import concatenate_p
from functrans.ops.arrays.slicing import embed, embed_p, read_slice, slice_p
from functrans.ops.arrays.structural import broadcast_to_p, full_p, reshape, transpose, transpose_p
from functrans.ops.control.scan import scan_p
from functrans.ops.control.while_loop import while_p
from functrans.ops.linalg.compiled.blas import counts
from functrans.ops.linalg.compiled.forms import Forms, shared_rows
from functrans.ops.linalg.contraction import dot_general, gemm
from functrans.optimise.loops import Const, Loop
from functrans.records import NamedTuple
from functrans.trace.stage import rewrite


class InvariantPacking(NamedTuple):
    """Thresholds for packing before a loop. Measured: all but `least_steps` (LSTM, GRU)."""

    least_steps: int = 8
    """The fewest steps of a scan for which packing is profitable."""
    least_bytes: int = 1 << 15
    """The fewest bytes of a matrix for which it is profitable: the first-level cache holds a
    smaller one.
    """
    fewest_rows: int = 16
    """The fewest rows of a product that threads divide for all steps of a loop; with fewer, a large
    product is shared in each step, or computed for all steps at once.
    """


class _Panels(NamedTuple):
    """The packed form of a matrix."""

    turned: bool  # whether the matrix has a row for each column of the product
    terms: int  # the extents of the right operand
    columns: int
    width: int  # the columns of a panel

    def packed(self, matrix: Any) -> list[Any]:
        """The panels of a matrix; the last one is padded with columns of zeros."""
        if self.turned:
            matrix = transpose(matrix, permutation=(1, 0))
        count = -(-self.columns // self.width)
        index = (0, self.terms, 1), (0, self.columns, 1)
        padded = embed(matrix, index=index, shape=(self.terms, count * self.width))
        panels = reshape(padded, shape=(self.terms, count, self.width))
        return [transpose(panels, permutation=(1, 0, 2))]

    def unpacked(self, panels: Any) -> list[Any]:
        """The right operand, from its panels."""
        rows = transpose(panels, permutation=(1, 0, 2))
        padded = reshape(rows, shape=(self.terms, rows.shape[1] * self.width))
        return [read_slice(padded, index=((0, self.terms, 1), (0, self.columns, 1)))]


Matrix = tuple[Atom, _Panels]


def pack_before_loops(graph: Graph, target: Target) -> Graph:
    """Pack constant matrices by which each step of a loop multiplies, once before the loop.

    Expects loops without operations that can be computed for all steps at once.
    Leaves products in loops that read panels.
    """
    eqns: list[Eqn] = []
    panels: dict[Matrix, Atom] = {}
    for eqn in graph.eqns:
        if eqn.primitive in (scan_p, while_p) and _is_long(eqn, target):
            eqn = _with_panels(eqn, panels, eqns, target)
        eqns.append(eqn)
    return Graph(graph.inputs, eqns, graph.outputs)


def _is_long(loop: Eqn, target: Target) -> bool:
    """Whether a loop has enough steps for a copy, or an unknown number."""
    length: int = loop.params.get("length", GROWS)
    return length == GROWS or length >= target[InvariantPacking].least_steps


def rows_stay_apart(loop: Loop) -> bool:
    """Whether each block of rows may execute all steps on its own, by a simple analysis."""
    consts: set[Atom] = {const.inner[0] for const in loop.consts}
    moves = broadcast_to_p, concatenate_p, embed_p, full_p, slice_p
    return all(
        eqn.primitive.elementwise
        or eqn.primitive in moves
        or (eqn.primitive is transpose_p and eqn.inputs[0] in consts)
        or (eqn.primitive is dot_general and _is_by_constant(eqn, loop, consts))
        for eqn in loop.body
    )


def _is_by_constant(product: Eqn, loop: Loop, consts: Container[Atom]) -> bool:
    """Whether the right operand of a product is a constant matrix, or the transpose of one."""
    turns = _turns(loop)
    right = product.inputs[1]
    return turns.get(right, right) in consts


def _turns(loop: Loop) -> Mapping[Atom, Atom]:
    """The operand of each transpose in a loop."""
    return {x.outputs[0]: x.inputs[0] for x in loop.body if x.primitive is transpose_p}


def reads_panels(eqn: Eqn, consts: Container[Atom], target: Target) -> bool:
    """Whether an equation of a loop with independent rows is a product that will read panels."""
    if eqn.primitive is not dot_general or eqn.inputs[1] not in consts:
        return False
    enough = counts(eqn).rows >= target[InvariantPacking].fewest_rows
    return enough and _panels(eqn, {eqn.inputs[1]}, {}, True, target) is not None


def _with_panels(eqn: Eqn, panels: dict[Matrix, Atom], before: list[Eqn], target: Target) -> Eqn:
    """A loop whose products read panels, which are made ``before`` it."""
    loop = Loop(eqn)
    outer: dict[Atom, Atom] = {const.inner[0]: const.outer for const in loop.consts}
    turns, apart = _turns(loop), rows_stay_apart(loop)
    inside: dict[Matrix, Var] = {}
    body: list[Eqn] = []
    for each in loop.body:
        own = _panels(each, outer, turns, apart, target)
        if own is None:
            body.append(each)
            continue
        matrix, form = own
        key = outer[matrix], form
        if key not in panels:
            made, (panels[key],) = inlined(
                rewrite(form.packed, [matrix.aval]), [outer[matrix]], eqn.source
            )
            before += made
        if key not in inside:
            names = tuple(Var(panels[key].aval) for _ in loop.consts[0].inner)
            loop.consts.append(Const(names, panels[key]))
            inside[key] = names[0]
        reads, (right,) = inlined(
            rewrite(form.unpacked, [panels[key].aval]), [inside[key]], each.source
        )
        body += [*reads, _by_panels(each, right)]
    loop.body = body
    return loop.rebuilt() if inside else eqn


def _panels(
    eqn: Eqn, outer: Container[Atom], turns: Mapping[Atom, Atom], apart: bool, target: Target
) -> Matrix | None:
    """The constant matrix by which an equation multiplies, and its panels, if they are worth it."""
    if eqn.primitive is not dot_general or eqn.params["batch"] != ((), ()):
        return None
    limits, size, right = target[InvariantPacking], counts(eqn), eqn.inputs[1]
    matrix = turns.get(right, right)
    if matrix not in outer or len(matrix.aval.shape) != 2 or len(eqn.params["contract"][1]) != 1:
        return None
    is_large = size.multiplications >= target[Forms].least_work_in_loops
    if is_large and not (apart and size.rows >= limits.fewest_rows):
        return None
    (axis,) = eqn.params["contract"][1]
    dtype, shape = right.aval.dtype, (size.summed, size.columns)
    width = 2 * target.lanes(dtype.itemsize)
    if matrix.aval.size * dtype.itemsize < limits.least_bytes or size.columns <= width:
        return None
    if dtype.kind != "f" or not _has_form(eqn, Var(Aval(shape, dtype)), target):
        return None
    return matrix, _Panels((axis == 1) != (matrix is not right), *shape, width)


def _has_form(eqn: Eqn, right: Var, target: Target) -> bool:
    """Whether a product reads its right operand in place, if it has a row for each term."""
    return shared_rows(_by_panels(eqn, right), replace(target, in_loop=True)) > 0


def _by_panels(eqn: Eqn, right: Atom) -> Eqn:
    """A product whose right operand is in panels, with a row for each term."""
    axes = {"contract": (eqn.params["contract"][0], (0,)), "batch": ((), ())}
    params = {**axes, "parts": None, "symmetric": False, "panels": True}
    return Eqn(gemm, [eqn.inputs[0], right], eqn.outputs, params, eqn.source)
