"""Block sparsity propagation: zeros of tangents for a basis are not computed.

A Jacobian is computed for all vectors of a basis at once, along an axis of directions. What is
computed of a single input has a tangent in one direction, and structural zeros in all others. An
array of such tangents is a few dense blocks (`functrans.optimise.machine.blocks`), or diagonal ones
(`functrans.optimise.machine.diagonal_blocks`), and an operation that is linear in it is applied to
these (`functrans.optimise.machine.block_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var, prune
from functrans.loop.target import Target
from functrans.ops.arrays.shape import concatenate_p
from functrans.ops.arrays.slicing import assemble_p, embed_p, slice_p
from functrans.ops.arrays.structural import (
    absent_p,
    broadcast_to_p,
    full_p,
    iota,
    reshape_p,
    transpose_p,
)
from functrans.ops.compiled.elements import pattern
from functrans.ops.compiled.emission import emitted
from functrans.ops.elementwise.arithmetic import multiply
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.linalg.compiled.blas import counts
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.machine.block_rules import RULES, of_blocks
from functrans.optimise.machine.blocks import Blocks, is_small
from functrans.optimise.machine.diagonal_blocks import Diagonal
from functrans.optimise.simplification import fold_constants, merge_equal, simplify
from functrans.records import NamedTuple
from functrans.trace.stage import Environment, apply, at_source_of, rewrite


class Directions(NamedTuple):
    """Thresholds of block sparsity: when structural zeros are left out.

    Measured: `fraction`, `least` and `moved` (zeros of tangents for a basis).
    """

    fewest: int = 17  # fewer are unrolled, and their zeros fold
    most: int = 4096
    fraction: float = 0.85  # the most operations that may remain
    least: int = 4096  # the operations that must be saved
    moved: int = 2  # the operations as which an element of a joined array counts
    enlarged: int = 4  # how many times as many elements as its operands a result has, ...
    terms: int = 8  # ... and of how many terms, if all its elements are computed, not joined


def leave_out_zero_blocks(graph: Graph, target: Target) -> Graph:
    """Compute only those blocks of the tangents for a basis that are not structural zeros.

    Expects a simplified graph, in which slices of the basis are the tangents of single inputs.
    Leaves linear operations on blocks, which are joined where any other operation reads them.
    """
    limits = target[Directions]
    bases = {
        eqn.outputs[0]
        for eqn in graph.eqns
        if _makes_basis(eqn, graph.makers)
        and limits.fewest <= eqn.outputs[0].aval.shape[0] <= limits.most
    }
    if not bases:
        return graph

    def run(*inputs: Any) -> list[Any]:
        values = _Values(zip(graph.inputs, inputs, strict=True), graph.makers, limits)
        for eqn in graph.eqns:
            with at_source_of(eqn):
                found = _basis(eqn) if eqn.outputs[0] in bases else _sparse(eqn, values)
            if found is not None:
                values.sparse[eqn.outputs[0]] = found
            small = found is None or is_small(found.shape, found.directions)
            if small or eqn.outputs[0] in bases:
                operands = [values.read(atom) for atom in eqn.inputs]
                values.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
        return [values.read(atom) for atom in graph.outputs]

    made = prune(merge_equal(simplify(fold_constants(rewrite(run, graph.in_avals)))))
    before, after = _work(graph, target), _work(made, target)
    is_less = after <= limits.fraction * before and after + limits.least <= before
    return made if is_less else graph


def _work(graph: Graph, target: Target) -> int:
    """An estimate of the operations of a graph; an element that is moved by a join counts, too."""
    return sum(_operations(eqn, target) for eqn in graph.eqns)


def _operations(eqn: Eqn, target: Target) -> int:
    size = eqn.outputs[0].aval.size
    if eqn.primitive is dot_general:
        return size * counts(eqn).summed
    if eqn.primitive in _JOINS:
        return size * target[Directions].moved
    return 0 if emitted(eqn, target) is not None else size * pattern(eqn).work


class _Values(Environment):
    """The values of variables; those of which blocks are known become arrays when they are read."""

    def __init__(self, items: Any, makers: Mapping[Atom, Eqn], limits: Directions) -> None:
        super().__init__(items)
        self.sparse: dict[Atom, Blocks] = {}
        self.makers = makers
        self.limits = limits

    def read(self, atom: Atom) -> Any:
        if isinstance(atom, Var) and atom not in self:
            eqn = self.makers[atom]
            if _is_easy(eqn, self.limits):
                operands = [self.read(x) for x in eqn.inputs]
                self.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
            else:
                self[atom] = self.sparse[atom].dense()
        return super().read(atom)

    def known(self, atom: Atom) -> Any:
        """The blocks of a variable, or its value."""
        found = self.sparse.get(atom)
        return self.read(atom) if found is None else found


def _is_easy(eqn: Eqn, limits: Directions) -> bool:
    """Whether computing all elements of an array takes less than joining its blocks."""
    if eqn.primitive in _MOVES:
        return True
    size = eqn.outputs[0].aval.size
    enlarged = size >= limits.enlarged * sum(x.aval.size for x in eqn.inputs)
    work = counts(eqn).summed if eqn.primitive is dot_general else 1
    return eqn.primitive in (dot_general, multiply) and enlarged and work <= limits.terms


def _makes_basis(eqn: Eqn, makers: Mapping[Atom, Eqn]) -> bool:
    """Whether an equation makes the vectors of a basis, as rows."""
    if eqn.primitive is not select:
        return False
    mask, one, zero = eqn.inputs
    test, rest = makers.get(mask), makers.get(zero)
    if not isinstance(one, Literal) or one.value != 1:
        return False
    if (
        test is None
        or test.primitive is not equal
        or rest is None
        or rest.primitive is not absent_p
    ):
        return False
    shape = eqn.outputs[0].aval.shape
    count = shape[0] if shape else 0
    for x, wanted in zip(test.inputs, ((count, 1), (1, count)), strict=True):
        made = makers.get(x)
        if made is None or made.primitive is not reshape_p or x.aval.shape != wanted:
            return False
        source = makers.get(made.inputs[0])
        if source is None or source.primitive is not iota:
            return False
    return True


def _basis(eqn: Eqn) -> Blocks:
    """All vectors of a basis."""
    aval = eqn.outputs[0].aval
    (count, _) = aval.shape
    one = full_p(shape=(1, count), value=1, dtype=aval.dtype)
    return Blocks(aval.shape, aval.dtype, count, (Diagonal(np.arange(count), one, True),))


def _sparse(eqn: Eqn, values: _Values) -> Blocks | None:
    """The blocks of an equation's result; None if they are not known."""
    if eqn.primitive is absent_p:
        return Blocks(eqn.params["shape"], eqn.params["dtype"])
    if not any(atom in values.sparse for atom in eqn.inputs) or not eqn.outputs[0].aval.size:
        return None
    if not (eqn.primitive.elementwise or eqn.primitive in RULES):
        return None
    return of_blocks(eqn, [values.known(atom) for atom in eqn.inputs])


_MOVES = frozenset((reshape_p, transpose_p, broadcast_to_p, slice_p))
_JOINS = frozenset((concatenate_p, assemble_p, embed_p))
