"""Storage of matrix products: the memory of packed operands and of sums; operands read in place."""

from __future__ import annotations

from functrans.loop.nodes import as_index
from functrans.loop.scalar import Scalar, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, buffer
from functrans.loop.target import Target
from functrans.lower.product.bands import ALL, Band, Bands, bands_of
from functrans.lower.product.blocking import Blocks, reads_columns_in_place
from functrans.lower.product.limits import Blocking, extents_of
from functrans.lower.product.packing import Operand, lanes_of_line
from functrans.lower.select.root import Contraction


class Storage:
    """Decides where the operands and the sums of a product are stored."""

    def __init__(
        self,
        root: Contraction,
        blocks: Blocks,
        target: Target,
        simplify: Simplifier,
        # the most threads that have scratch memory in the arena; 0 if it is on their stacks, or
        # each matrix of the stack has some
        parts: int = 0,
        adds: bool = False,  # whether terms are added to the sums several times
        # whether no operations are fused with the product: then sums may be stored in the result
        is_alone: bool = False,
        read: Band = ALL,  # the columns of each row of the result that are read
    ) -> None:
        assert root.counter is not None
        self.root = root
        self.blocks = blocks
        self.target = target
        self.limits = target[Blocking]
        self.simplify = simplify
        self.size = extents_of(root)
        self.dtype = root.target.dtype
        self.in_arena = parts > 0 or blocks.in_arena
        self.adds = adds
        self.is_alone = is_alone
        _, rows, columns = root.sides
        left, right = root.factors
        self.left = Operand(left, rows, root.counter, target, simplify)
        self.right = Operand(right, columns, root.counter, target, simplify)
        height, width = blocks.tiles * blocks.height, blocks.panels * blocks.width
        together = max(self.limits.packed_bytes // self.dtype.itemsize, blocks.width)
        self.bands = Bands()
        if not (blocks.by_terms or root.shared_rows or parts):
            lines = height, together
            self.bands = bands_of((self.left, self.right), lines, root.sides[0], read)
        panels = -(-self.size.columns // blocks.width)
        name, own = root.target.name, (parts or self.size.batch,) * self.in_arena
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

    def terms_of(self, matrix: Scalar) -> Scalar:
        """The number of terms of a matrix of the stack."""
        most, together = self.size.terms, self.root.terms_together
        if not together:
            return as_index(most)
        return self.simplify(minimum(together - matrix * most, most))

    @property
    def copied_lanes(self) -> int:
        """The number of lanes of loops that copy sums: a power of two."""
        return lanes_of_line(self.blocks.width, self.dtype.itemsize, self.target)

    @property
    def packs_rows(self) -> bool:
        """Whether rows of the left operand that are contiguous in memory are packed as tiles."""
        return not self.reads_in_place and not self.left.along_terms

    @property
    def has_few_registers(self) -> bool:
        """Whether the machine has no AVX-512; its second-level cache is small, too."""
        return self.target.registers <= self.limits.few_registers

    @property
    def stores_along_rows(self) -> bool:
        """Whether a tile's rows are stored from one end of a block to the other.

        The panels of the block are together in the nearest cache, since sums have few terms.
        """
        nbytes = self.size.terms * self.blocks.panels * self.blocks.width * self.dtype.itemsize
        is_near = self.blocks.packs and nbytes <= self.limits.panel_bytes
        return is_near and self.is_direct

    @property
    def packs_left(self) -> bool:
        """Whether the whole left operand is packed first: blocks side by side read it again."""
        is_read_again = self.size.columns > self.blocks.panels * self.blocks.width
        is_large = self.all_tiles.nbytes > self.limits.few_bytes or self.blocks.packs
        return self.packs_rows and is_large and is_read_again and not self.in_arena

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """The buffers that each thread has to itself."""
        if self.in_arena:
            return ()
        copies = not (self.reads_in_place or self.packs_left)
        found = (self.tiles,) * copies + (self.sums,) * (not self.is_direct)
        return (*found, self.few_terms) if self.blocks.packs else found

    @property
    def reads_in_place(self) -> bool:
        """Whether tiles read the left operand in place, and not a packed copy."""
        if self.left.is_dense(self.left.counter):
            return True
        # one copy is for all blocks
        is_shared = self.blocks.packs and (self.has_few_registers or not self.is_whole)
        is_large = (
            not self.has_few_registers
            and self.size.columns > self.limits.most_thin
            and self.all_tiles.nbytes > self.limits.largest_strided
        )
        has_few = self.blocks.panels <= self.limits.few_panels
        return has_few and not (is_shared or is_large) and self.left.factor.op == "load"

    @property
    def is_direct(self) -> bool:
        """Whether tiles are stored directly in the result, and not in a block.

        If terms are added several times, only if all tiles are whole: rows of a tile beyond the
        last row of the result repeat that row, to which no term may be added twice; where rows are
        packed as tiles, they are zeros, stored before the last row is.
        Columns beyond the last one are masked, in a second copy of a tile's code; without AVX-512
        only if tiles are one vector wide, since a mask for each vector takes registers. Of a
        symmetric result, only a block that is a whole matrix and packs both operands is direct: of
        several blocks, one would write what another mirrors.
        """
        whole_rows = self.size.rows % self.blocks.height == 0
        is_one_block = self.is_whole and self.blocks.packs and whole_rows
        if not self.is_alone or (self.root.symmetric and not is_one_block):
            return False
        if self.packs_rows and not (whole_rows or self.has_few_registers):
            return False
        if self.adds:
            return whole_rows and self.has_whole_panels
        if self.size.columns % self.blocks.width and not (self.blocks.packs or self.overlaps):
            few = self.size.terms <= self.limits.few_terms
            has_masks = few or self.reads_panels_in_place
            if self.has_few_registers:
                has_masks = self.blocks.width <= self.target.lanes(self.dtype.itemsize)
            return self.blocks.stretches == 1 and has_masks
        return self.blocks.stretches == 1 or whole_rows

    @property
    def is_whole(self) -> bool:
        """Whether each matrix of the result is one block."""
        height, width = self.sums.extents[-2:]
        return height >= self.size.rows and width >= self.size.columns

    @property
    def has_whole_panels(self) -> bool:
        """Whether no panel has columns beyond the last one."""
        return self.overlaps or self.size.columns % self.blocks.width == 0

    @property
    def overlaps(self) -> bool:
        """Whether the last panel of a row begins early enough to end with the last column.

        No tile then has columns beyond the last one, which would need masks. Some columns are
        computed twice, with the same bits. That is impossible if terms are added to memory, or if
        the panel before belongs to another block.
        """
        size, blocks = self.size, self.blocks
        panels = -(-size.columns // blocks.width)
        in_last_block = (panels - 1) % blocks.panels + 1
        is_simple = not (
            blocks.by_terms or self.root.symmetric or self.root.shared_rows or self.adds
        )
        return (
            size.columns % blocks.width > 0
            and in_last_block > 1
            and blocks.stretches == 1
            and self.is_alone
            and is_simple
            and not self.bands.sides
            and self.bands.read == ALL
        )

    @property
    def reads_panels_in_place(self) -> bool:
        """Whether tiles read the right operand in place."""
        if self.root.shared_rows:
            return True
        if self.blocks.by_terms:
            return self.right.is_dense(self.right.counter)
        tiles = -(-self.size.rows // self.blocks.height)
        if self.blocks.packs:
            return False
        needs_masks = self.has_few_registers and not self.has_whole_panels
        if needs_masks and tiles > self.limits.few_masked_tiles:
            return False
        if self.in_arena and not self.has_whole_panels:
            return False
        return reads_columns_in_place(self.root, self.target, tiles)
