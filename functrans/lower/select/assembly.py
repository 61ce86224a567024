"""Loop fission of concatenations and similar operations: one loop for each part, written in place.

Otherwise, each element would be computed with as many comparisons as there are parts, to find out
which part it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functrans.ir.graph import Atom, Eqn
from functrans.ir.types import Aval
from functrans.loop.nodes import INDEX, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import Buffer, For, Statement, Store, buffer
from functrans.loop.walk import loaded
from functrans.lower.select.recomputation import Evaluation
from functrans.lower.select.root import Elements, Emitted
from functrans.lower.select.root_builder import RootBuilder
from functrans.ops.compiled.emission import Position
from functrans.ops.compiled.places import Index, covers, disjoint, is_whole
from functrans.ops.compiled.statements import nest, vectorised
from functrans.records import NamedTuple


class Assembly(NamedTuple):
    """Roots that write the parts of a join.

    Measured: all together (200 rows joined), `longest_shared` (LSTMs with diagonal weights).
    """

    together: int = 128
    """The most elements of small parts that one root writes, one after another."""
    together_in_loop: int = 32
    """The same inside a loop, each of whose vectors writes them."""
    longest_shared: int = 64
    """The most elements of rows that are added in one loop."""
    few_elements: int = 2
    """Parts of more elements than this are loops, if there are many of them."""


Parts = Sequence[tuple[Index, Atom]]


def assembled(
    roots: RootBuilder, eqn: Eqn, given: Sequence[tuple[Index, int]], *, adds: bool
) -> Buffer:
    """An array of parts; later ones replace earlier ones, or are added to them."""
    aval = eqn.outputs[0].aval
    given = [(place, number) for place, number in given if eqn.inputs[number].aval.size]
    base = given.pop(0)[1] if given and is_whole(given[0][0], aval.shape) else None
    parts = [(place, eqn.inputs[number]) for place, number in given]
    places = [place for place, _ in parts]
    in_order = (adds and base is not None) or not disjoint(places)
    if base is not None:
        target = roots.to_be_changed(eqn, base)
    else:
        target = buffer(roots.name(), aval.dtype, aval.shape)
        if in_order or not covers(places, aval.shape):
            _add_zeros(roots, target, aval)
    if in_order:
        _add_in_order(roots, target, parts, "add" if adds else None, disjoint(places))
    else:
        _DisjointParts(roots, target).add(parts)
    return target


def _add_zeros(roots: RootBuilder, target: Buffer, aval: Aval) -> None:
    loops = roots.loops(aval.shape)
    zero = const(0, target.dtype)
    roots.all.append(Elements(target, loops, tuple(range(len(loops))), ((loops, zero),)))


class _DisjointParts:
    """Parts that do not overlap: written in any order, each with its own loops."""

    def __init__(self, roots: RootBuilder, target: Buffer) -> None:
        self.roots = roots
        self.target = target
        self.together: list[Elements] = []  # small parts that will become one root

    def add(self, parts: Parts) -> None:
        limits = self.roots.target[Assembly]
        for place, x in parts:
            root = self._part_root(place, x, len(parts))
            loops = root.loops
            # (elements with a stride are written together with those in between)
            is_row = len(place) - 1 in root.axes and abs(_step(place)) == 1
            if is_row or root.folds:
                self.roots.all.append(root)
                continue
            most = limits.together_in_loop if loops else limits.together
            count = len(root.elements) * (len(self.together) + 1)
            if self.together and (self.together[0].loops != loops or count > most):
                self._flush()
            self.together.append(root)
        self._flush()

    def _part_root(self, place: Index, x: Atom, parts: int) -> Elements:
        whole = self.roots.regrouped(x) if x.aval.ndim == 1 else x
        if whole is not x:
            return self.roots.along_other_axes(
                whole, self.target, place=lambda number: _in_whole(self.roots, place, (number,))
            )
        limits = self.roots.target[Assembly]
        own = self.roots.loop_axes(x)
        if not own and x.aval.size > limits.few_elements and x.aval.size * parts > limits.together:
            # the code for the elements of all parts would be too long
            own = (max(range(x.aval.ndim), key=x.aval.shape.__getitem__),)
        loops, elements = self.roots.evaluated(x, own)
        placed = tuple((_in_whole(self.roots, place, at), value) for at, value in elements)
        kept = [axis for axis, entry in enumerate(place) if not isinstance(entry, int)]
        axes = tuple(kept[axis] for axis in own)
        before = place[: axes[0] + 1] if axes else ()
        elsewhere = not is_whole(before, x.aval.shape[: len(before)])
        return Elements(self.target, loops, axes, placed, part=True, distant=elsewhere)

    def _flush(self) -> None:
        """Combine the small parts over the same loops to one root."""
        if self.together:
            elements = tuple(element for root in self.together for element in root.elements)
            self.roots.all.append(replace(self.together[0], elements=elements))
            self.together.clear()


def _step(place: Index) -> int:
    """The stride along the last axis."""
    last = place[-1]
    return last[2] if isinstance(last, tuple) else 0


def _in_whole(roots: RootBuilder, place: Index, position: Position) -> Position:
    """The position in the array of an element of a part."""
    own = iter(position)
    return tuple(
        const(entry, INDEX)
        if isinstance(entry, int)
        else roots.puller.simplify(next(own) * entry[2] + entry[0])
        for entry in place
    )


def _add_in_order(
    roots: RootBuilder, target: Buffer, parts: Parts, op: str | None, is_disjoint: bool
) -> None:
    """Parts of which a later one may change what an earlier one has written."""
    limits = roots.target[Assembly]
    statements: list[Statement] = []
    loops: Position = ()
    for number, (place, x) in enumerate(parts):
        shape = x.aval.shape
        loops = loops if statements else tuple(index("u", n) for n in shape)
        value = roots.puller.element(x, loops)
        if x not in roots.buffers:
            roots.evaluations.append(Evaluation(x, (loops,), loops))
        dense = bool(loops) and isinstance(place[-1], tuple) and place[-1][2] == 1
        statements += _stores(
            roots, target, _in_whole(roots, place, loops), loops, value, op, dense
        )
        following = parts[number + 1][1].aval.shape if number + 1 < len(parts) else None
        # short rows share a loop, in which operations on common operands are executed once
        is_short = is_disjoint and len(shape) == 1 and shape[0] <= limits.longest_shared
        goes_on = following == shape and (is_short or not loops)
        if not goes_on or len(statements) >= limits.together:
            call = tuple(_one_loop(statements) if loops else statements)
            read = (*loaded(call), target)
            roots.all.append(Emitted(target, call, operands=read))
            statements = []


def _one_loop(loops: Sequence[Statement]) -> Sequence[Statement]:
    """Loops over the same index as one, if they are alone."""
    found = [each for each in loops if isinstance(each, For)]
    if len(found) < len(loops) or len({(each.index, each.lanes) for each in found}) > 1:
        return loops
    return [replace(found[0], body=tuple(x for each in found for x in each.body))]


def _stores(
    roots: RootBuilder,
    target: Buffer,
    place: Position,
    loops: Position,
    value: Scalar,
    op: str | None,
    dense: bool,
) -> tuple[Statement, ...]:
    """The statements that store a value at its position, or combine it with the element there.

    ``dense`` says that adjacent elements along the last loop are adjacent in the target.
    """
    before, (value,) = lower_folds([value], 1, roots.puller.simplify, roots.target)
    store = Store(target, place, value, op)
    if roots.target.lanes_are_threads:
        # the elements of one part are written to different positions
        return nest(loops, (*before, store), parallel=True)
    if before or not dense:
        return nest(loops, (*before, store))
    return nest(loops[:-1], vectorised(loops[-1], store, roots.target))
