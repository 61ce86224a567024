"""Storage of products: which operands are packed, and where; which sums go to memory at once."""

from __future__ import annotations

from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, buffer
from functrans.loop.target import Target
from functrans.lower.product.bands import ALL, Band, Bands, bands_of
from functrans.lower.product.blocking import (
    Blocking,
    Blocks,
    extents_of,
    reads_columns_in_place,
)
from functrans.lower.product.packing import Operand
from functrans.lower.select.root import Contraction


class Storage:
    """Decides where the operands and the sums of a product are.

    Parameters
    ----------
    root : Contraction
    blocks : Blocks
    target : Target
    simplify : Simplifier
    parts : int
        How many threads at most have scratch of their own in the arena; 0 if it is on their stacks.
    is_alone : bool
        Whether nothing is done of a block: then sums may go to memory at once.
    read : Band
        The columns of each row of the result that are read.
    """

    def __init__(
        self,
        root: Contraction,
        blocks: Blocks,
        target: Target,
        simplify: Simplifier,
        parts: int = 0,
        is_alone: bool = False,
        read: Band = ALL,
    ) -> None:
        assert root.counter is not None
        self.root = root
        self.blocks = blocks
        self.target = target
        self.limits = target[Blocking]
        self.simplify = simplify
        self.size = extents_of(root)
        self.dtype = root.target.dtype
        self.in_arena = parts > 0
        self.is_alone = is_alone
        _, rows, columns = root.sides
        left, right = root.factors
        self.left = Operand(left, rows, root.counter, target, simplify)
        self.right = Operand(right, columns, root.counter, target, simplify)
        height, width = blocks.tiles * blocks.height, blocks.panels * blocks.width
        together = max(self.limits.packed_bytes // self.dtype.itemsize, blocks.width)
        self.bands = Bands()
        if not (blocks.by_terms or root.shared_rows or self.in_arena):
            lines = height, together
            self.bands = bands_of((self.left, self.right), lines, root.sides[0], read)
        panels = -(-self.size.columns // blocks.width)
        name, own = root.target.name, (parts,) * self.in_arena
        rows_or_tiles = (
            (height, blocks.depth)
            if self.left.along_terms
            else (blocks.tiles, blocks.depth, blocks.height)
        )
        all_terms = self.size.batch, panels, self.size.terms, blocks.width
        if blocks.by_terms:
            all_terms = self.size.batch, panels, blocks.width, self.size.terms
        self.panels = buffer(f"{name}_right", self.dtype, all_terms)
        tiles = -(-self.size.rows // blocks.height)
        all_tiles = self.size.batch, blocks.stretches, tiles, blocks.depth, blocks.height
        self.all_tiles = buffer(f"{name}_left", self.dtype, all_tiles)
        packed = blocks.panels if blocks.packs else panels
        few_terms = (*own, packed, blocks.depth, blocks.width)
        self.few_terms = buffer(f"{name}_right", self.dtype, few_terms)
        self.tiles = buffer(f"{name}_left", self.dtype, (*own, *rows_or_tiles))
        self.sums = buffer(f"{name}_block", self.dtype, (*own, height, width))

    @property
    def copied_lanes(self) -> int:
        """The lanes of loops that copy sums: a power of two."""
        return self.blocks.width & -self.blocks.width

    @property
    def packs_rows(self) -> bool:
        """Whether rows of the left operand that are neighbours in memory are packed as tiles."""
        return not self.reads_in_place and not self.left.along_terms

    @property
    def has_few_registers(self) -> bool:
        """Whether the machine is one without AVX-512, whose caches are small, too."""
        return self.target.registers <= self.limits.few_registers

    @property
    def fetches_panels(self) -> bool:
        """Whether tiles fetch the next panel, which comes from afar, while they read this one."""
        is_read_again = self.blocks.tiles > 1 and not self.reads_panels_in_place
        return self.has_few_registers and is_read_again and self.blocks.panels > 1

    @property
    def packs_left(self) -> bool:
        """Whether all of the left operand is packed before: blocks side by side read it again."""
        is_read_again = self.size.columns > self.blocks.panels * self.blocks.width
        is_large = self.all_tiles.nbytes > self.limits.few_bytes and not self.in_arena
        return self.packs_rows and self.has_few_registers and is_large and is_read_again

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """What a thread has to itself."""
        if self.in_arena:
            return ()
        copies = not (self.reads_in_place or self.packs_left)
        found = (self.tiles,) * copies + (self.sums,) * (not self.is_direct)
        return (*found, self.few_terms) if self.blocks.packs else found

    @property
    def reads_in_place(self) -> bool:
        """Whether tiles read the left operand where it is, and not a copy."""
        few = self.blocks.panels <= self.limits.few_panels
        return self.left.is_dense(self.left.counter) or (few and self.left.is_in_memory)

    @property
    def is_direct(self) -> bool:
        """Whether tiles are stored where the result is in memory, and not in a block.

        Rows beyond the last one stand for that one again, to which nothing may be added twice;
        where they are packed as they lie, they are zeros, stored before it is. Columns beyond the
        last one are masked, by a copy of a tile's code.
        """
        if not self.is_alone or self.root.symmetric:
            return False
        whole_rows = self.size.rows % self.blocks.height == 0
        if self.packs_rows and not (whole_rows or self.has_few_registers):
            return False
        if self.size.columns % self.blocks.width:
            few = self.size.terms <= self.limits.few_terms
            return self.blocks.stretches == 1 and (few or self.reads_panels_in_place)
        return self.blocks.stretches == 1 or whole_rows

    @property
    def reads_panels_in_place(self) -> bool:
        """Whether tiles read the right operand where it is."""
        if self.root.shared_rows:
            return True
        if self.blocks.by_terms:
            return self.right.is_dense(self.right.counter)
        tiles = -(-self.size.rows // self.blocks.height)
        if self.blocks.packs:
            return False
        return not self.in_arena and reads_columns_in_place(self.root, self.target, tiles)
