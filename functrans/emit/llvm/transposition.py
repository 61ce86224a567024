"""Strided loads of neighbours: vectors along memory, which are transposed in registers.

Where lanes go along rows of which several elements are read, each element of each row would be
fetched by itself. But the elements of a row are neighbours: a vector from each row has several of
them, and a block of such vectors, transposed, has the same element of all rows in each vector.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from functrans.emit.llvm.text import Writer
from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, as_index
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Assign, Buffer, Let, Reduce, Statement, Store
from functrans.loop.walk import always_loaded, expressions, walk

FEWEST = 4
"""So many neighbours are worth being transposed together."""


class Neighbours(NamedTuple):
    """Loads of elements next to each other, in order, as many as a power of two.

    Parameters
    ----------
    loads : tuple of Scalar
    step : Scalar or None
        How many elements further on the next lane finds its own; None where data decide.
    """

    loads: tuple[Scalar, ...]
    step: Scalar | None


def neighbours(
    body: Sequence[Statement], factors: Coefficients, lanes: int, changing: Container[Buffer]
) -> dict[Scalar, Neighbours]:
    """For loads in the body of a vector loop, those to do them together with.

    Only loads that are done in any case, of buffers that do not change.
    """
    simplify = Simplifier()
    # what is computed inside may have a value for each lane, or be assigned to
    own = (
        x for each in walk(body) if isinstance(each, (Assign, Let, Reduce)) for x in each.targets
    )
    factors = Coefficients(factors.index, {*factors.varying, *own})
    values = [x for each in body if isinstance(each, (Store, Let)) for x in expressions(each)]
    rows: dict[tuple[Buffer, frozenset[tuple[Scalar, int]]], dict[int, Scalar]] = {}
    for node in always_loaded(values):
        stride = factors.of_element(node.attribute, node.args)
        if stride not in (-1, 0, 1) and node.attribute not in changing:
            terms, place = simplify.terms(_place(node))
            rows.setdefault((node.attribute, frozenset(terms.items())), {}).setdefault(place, node)
    found: dict[Scalar, Neighbours] = {}
    for row in rows.values():
        for run in _runs(sorted(row)):
            for part in _parts(run, lanes):
                loads = tuple(row[place] for place in part)
                together = Neighbours(loads, _step(loads[0], factors, simplify))
                for node in together.loads:
                    found.setdefault(node, together)
    return found


def _place(node: Scalar) -> Scalar:
    """The place of a load's element in its buffer."""
    total = as_index(0)
    for extent, position in zip(node.attribute.shape, node.args, strict=True):
        total = Scalar("add", (Scalar("mul", (total, extent), INDEX), position), INDEX)
    return total


def _step(node: Scalar, factors: Coefficients, simplify: Simplifier) -> Scalar | None:
    """How far the elements of two lanes are from each other, if that is known."""
    total = as_index(0)
    for extent, position in zip(node.attribute.shape, node.args, strict=True):
        factor = factors.of(position)
        if factor is None:
            return None
        further = Scalar("mul", (total, extent), INDEX)
        total = Scalar("add", (further, as_index(factor)), INDEX)
    return simplify(total)


def _runs(places: Sequence[int]) -> Iterator[Sequence[int]]:
    """Places that follow each other without a gap."""
    for _, run in groupby(enumerate(places), lambda each: each[1] - each[0]):
        yield [place for _, place in run]


def _parts(run: Sequence[int], lanes: int) -> Iterator[Sequence[int]]:
    """Parts of a run, as long as powers of two; the last one may overlap the one before it."""
    count = 1 << (min(len(run), lanes).bit_length() - 1)
    if count < FEWEST:
        return
    whole = len(run) // count * count
    for start in range(0, whole, count):
        yield run[start : start + count]
    rest = len(run) - whole
    if rest > 1:
        yield run[-max(1 << (rest - 1).bit_length(), FEWEST) :]


def transposed(
    writer: Writer, rows: Sequence[str], kind: str, lanes: int | None = None
) -> list[str]:
    """Square blocks of vectors, transposed: blocks of one, two, four, ... change places (Eklundh).

    Parameters
    ----------
    writer : Writer
    rows : sequence of str
        The vectors, as many as a power of two.
    kind : str
        Their type.
    lanes : int, optional
        How long they are: there are several blocks side by side if it is more than their number.
    """
    count, rows = len(rows), list(rows)
    lanes = lanes or count
    step = 1
    while step < count:
        lows = [n if not n & step else lanes + n - step for n in range(lanes)]
        highs = [n + step if not n & step else lanes + n for n in range(lanes)]
        for i in range(count):
            if not i & step:
                pair = rows[i], rows[i + step]
                rows[i], rows[i + step] = (chosen(writer, pair, kind, n) for n in (lows, highs))
        step *= 2
    return rows


def chosen(writer: Writer, pair: tuple[str, str], kind: str, lanes: Sequence[int]) -> str:
    """Lanes of two vectors."""
    numbers = ", ".join(f"i32 {lane}" for lane in lanes)
    return writer.define(
        f"shufflevector {kind} {pair[0]}, {kind} {pair[1]}, <{len(lanes)} x i32> <{numbers}>"
    )
