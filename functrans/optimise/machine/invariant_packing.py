"""Loop-invariant packing: matrices that all steps of a loop multiply by are packed before it.

In memory, the rows of a panel (a few columns, all terms) are as far apart as the matrix has
columns. They are in many pages, and, if that distance is a power of two, in few sets of the nearest
cache. A copy that is made panel by panel, once before the loop, is read from its beginning to its
end. Small products in loops read their right operand in place
(`functrans.ops.linalg.compiled.forms`). Its place is in this copy then, by a transpose and a
reshape, which only move indices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from functrans.ir.graph import Atom, Eqn, Graph, Var, inlined
from functrans.ir.types import Aval
from functrans.loop.target import Target
from functrans.ops.arrays.slicing import embed, read_slice
from functrans.ops.arrays.structural import reshape, transpose, transpose_p
from functrans.ops.control.layout import GROWS
from functrans.ops.control.scan import scan_p
from functrans.ops.control.while_loop import while_p
from functrans.ops.linalg.compiled.forms import shared_rows
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.loops import Const, Loop
from functrans.trace.stage import rewrite


class InvariantPacking(NamedTuple):
    """Matrices that are packed before a loop. Measured: `least_bytes` (recurrent networks)."""

    least_steps: int = 8
    """Steps of a scan that are worth a copy."""
    least_bytes: int = 1 << 15
    """Bytes of a matrix that is worth one: the nearest cache holds a smaller one."""


class _Panels(NamedTuple):
    """How a matrix is packed.

    Parameters
    ----------
    turned : bool
        Whether the matrix has a row for each column of the product.
    terms, columns, width : int
        The extents of the right operand, and the columns of a panel.
    """

    turned: bool
    terms: int
    columns: int
    width: int

    def packed(self, matrix: Any) -> list[Any]:
        """The panels of a matrix; zeros stand for the columns that are missing in the last one."""
        if self.turned:
            matrix = transpose(matrix, permutation=(1, 0))
        count = -(-self.columns // self.width)
        index = (0, self.terms, 1), (0, self.columns, 1)
        padded = embed(matrix, index=index, shape=(self.terms, count * self.width))
        panels = reshape(padded, shape=(self.terms, count, self.width))
        return [transpose(panels, permutation=(1, 0, 2))]

    def unpacked(self, panels: Any) -> list[Any]:
        """The right operand that panels were made of."""
        rows = transpose(panels, permutation=(1, 0, 2))
        padded = reshape(rows, shape=(self.terms, rows.shape[1] * self.width))
        return [read_slice(padded, index=((0, self.terms, 1), (0, self.columns, 1)))]


Matrix = tuple[Atom, _Panels]


def pack_before_loops(graph: Graph, target: Target) -> Graph:
    """Pack constant matrices by which each step of a loop multiplies, once before the loop.

    Expects loops without operations that can be computed for all steps at once.
    Leaves products in loops that read panels.
    """
    if not any(eqn.primitive in (scan_p, while_p) for eqn in graph.eqns):
        return graph
    eqns: list[Eqn] = []
    panels: dict[Matrix, Atom] = {}
    for eqn in graph.eqns:
        least = target[InvariantPacking].least_steps
        if eqn.primitive is while_p or (eqn.primitive is scan_p and _steps(eqn, least) >= least):
            eqn = _with_panels(eqn, panels, eqns, target)
        eqns.append(eqn)
    return Graph(graph.inputs, eqns, graph.outputs)


def _with_panels(
    eqn: Eqn, panels: dict[Matrix, Atom], before: list[Eqn], target: Target
) -> Eqn:
    """A loop whose products read panels, which are made ``before`` it."""
    loop = Loop(eqn)
    outer = {const.inner[0]: const.outer for const in loop.consts}
    turns = {x.outputs[0]: x.inputs[0] for x in loop.body if x.primitive is transpose_p}
    inside: dict[Matrix, Var] = {}
    body: list[Eqn] = []
    for each in loop.body:
        own = _panels(each, outer, turns, target)
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
        body += [*reads, _times(each, right)]
    loop.body = body
    return loop.rebuilt() if inside else eqn


def _panels(
    eqn: Eqn, outer: Mapping[Atom, Atom], turns: Mapping[Atom, Atom], target: Target
) -> Matrix | None:
    """The constant matrix by which an equation multiplies, and its panels, if they are worth it."""
    if eqn.primitive is not dot_general or eqn.params["batch"] != ((), ()):
        return None
    right = eqn.inputs[1]
    matrix = turns.get(right, right)
    if matrix not in outer or len(matrix.aval.shape) != 2:
        return None
    (axis,) = eqn.params["contract"][1]
    rows = right.aval.shape if axis == 0 else right.aval.shape[::-1]
    itemsize = right.aval.dtype.itemsize
    form = _Panels((axis == 1) != (matrix is not right), *rows, 2 * target.lanes(itemsize))
    if matrix.aval.size * itemsize < target[InvariantPacking].least_bytes:
        return None
    product = _times(eqn, Var(Aval(rows, right.aval.dtype)))
    is_ours = shared_rows(product, replace(target, in_loop=True)) > 0
    return (matrix, form) if is_ours and form.columns > form.width else None


def _times(eqn: Eqn, right: Atom) -> Eqn:
    """A product with another right operand, a row for each term."""
    params = {**eqn.params, "contract": (eqn.params["contract"][0], (0,))}
    return Eqn(eqn.primitive, [eqn.inputs[0], right], eqn.outputs, params, eqn.source)


def _steps(scan: Eqn, expected: int) -> int:
    """The steps of a scan, or how many are expected of one whose number follows from data."""
    length = scan.params["length"]
    return expected if length == GROWS else length
