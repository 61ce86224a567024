"""Loop generation for programs with matrix products: streams, blocks of rows, single products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from functrans.lazily import lazy
from functrans.loop.simplify import Simplifier
from functrans.loop.target import Target
from functrans.lower.nest.bodies import Nest, NestBuilder
from functrans.lower.nest.fusion import Loop, fuse
from functrans.lower.product.epilogue import product_nests
from functrans.lower.product.fusion import begins_a_nest
from functrans.lower.product.row_blocks import row_block_nests, rows_of
from functrans.lower.product.stream import Stream, streams
from functrans.lower.select.root import Readers, Root, readers_of

_stream_nests = lazy("functrans.lower.product.streaming:stream_nests")


def nests_of(
    roots: Sequence[Root],
    loops: Sequence[Loop],
    readers: Readers,
    bodies: NestBuilder,
    target: Target,
    simplify: Simplifier,
) -> Iterator[Nest]:
    """The nests of loops, in blocks of rows if products share these without being a stream.

    Parameters
    ----------
    roots : sequence of Root
        Those of the loops, in order.
    """
    parts = [*streams(loops, readers, target)]
    found = None
    if not (target.in_loop or any(isinstance(each, Stream) for each in parts)):
        found = rows_of(roots, readers, target)
    if found is None:
        yield from _in_order(parts, readers, bodies, target, simplify)
        return

    def of_block(roots: Sequence[Root]) -> list[Nest]:
        own, loops = readers_of(roots), fuse(roots, target, begins_a_nest)
        return [*_in_order(loops, own, NestBuilder(own, target, simplify), target, simplify)]

    def others(roots: Sequence[Root]) -> Iterator[Nest]:
        loops = fuse(roots, target, begins_a_nest)
        return nests_of(roots, loops, readers, bodies, target, simplify)

    yield from others(found.before)
    yield from row_block_nests(found, of_block, target, simplify)
    yield from others(found.after)


def _in_order(
    parts: Iterable[Stream | Loop],
    readers: Readers,
    bodies: NestBuilder,
    target: Target,
    simplify: Simplifier,
) -> Iterator[Nest]:
    """The nests of streams of products, of single products, and of all other loops."""
    for each in parts:
        together = None
        if isinstance(each, Stream):
            together = _stream_nests(each, readers, bodies, target, simplify)
        if together is not None:
            yield from together
            continue
        for loop in each.members if isinstance(each, Stream) else (each,):
            yield from product_nests(loop, readers, bodies, target, simplify) or bodies.build(loop)
