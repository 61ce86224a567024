"""Tiled matrix products: on tensor cores if their operands allow it, else by multiply-adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from functrans.loop.grid import WarpTile
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.grid.products.recognition import product_of
from functrans.lower.grid.products.register_tiling import Tiling
from functrans.lower.grid.products.tensor_cores import WarpTiling
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fusion import Loop
from functrans.lower.select.root import Elements, Root


def tiled_product(
    loop: Loop,
    readers: Mapping[Buffer, Sequence[Root]],  # all roots that read a buffer
    target: Target,
    simplify: Simplifier,
) -> Nest | None:
    """The kernel of a nest that begins with a product; None if it does not."""
    product = product_of(next(iter(loop.roots)), target)
    # emitted statements do not join a nest
    roots = [root for root in loop.roots if isinstance(root, Elements)]
    if product is None or not _read_in_place(roots):
        return None
    kept = [
        root
        for root in roots
        if root.output or any(each not in loop.roots for each in readers.get(root.target, ()))
    ]
    tiling = WarpTiling if isinstance(product.tile, WarpTile) else Tiling
    return tiling(product, roots, kept, simplify, target.gpu).nest()


def _read_in_place(roots: Sequence[Elements]) -> bool:
    """Whether roots read from earlier ones only the element at their own indices.

    Roots that only share a loop over a stack may read a matrix at other indices.
    """
    places: dict[Buffer, tuple[Scalar, ...]] = {}
    for root in roots:
        for position, value in root.elements:
            for node in postorder([value]):
                if node.op == "load" and places.get(node.attribute, node.args) != node.args:
                    return False
            places[root.target] = position
    return True
