"""Products of matrices as kernels of our own: which contractions are, and of what they are made.

The kernels (`functrans.lower.product`) are blocked for registers and caches, and fused with what is
computed of their results. A library is called for what is too small, or too thin, to be blocked.
"""

from __future__ import annotations

from typing import NamedTuple

from functrans.ir.graph import Eqn
from functrans.loop.functions import node_count
from functrans.loop.nodes import ZERO, index
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.linalg.compiled.blas import Sides, calls, counts, sides, work_of


class Blocked(NamedTuple):
    """Contractions that are kernels of our own, and not calls of BLAS."""

    fewest_rows: int = 16
    """Rows of which a packed panel of the right operand is worth its copy."""
    least_work: int = 1 << 14
    """Multiplications that are worth packing, and the waking of a second kernel."""
    largest_factor: int = 24
    """Operations of an element that are done where it is packed: they are written out for each row
    of a tile."""


def is_blocked(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is a kernel of our own: it is large, with one axis of columns."""
    if "block_products" not in target.stages or eqn.params.get("parts") is not None:
        return False
    if eqn.params.get("symmetric", False):
        return False
    x, y = (operand.aval.shape for operand in eqn.inputs)
    left, right = sides(eqn)
    size, limits = counts(eqn), target[Blocked]
    one_each = sum(y[axis] > 1 for axis in right.free) == sum(x[i] > 1 for i in left.contract) == 1
    return (
        one_each and size.rows >= limits.fewest_rows and size.multiplications >= limits.least_work
    )


def emit(at: Emission) -> None:
    """A contraction as a product of its operands' elements, or as calls of BLAS."""
    if is_blocked(at.eqn, at.target):
        _contract(at)
    else:
        at.call(calls(at), work=work_of(at.eqn))


def _contract(at: Emission) -> None:
    eqn = at.eqn
    left, right = sides(eqn)
    shape = eqn.outputs[0].aval.shape
    long = [axis for axis, extent in enumerate(shape) if extent > 1]
    loops = dict(zip(long, at.loops([shape[axis] for axis in long]), strict=True))
    position = tuple(loops.get(axis, ZERO) for axis in range(len(shape)))
    counter = index("k", counts(eqn).summed)
    both, rows = len(left.batch), len(left.free)
    parts = position[:both], position[both : both + rows], position[both + rows :]
    factors = (
        _factor(at, 0, left, (*parts[0], *parts[1]), counter),
        _factor(at, 1, right, (*parts[0], *parts[2]), counter),
    )
    by_side = tuple(tuple(i for i in part if i is not ZERO) for part in parts)
    at.contract(loops, by_side, counter, factors)


def _factor(at: Emission, number: int, axes: Sides, outer: Position, counter: Scalar) -> Scalar:
    """An element of an operand, which is computed where it is packed, or before that."""
    shape = at.eqn.inputs[number].aval.shape
    found = dict(zip((*axes.batch, *axes.free), outer, strict=True))
    found |= {axis: counter if shape[axis] > 1 else ZERO for axis in axes.contract}
    position = tuple(found[axis] for axis in range(len(shape)))
    element = at.element(number, position)
    nodes = postorder([element])
    largest = at.target[Blocked].largest_factor
    if node_count(nodes) > largest or any(node.op == "fold" for node in nodes):
        return load(at.operand(number), position)
    return element
