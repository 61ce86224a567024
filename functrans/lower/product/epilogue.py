"""Epilogue fusion: what is computed of a product's elements reads them from a block in the cache.

Expects the nest that a product begins (`functrans.lower.nest.fusion`). Leaves the nests of the
product's kernels (`functrans.lower.product.kernel`). The rest of the nest is generated as any
other, and strip-mined: its loop over rows goes over the rows of a block. Where that cannot be done,
the product goes to memory, and the rest is a nest of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Statement, Store, serial
from functrans.loop.substitution import substituted
from functrans.loop.target import Target
from functrans.loop.walk import Body, scalars, stored, walk
from functrans.lower.nest.bodies import Nest, NestBuilder
from functrans.lower.nest.fusion import Loop
from functrans.lower.nest.linearisation import delinearised
from functrans.lower.product.blocking import blocks_of
from functrans.lower.product.kernel import Block, Product
from functrans.lower.select.root import Contraction, Root, extent_of


def product_nests(
    loop: Loop,
    readers: Mapping[Buffer, Sequence[Root]],
    bodies: NestBuilder,
    target: Target,
    simplify: Simplifier,
) -> list[Nest] | None:
    """The nests of a loop that begins with a product; None if it does not.

    Parameters
    ----------
    loop : Loop
    readers : dict
        All roots that read a buffer.
    bodies : NestBuilder
        Makes the statements of other loops.
    target : Target
    simplify : Simplifier
    """
    root = next(iter(loop.roots))
    if not isinstance(root, Contraction):
        return None
    rest = _without(loop, root)
    built = bodies.build(rest) if rest.roots else []
    is_kept = root.output or any(each not in loop.roots for each in readers.get(root.target, ()))
    epilogue = _epilogue(root, built, simplify) if built else None
    blocks = blocks_of(root, target, epilogue is not None and not epilogue.by_columns)
    product = Product(root, blocks, target, simplify)
    own = sum(one.nbytes for one in product.scratch)
    if epilogue is not None:
        own += sum(one.nbytes for one in epilogue.scratch)
    if built and (epilogue is None or own > target.largest_stack):
        alone = Product(root, blocks_of(root, target, False), target, simplify)
        return [alone.packing(), _nest(alone, None, True, simplify), *built]
    return [product.packing(), _nest(product, epilogue, is_kept or epilogue is None, simplify)]


class _Epilogue(NamedTuple):
    """What is done for each row of a product.

    Parameters
    ----------
    row : For
        The innermost loop over rows, that over the stack left out.
    scratch : tuple of Buffer
    work : int
    by_columns : bool
        Whether all is done column by column, so that some of them will do.
    """

    row: For
    scratch: tuple[Buffer, ...]
    work: int
    by_columns: bool


def _without(loop: Loop, root: Root) -> Loop:
    """The loop without one of its roots."""
    left = Loop(loop.index, loop.target)
    for child in loop.children:
        if isinstance(child, Loop):
            child = _without(child, root)
            if child.roots:
                left.add(child)
        elif child is not root:
            left.add(child)
    return left


def _epilogue(root: Contraction, built: Sequence[Nest], simplify: Simplifier) -> _Epilogue | None:
    """The rest of a nest by rows of the product; None if it is not done row by row."""
    if len(built) != 1:
        return None
    (nest,) = built
    batch, rows, _ = root.sides
    body: Body = nest.body
    loop: For | None = None
    for each in (*batch, *rows):
        if len(body) != 1 or not isinstance(body[0], For) or not _is_whole(body[0], each):
            return None
        if loop is not None and loop.lanes > 1:
            return None
        loop, body = body[0], body[0].body
    if loop is None or (loop.lanes > 1 and len(rows) > 1) or not _reads_own_row(root, body):
        return None
    return _Epilogue(loop, nest.scratch, nest.work, _is_by_columns(root, body))


def _is_whole(loop: For, index: Scalar) -> bool:
    """Whether a loop is that of an index, over all of its range."""
    stop = loop.stop
    whole = stop.op == "const" and int(stop.attribute) == extent_of(index)
    return loop.index is index and loop.start is ZERO and whole


def _reads_own_row(root: Contraction, body: Body) -> bool:
    """Whether what is read of the product is of the row at hand."""
    known = {i: i for loops in root.sides[:2] for i in loops}
    own = [known.get(loop, None) for loop in root.loops]
    target = root.target
    if target in stored(body):
        return False
    for node in scalars(body):
        if node.op == "load" and node.attribute is target:
            for axis, loop in zip(root.axes, own, strict=True):
                if loop is not None and node.args[axis] is not loop:
                    return False
    return True


def _is_by_columns(root: Contraction, body: Body) -> bool:
    """Whether there is one loop, over all columns, with nothing but stores inside."""
    (column,) = root.sides[2]
    if len(body) != 1 or not isinstance(body[0], For) or not _is_whole(body[0], column):
        return False
    loads = [x for x in scalars(body) if x.op == "load" and x.attribute is root.target]
    axis = root.axes[-1]
    plain = all(isinstance(each, Store) or not _has_memory(each) for each in walk(body[0].body))
    return plain and all(x.args[axis] is column for x in loads)


def _has_memory(statement: Statement) -> bool:
    return isinstance(statement, For)


def _nest(
    product: Product, epilogue: _Epilogue | None, is_kept: bool, simplify: Simplifier
) -> Nest:
    """The nest of a product: what is done of a block of it, and perhaps its copy in memory."""
    block, number = product.block()
    body: Body = ()
    scratch: tuple[Buffer, ...] = ()
    if is_kept:
        body = _stored(product, block, simplify)
    if epilogue is not None:
        body = (*body, *_done(product.root, epilogue, block, simplify))
        scratch = epilogue.scratch
    nest = product.nest(body, scratch, block, number)
    return nest if epilogue is None else replace(nest, work=nest.work + epilogue.work)


def _stored(product: Product, block: Block, simplify: Simplifier) -> Body:
    """Loops that copy a block to where the result is in memory."""
    root = product.root
    _, rows, (column,) = root.sides
    row = index("row", product.size.rows)
    values = block.batch | delinearised(rows, row, simplify)
    values[column] = column
    loops = dict(zip(root.axes, root.loops, strict=True))
    position = [
        values[loops[axis]] if axis in loops else ZERO for axis in range(len(root.target.shape))
    ]
    store = Store(root.target, tuple(position), simplify(block.load(row, column)))
    width = product.blocks.width
    whole = product.size.columns % width == 0
    inner = For(column, *block.columns, (store,), width, whole=whole)
    return (For(row, *block.rows, (inner,)),)


def _done(root: Contraction, epilogue: _Epilogue, block: Block, simplify: Simplifier) -> Body:
    """The loop over the rows of a block."""
    _, rows, (column,) = root.sides
    loop = serial(epilogue.row)
    assert isinstance(loop, For)
    row, body = loop.index, loop.body
    values = dict(block.batch)
    if len(rows) > 1:
        row = index("row", extents(rows))
        values |= delinearised(rows, row, simplify)
    if epilogue.by_columns:
        (inner,) = body
        assert isinstance(inner, For)
        start, stop = block.columns
        full = const(extent_of(column), INDEX)
        if start is not ZERO or stop is not full:
            inner = replace(inner, start=start, stop=stop, repeatable=False, whole=False)
        body = (inner,)
    elements = {
        x: simplify(block.load(row, x.args[root.axes[-1]]))
        for x in scalars(body)
        if x.op == "load" and x.attribute is root.target
    }
    body = substituted(body, elements, simplify)
    body = substituted(body, values, simplify)
    start, stop = block.rows
    lanes = loop.lanes
    return (For(row, start, stop, body, lanes),)


def extents(loops: Sequence[Scalar]) -> int:
    """How many iterations loops have together."""
    total = 1
    for each in loops:
        total *= extent_of(each)
    return total
