"""Masked tiles: a team leaves out the tiles of keys of which none of its queries sees a key.

Where a mask leaves a key out, its score is -inf, ``where(mask, score, -inf)``, and its weight is 0.
So a tile in which the mask leaves nothing changes neither the largest scores nor the sums, as long
as its values are finite: zero times infinity is NaN, and then the tile is gone through. The team
looks at both, for each tile: masks mostly are data, and of a tile that is left out the products of
queries and keys and the weighted sums take some fifty times as long as a look at its mask and its
values. (That is an inspector and an executor, as in `functrans.lower.product.narrowing`.)

What has to hold so that the weight of such a score is 0, or whatever is made of it is NaN anyway,
is known of the program: that the shift of a query is made of its largest score alone, and is not
-inf unless that is.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.nodes import ZERO, as_index, combine_pairwise, index
from functrans.loop.scalar import BOOL, Scalar, const, postorder
from functrans.loop.simplify import TRUE, Simplifier
from functrans.loop.statements import Assign, If, Let, Reduce, Statement, local
from functrans.lower.grid.attention.softmax import Attention
from functrans.lower.grid.attention.tiles import PairTiles
from functrans.lower.product.mask import mask_at


def where_seen(of: Attention, tiles: PairTiles, body: Sequence[Statement]) -> Sequence[Statement]:
    """What a team does with a tile of keys, if there is anything to do.

    Parameters
    ----------
    of : Attention
    tiles : PairTiles
    body : sequence of statements
        What is done with a tile.
    """
    chosen = _chosen(of, tiles.simplify) if of.leaves_out else None
    if chosen is None:
        return body
    some, is_seen, spoilt = (local(BOOL, name) for name in ("some", "is_seen", "spoilt"))
    look = If(~is_seen, (_any_infinite(tiles, spoilt), Assign((is_seen,), (spoilt,))))
    return [
        _any_chosen(tiles, chosen, some),
        Let((is_seen,), (some,)),
        look,
        If(is_seen, tuple(body)),
    ]


def _chosen(of: Attention, simplify: Simplifier) -> Scalar | None:
    """The condition without which a pair does not count; None if there is none."""
    zero = const(0, of.weight.dtype)
    (weighted,) = simplify.substitute([of.weighted], {of.weight: zero})
    if weighted.op != "const" or weighted.attribute != 0 or not _is_shift(of.shift, of.largest):
        return None
    (key,) = of.pairs.partners

    def column_of(chosen: Scalar) -> Scalar | None:
        inside = postorder([chosen])
        return key if key in inside and all(node.op != "fold" for node in inside) else None

    found = TRUE
    for node in postorder([of.score]):
        mask = mask_at(node, column_of)
        if mask is None:
            continue
        (score,) = simplify.substitute([of.score], mask.at(key, simplify))
        if score.op == "const" and score.attribute == float("-inf"):
            found = found & mask.chosen
    found = simplify(found)
    return None if found.op == "const" else found


def _is_shift(shift: Scalar, largest: Scalar) -> bool:
    """Whether a shift is the largest score, or a finite number."""
    if shift is largest:
        return True
    match shift.op:
        case "const":
            return abs(shift.attribute) < float("inf")
        case "where":
            return all(_is_shift(side, largest) for side in shift.args[1:])
        case "convert":
            (inner,) = shift.args
            is_wider = inner.dtype.kind == "f" and inner.dtype.itemsize <= shift.dtype.itemsize
            return is_wider and _is_shift(inner, largest)
    return False


def _any_chosen(tiles: PairTiles, chosen: Scalar, some: Scalar) -> Statement:
    """See whether the condition holds for any pair of a tile: each thread looks at its own."""
    thread = index("thread", tiles.tile.threads)
    rows = [tiles.named(tiles.operands.row(own)) for own in tiles.own_rows(thread)]
    partners = [tiles.operands.partner(own) for own in tiles.own_partners(thread)]
    pairs = [{**row.known, **partner} for row in rows for partner in partners]
    values = [tiles.substitute([chosen], known)[0] for known in pairs]
    return _any(tiles, thread, [row.declared for row in rows], values, some)


def _any_infinite(tiles: PairTiles, some: Scalar) -> Statement:
    """See whether any value of a tile is infinite, or NaN."""
    thread = index("thread", tiles.tile.threads)
    stretch = index("stretch", tiles.tile.keys // tiles.tile.depth)
    share = tiles.operands.share_of_values(0, thread, stretch)
    values = [~(abs(element) < float("inf")) for *_, element in share]
    return _any(tiles, thread, [], values, some, stretch)


def _any(
    tiles: PairTiles,
    thread: Scalar,
    before: Sequence[Statement],
    values: Sequence[Scalar],
    some: Scalar,
    *outer: Scalar,
) -> Statement:
    """See whether anything holds of what threads look at; all loads come first."""
    names = tuple(local(BOOL, "holds") for _ in values)
    body = (*before, Let(names, tuple(tiles.simplify(value) for value in values)))
    loops = [(each, ZERO, as_index(each.attribute[2])) for each in (*outer, thread)]
    value = combine_pairwise("or", list(names))
    lanes = tiles.tile.threads
    return Reduce((some,), ("or",), (value,), tuple(loops), body, lanes, whole=True)
