"""Epilogue fusion: elementwise operations on a product join the nest of its tiles.

The rule that a grid adds to loop fusion (`functrans.lower.nest.fusion`).
"""

from __future__ import annotations

from functrans.loop.grid import ProductTile, WarpTile
from functrans.loop.target import Target
from functrans.lower.grid.products.recognition import product_of
from functrans.lower.nest.fusion import Loop, Rule
from functrans.lower.select.root import Elements, Root


def epilogues(target: Target) -> Rule:
    """The rule: a tiled product begins a nest, which only its epilogue joins."""
    largest = target.gpu.largest_epilogue

    def joins(nest: Loop, root: Root) -> bool | None:
        if product_of(root, target) is not None:
            return False
        first = next(iter(nest.roots))
        product = product_of(first, target)
        return None if product is None else _is_epilogue(root, first, nest, product.tile, largest)

    return joins


def _is_epilogue(
    root: Root, product: Root, nest: Loop, tile: ProductTile | WarpTile, largest: int
) -> bool:
    """Whether a root is computed elementwise from those of a tiled product."""
    if not isinstance(root, Elements):
        return False
    others = nest.node_count - product.node_count + root.node_count
    if others * tile.copies > largest:
        return False
    return root.loops == product.loops and len(root.elements) == 1 and not root.folds
