"""Size parameters of a kernel, which change while stages transform it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd

from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, evaluate, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Kernel, size
from functrans.loop.substitution import Position, Rewriting
from functrans.loop.walk import scalars
from functrans.lower.plan import Step


class Sizes:
    """Size arguments: a slot for each number."""

    def __init__(
        self,
        numbers: Sequence[int],  # the existing arguments
        largest: int,  # numbers up to this are constants
    ) -> None:
        self.numbers = list(numbers)
        self.largest = largest

    def of(self, number: int) -> Scalar:
        """An expression for a number."""
        if number <= self.largest:
            return const(number, INDEX)
        if number not in self.numbers:
            self.numbers.append(number)
        return size(self.numbers.index(number))

    def value(self, expression: Scalar) -> int:
        """The number to which an expression of sizes and constants evaluates."""
        leaves = [node for node in postorder([expression]) if node.op == "size"]
        return int(evaluate(expression, {leaf: self.numbers[leaf.attribute] for leaf in leaves}))


def called(step: Step, kernel: Kernel, sizes: Sequence[int]) -> Step:
    """The step with another kernel; the size arguments that it uses are renumbered."""
    extents = [extent for one in kernel.buffers for extent in one.shape]
    nodes = [*scalars(kernel.body), *postorder(extents)]
    used = sorted({node.attribute for node in nodes if node.op == "size"})
    values = {size(old): size(new) for new, old in enumerate(used)}
    kept = [sizes[slot] for slot in used]
    if kept != list(sizes):
        kernel = with_leaves(kernel, values)
    extent = Sizes(kept, 0).value(kernel.parallel.stop) if kernel.parallel is not None else 0
    return replace(step, kernel=replace(kernel, sizes=len(kept)), sizes=tuple(kept), extent=extent)


def with_leaves(kernel: Kernel, values: Mapping[Scalar, Scalar]) -> Kernel:
    """A kernel with leaves replaced in its expressions, and in the extents of its buffers."""
    return _rewritten(kernel, values, values, {})


def with_places(kernel: Kernel, values: Mapping[Scalar, Scalar]) -> Kernel:
    """A kernel with leaves replaced in indices only; its loops are not changed."""
    return _rewritten(kernel, values, {}, values)


def with_products(kernel: Kernel, sizes: Sizes, width: int, least: int = 2) -> Kernel:
    """A kernel in which sizes in indices show which divisor of a width divides them.

    Divisors below ``least`` are not worth another kernel.
    """
    values: dict[Scalar, Scalar] = {}
    for slot, number in enumerate(tuple(sizes.numbers)):
        part = gcd(number, width)
        if part >= least:
            values[size(slot)] = Simplifier()(sizes.of(number // part) * part)
    return with_places(kernel, values) if values else kernel


def _rewritten(
    kernel: Kernel,
    extents: Mapping[Scalar, Scalar],
    leaves: Mapping[Scalar, Scalar],
    places: Mapping[Scalar, Scalar],
) -> Kernel:
    """A kernel with leaves replaced in the extents of buffers, everywhere, and in indices.

    Leaves are replaced simultaneously: the replacement of one may be another leaf.
    """
    simplify = Simplifier()
    buffers: dict[Buffer, Buffer] = {}
    for one in kernel.buffers:
        shape = tuple(simplify.substitute(one.shape, extents))
        buffers[one] = one if shape == one.shape else Buffer(one.name, one.dtype, shape)

    def element(one: Buffer, position: Position) -> tuple[Buffer, Position]:
        position = tuple(simplify.substitute(rewriting.expressions(position), places))
        return buffers.get(one, one), position

    rewriting = Rewriting(leaves, element, simplify)
    body = rewriting.statements(kernel.body)
    return replace(kernel, buffers=tuple(buffers.values()), body=body)
