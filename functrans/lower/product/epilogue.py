"""Epilogue fusion: operations on a product read its elements from a block in the cache.

Expects a nest that begins with a product (`functrans.lower.nest.fusion`). Leaves the nests of the
product's kernels (`functrans.lower.product.kernel`). The rest of the nest is generated like any
other and strip-mined: its loop over rows goes over the rows of a block. Where that is impossible,
the product is stored in memory, and the rest is a nest of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functrans.loop.nodes import ZERO, index
from functrans.loop.operations import operations_of
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, serial
from functrans.loop.substitution import substituted
from functrans.loop.target import Target
from functrans.loop.walk import Body, scalars, walk
from functrans.lower.nest.bodies import Nest, NestBuilder
from functrans.lower.nest.fusion import Loop
from functrans.lower.nest.linearisation import delinearised
from functrans.lower.product.bands import Band, band_read
from functrans.lower.product.block import Block, iterations
from functrans.lower.product.blocking import Blocks, blocks_of
from functrans.lower.product.kernel import Product
from functrans.lower.product.panels import packing
from functrans.lower.select.root import Contraction, Root, extent_of
from functrans.records import dataclass


def product_nests(
    loop: Loop,
    readers: Mapping[Buffer, Sequence[Root]],  # all roots that read a buffer
    bodies: NestBuilder,  # generates the statements of the other roots
    target: Target,
    simplify: Simplifier,
) -> list[Nest] | None:
    """The nests of a loop that begins with a product; None if it does not."""
    root = next(iter(loop.roots))
    if not isinstance(root, Contraction):
        return None
    rest = without(loop, root)
    built = bodies.build(rest) if rest.roots else []
    is_kept = root.output or any(each not in loop.roots for each in readers.get(root.target, ()))
    epilogue = _epilogue(root, built)
    read = band_read(root, readers.get(root.target, ()), simplify)
    product = _product(root, target, simplify, read, epilogue)
    if built and (epilogue is None or not _fits(product, target, epilogue)):
        alone = _product(root, target, simplify, read)
        return [*packing(alone), _nest(alone, None, True, simplify), *built]
    return [*packing(product), _nest(product, epilogue, is_kept or epilogue is None, simplify)]


def _product(
    root: Contraction,
    target: Target,
    simplify: Simplifier,
    read: Band,
    epilogue: Epilogue | None = None,
) -> Product:
    """A product whose blocks are as large as a thread's stack has room for."""
    whole_rows = epilogue is not None and epilogue.column is None
    is_alone = epilogue is None

    def of(blocks: Blocks) -> Product:
        return Product(root, blocks, target, simplify, is_alone=is_alone, read=read)

    product = of(blocks_of(root, target, whole_rows, is_alone=is_alone))
    if product.packs_rows and not product.blocks.by_terms:
        product = of(blocks_of(root, target, whole_rows, in_vectors=True, is_alone=is_alone))
    while not _fits(product, target, epilogue):
        smaller = _halved(product, whole_rows)
        if smaller == product.blocks:
            break
        product = of(smaller)
    return product


def _halved(product: Product, whole_rows: bool) -> Blocks:
    """Blocks of half the rows, if packed rows are most of a block's memory, or half the columns."""
    blocks = product.blocks
    copied = product.tiles.nbytes if product.tiles in product.scratch else 0
    if blocks.tiles > 1 and copied > product.sums.nbytes:
        return blocks._replace(tiles=-(-blocks.tiles // 2))
    return blocks if whole_rows else blocks._replace(panels=-(-blocks.panels // 2))


def _fits(product: Product, target: Target, epilogue: Epilogue | None) -> bool:
    """Whether the scratch fits on a thread's stack: threads do not share nests with more of it."""
    rows = (*product.scratch, *(epilogue.nest.scratch if epilogue is not None else ()))
    return sum(one.nbytes for one in rows) <= target.largest_stack


@dataclass(frozen=True)
class Epilogue:
    """The operations on each row of a product."""

    nest: Nest  # the nest that contains them
    row: For  # the innermost loop over rows, without the loops around it
    rows: tuple[Scalar, ...]  # all loops over rows
    # the loop over columns, if it contains all operations: then a block need not have all columns
    column: Scalar | None

    def of_block(self, block: Block, relocation: Relocation, simplify: Simplifier) -> Body:
        """The loop over the rows of a block, with accesses to relocated buffers."""
        loop = serial(self.row)
        assert isinstance(loop, For)
        body = loop.body
        numbered = loop.index if len(self.rows) == 1 else index("row", iterations(self.rows))
        number, row, bounds = block.over_rows(numbered, simplify)
        values = block.batch | delinearised(self.rows, row, simplify)
        if self.column is not None:
            (inner,) = body
            assert isinstance(inner, For)
            start, stop = block.columns
            if start is not ZERO or stop is not inner.stop:
                inner = replace(inner, start=start, stop=stop, repeatable=False, whole=False)
            body = (inner,)
        body = substituted(relocation.statements(body), values, simplify)
        return (For(number, *bounds, body, loop.lanes),)


def without(loop: Loop, root: Root) -> Loop:
    """The loop without one of its roots."""
    left = Loop(loop.index, loop.target)
    for child in loop.children:
        if isinstance(child, Loop):
            child = without(child, root)
            if child.roots:
                left.add(child)
        elif child is not root:
            left.add(child)
    return left


def epilogue_of(
    batch: Sequence[Scalar], rows: tuple[Scalar, ...], built: Sequence[Nest]
) -> Epilogue | None:
    """The body of a nest's loops over a stack and rows; None for other loops."""
    if len(built) != 1:
        return None
    (nest,) = built
    body: Body = nest.body
    loop: For | None = None
    for each in (*batch, *rows):
        if len(body) != 1 or not isinstance(body[0], For) or not _is_whole(body[0], each):
            return None
        if loop is not None and loop.lanes > 1:
            return None
        loop, body = body[0], body[0].body
    if loop is None or (loop.lanes > 1 and len(rows) > 1):
        return None
    return Epilogue(nest, loop, rows, None)


def _epilogue(root: Contraction, built: Sequence[Nest]) -> Epilogue | None:
    """The operations on each row of a product; None if they read other rows of it, too.

    None also for a symmetric product, whose blocks do not have whole rows.
    """
    batch, rows, (column,) = root.sides
    if root.symmetric:
        return None
    found = epilogue_of(batch, rows, built)
    if found is None:
        return None
    body = found.row.body
    loads = [x for x in scalars(body) if x.op == "load" and x.attribute is root.target]
    own = [
        (axis, loop) for axis, loop in zip(root.axes, root.loops, strict=True) if loop is not column
    ]
    if any(x.args[axis] is not loop for x in loads for axis, loop in own):
        return None
    return replace(found, column=column) if _is_by_columns(body, column, loads, root) else found


def _is_whole(loop: For, index: Scalar) -> bool:
    """Whether a loop has the given index and covers its whole range."""
    stop = loop.stop
    whole = stop.op == "const" and int(stop.attribute) == extent_of(index)
    return loop.index is index and loop.start is ZERO and whole


def _is_by_columns(body: Body, column: Scalar, loads: Sequence[Scalar], root: Contraction) -> bool:
    """Whether the body is one loop over all columns, without inner loops, that reads its column."""
    if len(body) != 1 or not isinstance(body[0], For) or not _is_whole(body[0], column):
        return False
    if any(isinstance(each, For) for each in walk(body[0].body)):
        return False
    return all(x.args[root.axes[-1]] is column for x in loads)


def _nest(product: Product, epilogue: Epilogue | None, is_kept: bool, simplify: Simplifier) -> Nest:
    """The nest of a product: the operations on each block, and its store if it ``is_kept``."""
    block, number = product.block()
    body = product.stored(block) if is_kept else ()
    if epilogue is None:
        return product.nest(body, (), block, number)
    relocation = Relocation(simplify)
    relocation.placed[product.root.target] = product.place(block)
    body = (*body, *epilogue.of_block(block, relocation, simplify))
    nest = product.nest(body, epilogue.nest.scratch, block, number)
    return replace(nest, operations=operations_of(epilogue.nest.body))
