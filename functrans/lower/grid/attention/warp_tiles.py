"""Scores on tensor cores: warps multiply fragments of half floats, from shared memory.

Where operands were half floats before they were widened, the products of rows and partners that
threads compute in `functrans.lower.grid.attention.tiles` are executed as a `MatrixMultiply` of each
warp. The products of such numbers are the same, and are accumulated in float32. Values of pairs are
exchanged through shared memory, as there. (Where the weights are half floats as well,
`functrans.lower.grid.attention.warp_kernel` keeps scores in registers.)
"""

from __future__ import annotations

from functrans.loop import fragments
from functrans.loop.fragments import ROWS, WARP
from functrans.loop.grid import AttentionTile
from functrans.loop.nodes import ZERO, as_index
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Address, Buffer, MatrixMultiply, Panel, Statement
from functrans.lower.grid.attention.pairs import PairProduct, Values
from functrans.lower.grid.attention.tiles import Own, PairTiles
from functrans.lower.grid.products.recognition import SINGLE, before_widening


def in_halves(product: PairProduct, tile: AttentionTile) -> PairProduct | None:
    """A product with half floats as operands; None if tensor cores cannot compute it in a tile."""
    found = halves_of_product(product)
    if found is None or not _has_warps(tile):
        return None
    if product.terms % tile.depth or tile.depth % fragments.terms(found.left[0].dtype):
        return None
    return found


def halves_of_product(product: PairProduct) -> PairProduct | None:
    """A product of half floats of one kind, before they were widened; None if it is not one."""
    if len(product.left) != 1 or len(product.right) != 1 or product.op != "add":
        return None
    (left,), (right,) = product.left, product.right
    halves = _halves(left, right)
    if halves is None or product.term.dtype != SINGLE:
        return None
    if product.term.op != "mul" or product.term.args not in ((left, right), (right, left)):
        return None
    return product._replace(left=halves[:1], right=halves[1:])


def in_half(values: Values, weighted: Scalar) -> tuple[Values, Scalar] | None:
    """Values and their weights as half floats of one kind; None if they are not."""
    halves = _halves(values.value, weighted)
    return None if halves is None else (values._replace(value=halves[0]), halves[1])


def _halves(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar] | None:
    """The half floats of one kind from which two numbers were widened; None if they were not."""
    first, second = before_widening(x), before_widening(y)
    if first is None or second is None or first.dtype != second.dtype:
        return None
    return first, second


def _has_warps(tile: AttentionTile) -> bool:
    """Whether a tile can be divided into fragments of 16 rows for each warp."""
    down, rest = divmod(tile.queries, ROWS)
    return not rest and tile.threads % (WARP * down) == 0


class WarpPairTiles(PairTiles):
    """Generates the statements of pairs whose products are those of tensor cores.

    Parameters are those of `PairTiles`.
    """

    by_warps = True

    @property
    def warps_across(self) -> int:
        """The number of warps that share rows of a tile."""
        return self.tile.threads // WARP * ROWS // self.tile.queries

    @property
    def warp_columns(self) -> int:
        """The columns of a warp's fragments."""
        return self.tile.keys // self.warps_across

    def products_of(self, thread: Scalar) -> list[Own]:
        """A thread's elements of its warp's fragments: their registers, rows and columns."""
        _, lane = self.operands.divided(thread, WARP)
        quotient, rest = self.operands.divided(lane, 4)
        first, start = self._corner(thread)
        rows = fragments.own_rows(quotient + first, ROWS)
        columns = fragments.own_columns(rest, self.warp_columns)
        return [
            Own(number, self.simplify(rows[row]), self.simplify(start + columns[column]))
            for number, (row, column) in enumerate(fragments.own_sums(ROWS, self.warp_columns))
        ]

    def _corner(self, thread: Scalar) -> tuple[Scalar, Scalar]:
        """The first row and column of the warp to which a thread belongs."""
        warp, _ = self.operands.divided(thread, WARP)
        down, across = self.operands.divided(warp, self.warps_across)
        return self.simplify(down * ROWS), self.simplify(across * self.warp_columns)

    def _terms(
        self, number: int, products: Buffer, thread: Scalar, stretch: Scalar
    ) -> list[Statement]:
        (left,), (right,) = self.operands.left[number], self.operands.right[number]
        row, column = self._corner(thread)
        first = stretch * self.tile.depth
        return [
            MatrixMultiply(
                Address(products, (thread, ZERO)),
                Panel(Address(left, (self.simplify(first + term), row)), ROWS, 1, _line(left)),
                self._across(right, term, column),
            )
            for term in range(0, self.tile.depth, fragments.terms(left.dtype))
        ]

    def _across(self, operand: Buffer, term: int, column: Scalar) -> Panel:
        """The operand of a warp's columns, which are adjacent."""
        corner = Address(operand, (as_index(term), column))
        return Panel(corner, self.warp_columns, 1, _line(operand))


def _line(row: Buffer) -> int:
    """The distance between the lines of a row, in elements."""
    return row.extents[-1]
