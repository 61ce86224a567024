"""Linear indices: the memory position of an element of an array that is read through a reshape.

The elements of a reshaped array are read at quotients and remainders of their linear index, from
which the position in memory is computed again: ``x // 3 * 3 + x % 3``, which is ``x``.
"""

from __future__ import annotations

from collections.abc import Iterable

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import linear
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer
from functrans.loop.terms import from_terms, without_divisions

DIVISIONS = frozenset({"idiv", "irem"})


def divides(indices: Iterable[Scalar]) -> bool:
    """Whether the indices contain divisions."""
    return any(node.op in DIVISIONS for node in postorder(indices))


def linear_place(target: Buffer, indices: tuple[Scalar, ...], simplify: Simplifier) -> Scalar:
    """The linear position of an element of an array with known extents, in elements."""
    extents = [int(extent.attribute) for extent in target.shape]
    return from_terms(*without_divisions(simplify.terms(linear(indices, extents)), simplify))


def stride_of(load: Scalar, loop: Coefficients) -> int | None:
    """The stride in memory of an element that is loaded, also through a reshape, along a loop."""
    stride = loop.of_element(load.attribute, load.args)
    if stride is None and divides(load.args):
        stride = loop.of(linear_place(load.attribute, load.args, Simplifier()))
    return stride
