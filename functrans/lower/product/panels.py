"""Packing of whole operands, by separate kernels before that of the product.

Threads share groups of panels. The rows of the operand are read in memory order, for all panels of
a group together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, irem, minimum
from functrans.loop.statements import Buffer, For
from functrans.loop.substitution import Position
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.linearisation import delinearised
from functrans.lower.product.block import loop_of
from functrans.lower.product.kernel import Product
from functrans.lower.product.packing import Groups, Lines, Operand, Terms, last_part

Place = Callable[[Scalar, Scalar, Scalar, Scalar, Scalar], Position]
"""Maps matrix, stretch, panel, term and line to the position of an element."""


def packing(product: Product) -> list[Nest]:
    """The nests before that of a product: they test bands, and pack operands if profitable."""
    blocks, size = product.blocks, product.size
    nests = [*product.bands.looks]
    if product.packs_left:
        # a block rereads the panels of a stretch, which are contiguous for any number of terms
        nests.append(
            _packing(
                product,
                product.left,
                product.all_tiles,
                (size.rows, blocks.height, blocks.depth),
                lambda *position: position,
            )
        )
    if not product.reads_panels_in_place and not blocks.packs:

        def place(batch: Scalar, _: Scalar, panel: Scalar, term: Scalar, lane: Scalar) -> Position:
            return (batch, panel, lane, term) if blocks.by_terms else (batch, panel, term, lane)

        extents = size.columns, blocks.width, size.terms
        nests.append(
            _packing(product, product.right, product.panels, extents, place, product.overlaps)
        )
    return nests


def _packing(
    product: Product,
    operand: Operand,
    into: Buffer,
    extents: tuple[int, int, int],  # the lines of the operand, those of a panel, the terms
    place: Place,
    overlaps: bool = False,  # whether the last panel ends with the last line
) -> Nest:
    """The nest that packs an operand."""
    size, simplify, by_terms = product.size, product.simplify, product.blocks.by_terms
    (count, side, depth), loops = extents, product.root.sides[0]
    panels = -(-count // side)
    beside = product.limits.packed_bytes // (side * product.dtype.itemsize)
    is_large = into.nbytes > product.limits.few_bytes
    together = max(min(beside * is_large, size.batch * panels // product.limits.fewest_blocks), 1)
    groups = -(-panels // together)
    group = index("group", size.batch * groups)
    panel = index("panel", together) if together > 1 else ZERO
    batch = simplify(idiv(group, groups))
    first = simplify(irem(group, groups) * together)
    number = simplify(first + panel)
    own = operand.at(delinearised(loops, batch, simplify))
    line = minimum(number * side, count - side) if overlaps else number * side
    whole = overlaps or count % side == 0
    lines = Lines(simplify(line), side, const(count, INDEX), whole)
    last = simplify(minimum(first + together, panels) - first)
    of_group = Groups(panel, last, lines, is_large)
    stretches = -(-size.terms // depth)
    stretch = index("stretch", stretches) if stretches > 1 else ZERO
    start = simplify(stretch * depth)
    end = minimum(start + depth, product.terms_of(batch))
    least = 1 if product.root.terms_together else last_part(size.terms, depth)
    terms = Terms(start, simplify(end - start), depth, least)
    copied = own.copied(partial(place, batch, stretch, number), into, of_group, terms, by_terms)
    body = loop_of(stretch, const(stretches, INDEX), copied)
    loop = For(group, ZERO, const(group.attribute[2], INDEX), body, parallel=True)
    # contiguous lines are transposed if their number is constant
    return Nest((loop,), (), largest_constant=side, operations=0)
