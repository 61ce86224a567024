"""Masked tiles: a team skips the tiles of keys that a mask hides from all of its rows.

In attention, the score of a masked key is -inf, ``where(mask, score, -inf)``, and its weight is 0.
So a fully masked tile changes neither the maxima of scores nor the sums. The team examines the mask
of each tile before it processes it. (This is an inspector and an executor, as in
`functrans.lower.product.narrowing`: most masks are data, and examining them takes little time
compared with the products of a tile.)

Skipping must be safe, because zero times infinity is NaN. Each thread examines its share of the
operands of tiles that are skipped (`LeftOut`). If any of them does not contribute exactly 0, the
team processes these tiles in a second turn: since they change no maximum, they may come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from functrans.loop.affine import lies_along
from functrans.loop.nodes import ZERO, as_index, combine_pairwise, index
from functrans.loop.scalar import BOOL, Scalar, const, convert, eq, postorder, where
from functrans.loop.simplify import FALSE, TRUE, Simplifier
from functrans.loop.statements import Assign, If, Let, Reduce, Statement, Store, load, local
from functrans.lower.grid.attention.operands import Loaded
from functrans.lower.grid.attention.pairs import Pairs
from functrans.lower.grid.attention.softmax import Attention
from functrans.lower.grid.attention.tiles import PairTiles, counted
from functrans.lower.grid.dealing import filled
from functrans.lower.product.mask import Mask, mask_at
from functrans.records import NamedTuple

INFINITY = float("inf")

Held = tuple[Sequence[Statement], list[Scalar]]
"""Statements, and conditions that may hold after them."""

Part = Callable[[Scalar], Iterator[Held]]
"""A function of a thread: the conditions on the elements that it examines."""


class LeftOut(NamedTuple):
    """Masked pairs, and the conditions under which they contribute nothing to sums."""

    chosen: Scalar  # holds for the pairs that the mask does not leave out
    values: tuple[int, ...]  # the numbers of values that are multiplied by 0, and have to be finite
    tests: tuple[Scalar, ...] = ()  # conditions on each pair
    # the numbers of products that are multiplied by 0: their operands have to be small enough for
    # the products to be finite
    products: tuple[int, ...] = ()
    largest: float = INFINITY  # the bound on these operands


def left_out(of: Attention, simplify: Simplifier) -> LeftOut | None:
    """The keys that the masks of attention leave out; None if there are no masks.

    The weight of a score of -inf is 0 if the shift is the largest score alone, unless all scores of
    the query are -inf, in which case all of its results are NaN.
    """
    (weighted,) = simplify.substitute([of.weighted], {of.weight: const(0, of.weight.dtype)})
    if not _is_const(weighted, 0) or not _is_shift(of.shift, of.largest):
        return None
    chosen = TRUE
    for mask in masks([of.score], of.pairs):
        (score,) = simplify.substitute([of.score], mask.at(mask.column, simplify))
        if _is_const(score, -INFINITY):
            chosen = chosen & mask.chosen
    chosen = simplify(chosen)
    return None if chosen.op == "const" else LeftOut(chosen, (0,))


def masks(expressions: Sequence[Scalar], pairs: Pairs) -> Iterator[Mask]:
    """The masks of pairs: conditions that select scores or -inf, and do not depend on products."""
    partner = pairs.partners[-1]

    def column_of(chosen: Scalar) -> Scalar | None:
        inside = postorder([chosen])
        return partner if partner in inside and not any(x.op == "fold" for x in inside) else None

    for node in postorder(expressions):
        if not any(_is_const(side, -INFINITY) for side in node.args):
            continue
        mask = mask_at(node, column_of)
        if mask is not None:
            yield mask


def where_seen(
    tiles: PairTiles,
    left_out: LeftOut | None,  # None if there is no mask
    body: Sequence[Statement],  # the processing of a tile
) -> list[Statement]:
    """The loop of a team over the tiles of partners, of which it skips some."""
    if left_out is None:
        return [tiles.over_partners(body)]
    look = _Look(tiles, left_out)
    is_seen, again = local(BOOL, "is_seen"), local(BOOL, "again")
    seen = look.is_seen(is_seen)
    large, before = look.anywhere([look.rows])
    examined = [look.values, look.tests, look.partners]
    if large is FALSE and not any(look.has(part) for part in examined):
        return [tiles.over_partners([*seen, If(is_seen, tuple(body))])]
    exposed = tiles.own("exposed", BOOL, 1)

    def examine(thread: Scalar) -> list[Statement]:
        statements, holding = look.found_by(thread, examined)
        so_far = load(exposed, (thread, ZERO))
        some = combine_pairwise("or", [so_far, *holding])
        return [*statements, Store(exposed, (thread, ZERO), some)]

    def of_thread(thread: Scalar) -> Iterator[Held]:
        yield [], [load(exposed, (thread, ZERO))]

    turn = index("turn", 2)
    is_first = eq(turn, 0)
    loop = tiles.over_partners(
        [*seen, If(where(is_first, is_seen, ~is_seen), tuple(body), (tiles.by_threads(examine),))]
    )
    stop = where(is_first | again, loop.stop, 0)
    some, combined = look.anywhere([of_thread])
    return [
        *before,
        Let((again,), (large,)),
        tiles.by_threads(lambda thread: filled(exposed, thread, False)),
        counted(turn, [replace(loop, stop=stop), *combined, Assign((again,), (again | some,))]),
    ]


class _Look:
    """The examination of a tile by the threads of a team."""

    def __init__(self, tiles: PairTiles, of: LeftOut) -> None:
        self.tiles = tiles
        self.of = of

    def anywhere(self, parts: Sequence[Part]) -> tuple[Scalar, Sequence[Statement]]:
        """Whether any thread finds something, and the statements that determine it.

        All loads are bound to names first, so that they do not wait for each other.
        """
        threads = self.tiles.tile.threads
        thread, some = index("thread", threads), local(BOOL, "some")
        body, holding = self.found_by(thread, parts)
        if not holding:
            return FALSE, ()
        value = combine_pairwise("or", holding)
        loops = ((thread, ZERO, as_index(threads)),)
        found = Reduce((some,), ("or",), (value,), loops, tuple(body), threads, whole=True)
        return some, [found]

    def found_by(
        self, thread: Scalar, parts: Sequence[Part]
    ) -> tuple[list[Statement], list[Scalar]]:
        """The statements of a thread that determine some conditions, and the conditions."""
        body: list[Statement] = []
        holding: list[Scalar] = []
        for part in parts:
            for before, values in part(thread):
                names = tuple(local(BOOL, "holds") for _ in values)
                body += [*before, Let(names, tuple(self.tiles.simplify(x) for x in values))]
                holding += names
        return body, holding

    def has(self, part: Part) -> bool:
        """Whether there is anything to examine."""
        return any(values for _, values in part(index("thread", self.tiles.tile.threads)))

    def is_seen(self, name: Scalar) -> list[Statement]:
        """Statements that declare whether any pair of a tile is not masked."""
        some, found = self.anywhere([self.chosen])
        return [*found, Let((name,), (some,))]

    def chosen(self, thread: Scalar) -> Iterator[Held]:
        """Whether any of a thread's pairs is not masked."""
        yield self._of_pairs(thread, [self.of.chosen])

    def tests(self, thread: Scalar) -> Iterator[Held]:
        """Whether a test of a thread's pairs fails."""
        if self.of.tests:
            yield self._of_pairs(thread, [~test for test in self.of.tests])

    def _of_pairs(self, thread: Scalar, conditions: Sequence[Scalar]) -> Held:
        """Conditions on a thread's share of the pairs, which is contiguous in the mask's memory."""
        tiles, tile, pairs = self.tiles, self.tiles.tile, self.tiles.pairs
        along = sum(lies_along(x, pairs.rows[-1], pairs.partners[-1]) for x in conditions)
        lines, line = (tile.keys, tile.queries) if along else (tile.queries, tile.keys)
        own, within = self._contiguous(thread, lines, line)
        rows, partners = (within, own) if along else (own, within)
        named = [tiles.named(tiles.operands.row(row)) for row in rows]
        known = [tiles.operands.partner(partner) for partner in partners]
        every = [{**row.known, **partner} for row in named for partner in known]
        # conditions on a row, or on a partner, are shared by several pairs
        found = [x for each in every for x in tiles.substitute(conditions, each)]
        return [row.declared for row in named], [*dict.fromkeys(found)]

    def _contiguous(
        self, thread: Scalar, lines: int, line: int
    ) -> tuple[list[Scalar], list[Scalar]]:
        """A thread's lines of a tile, and its positions in these: whole lines, or a part of one."""
        count = lines * line // self.tiles.tile.threads
        parts = max(1, line // count)
        first, part = self.tiles.operands.divided(thread, parts)
        each = max(1, count // line)
        return (
            [self.tiles.simplify(first * each + number) for number in range(each)],
            [self.tiles.simplify(part * (line // parts) + n) for n in range(line // parts)],
        )

    def values(self, thread: Scalar) -> Iterator[Held]:
        """Whether a value of the tile is infinite or NaN."""
        for number in self.of.values:
            for stretch in self._stretches(self.tiles.tile.keys):
                share = self.tiles.operands.share_of_values(number, thread, stretch)
                yield [], [~(abs(each.element) < INFINITY) for each in share]

    def partners(self, thread: Scalar) -> Iterator[Held]:
        """Whether an operand of the partners of a tile is too large."""
        yield from self._large(thread, self.tiles.operands.share_of_partners)

    def rows(self, thread: Scalar) -> Iterator[Held]:
        """Whether an operand of the team's rows is too large."""
        yield from self._large(thread, self.tiles.operands.share_of_rows)

    def _large(
        self, thread: Scalar, share: Callable[[int, Scalar, Scalar], Sequence[Loaded]]
    ) -> Iterator[Held]:
        for number in self.of.products:
            for stretch in self._stretches(self.tiles.products[number].terms):
                found = share(number, thread, stretch)
                yield [], [~(abs(wide(each.element)) <= self.of.largest) for each in found]

    def _stretches(self, terms: int) -> list[Scalar]:
        return [as_index(number) for number in range(-(-terms // self.tiles.tile.depth))]


def wide(x: Scalar) -> Scalar:
    """A number as a float32, or wider."""
    return convert(x, "float32") if x.dtype.itemsize < 4 else x


def _is_const(x: Scalar, number: float) -> bool:
    return x.op == "const" and x.attribute == number


def _is_shift(shift: Scalar, largest: Scalar) -> bool:
    """Whether a shift is the largest score, or a number that is neither -inf nor NaN."""
    if shift is largest:
        return True
    match shift.op:
        case "const":
            return bool(shift.attribute > -INFINITY)
        case "where":
            return all(_is_shift(side, largest) for side in shift.args[1:])
        case "max":
            own = [side for side in shift.args if not _is_const(side, -INFINITY)]
            return bool(own) and all(_is_shift(side, largest) for side in own)
        case "convert":
            (inner,) = shift.args
            is_wider = inner.dtype.kind == "f" and inner.dtype.itemsize <= shift.dtype.itemsize
            return is_wider and _is_shift(inner, largest)
    return False
