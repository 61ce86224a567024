"""Rotations, dealt to two pipes: by shifts, or by products with powers of two.

A multiprocessor executes shifts and bitwise operations in one pipe, and integer products (``IMAD``)
in another. Additions may go to either, and the assembler prefers the one with less to do. For a
block cipher, which consists of additions, rotations and exclusive ors, the first pipe has twice as
much to do as the second, even if all additions are products with 1. A rotation is also the two
halves of a product with a power of two, whose union is part of the next bitwise operation.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar

WORD = np.dtype(np.uint32)

PERIOD, AS_PRODUCTS = 5, (1, 3)
"""Which of five rotations are products. An instruction of a warp occupies its pipe for two cycles,
a wide product for four: the pipes are busy for 79 and 77 cycles for a number of Threefry-2x32, for
95 and 45 without products."""


class Rotations:
    """Deals the rotations of a kernel, in the order in which they are printed."""

    def __init__(self) -> None:
        self.count = 0

    def dealt(self, node: Scalar, text: str) -> str:
        """The text of an operation: of a rotation whose turn it is, as a product."""
        if node.op != "rotl" or node.dtype != WORD:
            return text
        self.count += 1
        if self.count % PERIOD in AS_PRODUCTS:
            return text.replace("rotl", "rotl_as_product", 1)
        return text
