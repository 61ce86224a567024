"""Packing of right operands: a kernel of its own, before that of the product.

Threads share groups of panels. Rows of the operand are read in the order in which they are in
memory, those of a group's panels side by side.
"""

from __future__ import annotations

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.relocation import Position
from functrans.loop.scalar import Scalar, const, idiv, irem, minimum
from functrans.loop.statements import For
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.linearisation import delinearised
from functrans.lower.product.kernel import Product
from functrans.lower.product.packing import Groups, Lines


def packing(product: Product) -> list[Nest]:
    """The nests before that of a product: those that pack its right operand, and look at bands."""
    if product.reads_panels_in_place or product.blocks.packs:
        return product.bands.looks
    blocks, size, simplify = product.blocks, product.size, product.simplify
    loops, width = product.root.sides[0], product.blocks.width
    panels = -(-size.columns // width)
    beside = product.limits.packed_bytes // (width * product.dtype.itemsize)
    is_large = product.panels.nbytes > product.limits.few_bytes
    together = max(min(beside * is_large, size.batch * panels // product.limits.fewest_blocks), 1)
    groups = -(-panels // together)
    group = index("group", size.batch * groups)
    panel = index("panel", together) if together > 1 else ZERO
    batch = simplify(idiv(group, groups))
    first = simplify(irem(group, groups) * together)
    number = simplify(first + panel)

    def place(term: Scalar, lane: Scalar) -> Position:
        return (batch, number, lane, term) if blocks.by_terms else (batch, number, term, lane)

    right = product.right.at(delinearised(loops, batch, simplify) if loops else {})
    columns, whole = const(size.columns, INDEX), size.columns % width == 0
    lines = Lines(simplify(number * width), width, columns, whole)
    count = simplify(minimum(first + together, panels) - first)
    of_group = Groups(panel, count, lines, is_large)
    terms, by_terms = product.all_terms, blocks.by_terms
    copied = right.copied(place, product.panels, of_group, terms, by_terms)
    loop = For(group, ZERO, const(group.attribute[2], INDEX), copied, parallel=True)
    # (lines that lie side by side are transposed if it is known how many there are)
    packed = Nest((loop,), (), product.panels.count, largest_constant=width, operations=0)
    return [*product.bands.looks, packed]
