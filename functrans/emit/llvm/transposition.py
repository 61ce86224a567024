"""Strided loads of adjacent elements: vectors along memory, which are transposed in registers.

If the lanes of a vector belong to different rows, and several elements of each row are read, every
element of each row would be loaded by itself. But the elements of a row are adjacent: a vector from
each row holds several of them, and after a block of such vectors is transposed, each vector holds
the same element of all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from functrans.emit.llvm.text import Writer
from functrans.loop.affine import Coefficients
from functrans.loop.nodes import as_index, linear
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Let, Statement, Store
from functrans.loop.walk import (
    always_loaded,
    assigned,
    bodies,
    declared,
    expressions,
    loaded,
    stored,
)
from functrans.records import NamedTuple

FEWEST = 2
"""The fewest adjacent loads for which a transposition is profitable."""

NEAR = 3
"""Up to this stride, loading everything between the lanes is cheaper than a transposition."""


class Neighbours(NamedTuple):
    """Loads of adjacent elements, in order; their number is a power of two."""

    loads: tuple[Scalar, ...]
    step: Scalar | None  # the stride between the elements of two lanes; None if it depends on data


def neighbours(
    body: Sequence[Statement], factors: Coefficients, lanes: int
) -> dict[Scalar, Neighbours]:
    """For loads in the body of a vector loop, the groups with which they are executed.

    Only for loads that are executed unconditionally, and before all stores to their buffer.
    """
    simplify, changing = Simplifier(), _read_after_stores(body)
    # values computed inside may differ between lanes, or be assigned
    own = {*declared(body), *assigned(body)}
    factors = Coefficients(factors.index, {*factors.varying, *own})
    values = [x for each in body if isinstance(each, (Store, Let)) for x in expressions(each)]
    rows: dict[tuple[Buffer, frozenset[tuple[Scalar, int]]], dict[int, Scalar]] = {}
    for node in always_loaded(values):
        stride = factors.of_element(node.attribute, node.args)
        is_far = stride is None or abs(stride) > NEAR
        if is_far and node.attribute not in changing and node.attribute.column is None:
            terms, place = simplify.terms(linear(node.args, node.attribute.shape))
            rows.setdefault((node.attribute, frozenset(terms.items())), {}).setdefault(place, node)
    found: dict[Scalar, Neighbours] = {}
    for row in rows.values():
        for run in _runs(sorted(row)):
            for part in _parts(run, lanes):
                loads = tuple(row[place] for place in part)
                first = loads[0]
                step = step_between(first.attribute, first.args, factors, simplify)
                together = Neighbours(loads, step)
                for node in together.loads:
                    found.setdefault(node, together)
    return found


def _read_after_stores(body: Iterable[Statement]) -> set[Buffer]:
    """The buffers that may be read after an iteration of the body stored to them."""
    written, found = set[Buffer](), set[Buffer]()
    for each in body:
        if written:
            found |= written & loaded([each])
        written |= (stores := stored([each]))
        if bodies(each):
            found |= stores
    return found


def step_between(
    target: Buffer, indices: Sequence[Scalar], factors: Coefficients, simplify: Simplifier
) -> Scalar | None:
    """The stride between the elements of two lanes; None if it depends on data."""
    steps = [factors.of(position) for position in indices]
    known = [as_index(step) for step in steps if step is not None]
    return simplify(linear(known, target.shape)) if len(known) == len(steps) else None


def _runs(places: Sequence[int]) -> Iterator[Sequence[int]]:
    """Maximal runs of consecutive offsets."""
    for _, run in groupby(enumerate(places), lambda each: each[1] - each[0]):
        yield [place for _, place in run]


def _parts(run: Sequence[int], lanes: int) -> Iterator[Sequence[int]]:
    """Parts of a run with powers of two as lengths; the last may overlap the one before it."""
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
    writer: Writer,
    rows: Sequence[str],  # the vectors; their number is a power of two
    kind: str,  # their type
    # their length; if it exceeds their number, several blocks lie side by side
    lanes: int | None = None,
) -> list[str]:
    """Transpose blocks of vectors by exchanging sub-blocks of sizes 1, 2, 4, ... (Eklundh)."""
    count, rows = len(rows), list(rows)
    lanes = lanes or count
    step = 1
    while step < count:
        lows = [n if not n & step else lanes + n - step for n in range(lanes)]
        highs = [n + step if not n & step else lanes + n for n in range(lanes)]
        for i in range(count):
            if not i & step:
                pair = rows[i], rows[i + step]
                rows[i], rows[i + step] = (writer.chosen(pair, kind, n) for n in (lows, highs))
        step *= 2
    return rows
