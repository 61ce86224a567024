"""Store-to-load forwarding: a slice of an array that was written slice by slice is what was stored.

A step that updates a copy of its state row by row reads rows of arrays of which earlier rows have
been replaced. Each of these arrays would have to be stored. Read from the old state, or from what
has replaced the row, all of them are dead, but for the last one. In the derivative of such a step,
a row of the cotangent is replaced by zeros, and something is added to it later: together, the row
is replaced once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

from functrans.ir.graph import Atom, Eqn, Graph, Var, any_eqn, prune, with_graphs
from functrans.ir.primitive import Primitive
from functrans.ir.types import Shape
from functrans.loop.target import Target
from functrans.ops.arrays.shape import concatenate_p
from functrans.ops.arrays.slicing import embed_p, slice_p, update_slice_p
from functrans.ops.arrays.structural import absent_p, full_p, reshape_p
from functrans.ops.compiled.places import (
    Index,
    Range,
    disjoint,
    is_whole,
    slice_of_slice,
    sliced_shape,
    whole,
)
from functrans.ops.elementwise.arithmetic import add
from functrans.optimise.rewrite import Rewriter
from functrans.optimise.simplification import merge_equal

Place = tuple[Atom, Index]
"""A slice of an array. The axes of the slice may be those of another one but for unit axes."""


def forward_slices(graph: Graph, target: Target) -> Graph:
    """Read slices of arrays that are written slice by slice from what was written there.

    Expects any graph.
    Leaves no slice of such an array, unless it consists of parts that were written separately.
    """
    if not any_eqn(graph, _updates):
        return graph
    inner = partial(with_graphs, partial(forward_slices, target=target))
    eqns = [
        eqn.but(params={name: inner(value) for name, value in eqn.params.items()})
        if eqn.primitive.higher_order
        else eqn
        for eqn in graph.eqns
    ]
    graph = Graph(graph.inputs, eqns, graph.outputs)
    if not any(map(_updates, eqns)):
        return graph
    return prune(merge_equal(_Forwarding(graph).run()))


def _updates(eqn: Eqn) -> bool:
    return eqn.primitive is update_slice_p


class _Writes:
    """Slices of an array that are written one after another: equal or without common elements.

    The array after each of these writes is a version.
    """

    def __init__(self, base: Atom) -> None:
        self.base = base
        self.version = 0
        self.is_folded = False  # whether something was added to a slice that had been written
        self._forms: set[Index] = set()
        self._written: dict[Index, list[tuple[int, Atom]]] = {}
        """By index: the versions that replaced the slice, and what by."""

    def write(self, index: Index, value: Atom) -> int:
        """The version after a write."""
        self.version += 1
        self._forms.add(_form(index))
        self._written.setdefault(index, []).append((self.version, value))
        return self.version

    def at(self, index: Index, version: int) -> Atom | None:
        """What a version has at an index in place of elements of the base."""
        written = self._written.get(index, [])
        count = bisect_right(written, version, key=lambda write: write[0])
        return written[count - 1][1] if count else None

    def pieces(self, version: int) -> list[tuple[Index, Atom]]:
        """All that a version has in place of elements of the base."""
        found = ((index, self.at(index, version)) for index in self._written)
        return [(index, value) for index, value in found if value is not None]

    def overlapping(self, index: Index) -> list[Index]:
        """The written indices that have some elements in common with another index."""
        if index in self._written or self._forms <= {_form(index)}:
            return []  # equal but for integers, so that they have no elements in common
        return [other for other in self._written if not disjoint((index, other))]


def _form(index: Index) -> Index:
    """An index without its integers."""
    return tuple(-1 if isinstance(entry, int) else entry for entry in index)


class _Forwarding(Rewriter):
    """The graph, in which the equations that write slices remain for those that read all of it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.written: dict[Atom, tuple[_Writes, int]] = {}
        """The arrays that are versions of others."""
        self.outputs = frozenset(graph.outputs)
        self.rewritten: dict[Atom, Atom] = {}  # versions whose slices are written once each

    def run(self) -> Graph:
        for eqn in self.graph.eqns:
            step = _STEPS.get(eqn.primitive)
            if step is None or not step(self, eqn):
                self.keep(eqn, [self.whole(x) for x in eqn.inputs])
        outputs = [self.whole(x) for x in self.graph.outputs]
        return Graph(self.graph.inputs, self.eqns, outputs)

    def new(self, primitive: Primitive, inputs: Sequence[Atom], like: Eqn, **params: object) -> Var:
        """The result of a new equation."""
        out = Var(primitive.infer(*(x.aval for x in inputs), **params))
        self.keep(Eqn(primitive, inputs, (out,), params, like.source), inputs)
        return out

    # -- writing -----------------------------------------------------------------------------------

    def update(self, eqn: Eqn) -> bool:
        """A slice is replaced."""
        x, value = self.atom(eqn.inputs[0]), self.whole(eqn.inputs[1])
        self.keep(eqn, (x, value))
        # most of an array, if it is read by itself, would be stored by itself, too
        if 2 * value.aval.size <= eqn.outputs[0].aval.size:
            self._write(eqn, x, eqn.params["index"], value)
        return True

    def sum(self, eqn: Eqn) -> bool:
        """Something may be added to a slice."""
        one, other = self.inputs(eqn)
        for x, term in ((one, other), (other, one)):
            maker = self.producers.get(term)
            if maker is None or maker.primitive is not embed_p or x.aval != term.aval:
                continue
            index, (part,) = maker.params["index"], maker.inputs
            if not part.aval.size:
                continue
            self.keep(eqn, (x, term))
            writes, version = self.written.get(x, (None, 0))
            before = writes.at(index, version) if writes is not None else None
            is_folded = before is not None
            if before is None:
                before = self._slice(x, index, eqn)
            total = part if self._is_absent(before) else self.new(add, (before, part), eqn)
            self._write(eqn, x, index, total, is_folded)
            return True
        return False

    def _is_absent(self, atom: Atom) -> bool:
        maker = self.producers.get(atom)
        return maker is not None and maker.primitive is absent_p

    def _write(self, eqn: Eqn, x: Atom, index: Index, value: Atom, is_folded: bool = False) -> None:
        (out,) = eqn.outputs
        if not value.aval.size or value.aval.dtype != out.aval.dtype:
            return  # what is behind it is not found
        writes, version = self.written.get(x, (None, 0))
        if (
            writes is None
            or version < writes.version
            or x in self.rewritten
            or writes.overlapping(index)
        ):
            writes = _Writes(self.whole(x))
        self.written[out] = writes, writes.write(index, value)
        writes.is_folded |= is_folded

    def whole(self, atom: Atom) -> Atom:
        """An array all of which is read."""
        atom = self.atom(atom)
        writes, version = self.written.get(atom, (None, 0))
        if writes is None or not writes.is_folded:
            return atom
        if atom not in self.rewritten:
            eqn = self.producers[atom]
            result = writes.base
            for index, value in writes.pieces(version):
                result = self.new(update_slice_p, (result, value), eqn, index=index)
            self.rewritten[atom] = result
            self.written[result] = writes, version
        return self.rewritten[atom]

    # -- reading -----------------------------------------------------------------------------------

    def read(self, eqn: Eqn) -> bool:
        """A slice is read."""
        if not eqn.outputs[0].aval.size:
            return False
        place = self._place(self.atom(eqn.inputs[0]), eqn.params["index"])
        if place is None:
            return False
        value = self._at(place, eqn.outputs[0].aval.shape, eqn)
        if not value.aval.same_array_type(eqn.outputs[0].aval):
            return False
        self.replace(eqn.outputs[0], value)
        return True

    def _slice(self, x: Atom, index: Index, like: Eqn) -> Atom:
        place = self._place(x, index) or (x, index)
        return self._at(place, sliced_shape(index), like)

    def _at(self, place: Place, shape: Shape, like: Eqn) -> Atom:
        """The slice at a place, in its shape."""
        x, index = self.whole(place[0]), place[1]
        maker = self.producers.get(x)
        if maker is not None and maker.primitive in _FILLED:
            return self.new(maker.primitive, (), like, **{**maker.params, "shape": shape})
        if not is_whole(index, x.aval.shape):
            x = self.new(slice_p, (x,), like, index=index)
        return x if x.aval.shape == shape else self.new(reshape_p, (x,), like, shape=shape)

    def _place(self, x: Atom, index: Index) -> Place | None:
        """Where a slice has been written, or is in an older version; None if it is only here."""
        found: Place | None = None
        while True:
            maker = self.producers.get(x)
            look = _LOOKS.get(maker.primitive) if maker is not None else None
            if x in self.written:
                place, is_found = self._in_version(index, *self.written[x]), True
            elif maker is not None and look is not None:
                place, is_found = look(self, maker, index), maker.primitive not in _VIEWS
            else:
                return found
            if place is None:
                return found
            x, index = place
            found = place if is_found else found

    def _in_version(self, index: Index, writes: _Writes, version: int) -> Place | None:
        hit = writes.at(index, version)
        if hit is not None:
            return hit, tuple(map(whole, hit.aval.shape))
        overlapping = [(other, writes.at(other, version)) for other in writes.overlapping(index)]
        pieces = [(other, value) for other, value in overlapping if value is not None]
        if not pieces:
            return writes.base, index
        (other, value), *more = pieces
        within = None if more else _within(other, index)
        return None if within is None else (value, within)

    def _in_embedding(self, maker: Eqn, index: Index) -> Place | None:
        """Structural zeros, but for one slice."""
        own, (part,) = maker.params["index"], maker.inputs
        if disjoint((own, index)):
            aval = maker.outputs[0].aval
            return self.new(absent_p, (), maker, shape=aval.shape, dtype=aval.dtype), index
        within = _within(own, index)
        return None if within is None else (part, within)

    def _in_join(self, maker: Eqn, index: Index) -> Place | None:
        """A part of a join that is only read slice by slice."""
        (out,) = maker.outputs
        readers = self.graph.readers.get(out, ())
        if out in self.outputs or any(each.primitive is not slice_p for each in readers):
            return None
        axis = maker.params["axis"]
        first, last = _ends(index[axis])
        ends = [*accumulate(part.aval.shape[axis] for part in maker.inputs)]
        number = bisect_right(ends, first)
        part = maker.inputs[number]
        start = ends[number] - part.aval.shape[axis]
        if not start <= last < ends[number]:
            return None
        entry = index[axis]
        moved = entry - start if isinstance(entry, int) else (entry[0] - start, *entry[1:])
        return part, (*index[:axis], moved, *index[axis + 1 :])

    def _in_slice(self, maker: Eqn, index: Index) -> Place:
        """A slice of a slice."""
        return maker.inputs[0], slice_of_slice(maker.params["index"], index)

    def _in_reshape(self, maker: Eqn, index: Index) -> Place | None:
        """A reshape that inserts and removes unit axes."""
        (x,) = maker.inputs
        shape = maker.outputs[0].aval.shape
        if [n for n in shape if n != 1] != [n for n in x.aval.shape if n != 1]:
            return None
        entries = (entry for entry, extent in zip(index, shape, strict=True) if extent != 1)
        return x, tuple(0 if extent == 1 else next(entries) for extent in x.aval.shape)


def _ends(entry: int | Range) -> tuple[int, int]:
    """The first and the last position of an entry, in ascending order."""
    if isinstance(entry, int):
        return entry, entry
    start, size, step = entry
    last = start + (size - 1) * step
    return min(start, last), max(start, last)


def _within(outer: Index, index: Index) -> Index | None:
    """A slice as a slice of the slice at another index; None if it is not all in there."""
    found: list[int | Range] = []
    for whole_entry, entry in zip(outer, index, strict=True):
        first, last = _ends(entry)
        if isinstance(whole_entry, int):
            if first != whole_entry or last != whole_entry:
                return None
            continue
        start, size, step = whole_entry
        begin, stride, count = (
            (entry, 1, 1) if isinstance(entry, int) else (entry[0], entry[2], entry[1])
        )
        position, rest = divmod(begin - start, step)
        by, uneven = divmod(stride, step) if count > 1 else (1, 0)
        end = position + (count - 1) * by
        if rest or uneven or not (0 <= position < size and 0 <= end < size):
            return None
        found.append(position if isinstance(entry, int) else (position, count, by))
    return tuple(found)


_STEPS: dict[Primitive, Callable[[_Forwarding, Eqn], bool]] = {
    update_slice_p: _Forwarding.update,
    add: _Forwarding.sum,
    slice_p: _Forwarding.read,
}

_LOOKS: dict[Primitive, Callable[[_Forwarding, Eqn, Index], Place | None]] = {
    embed_p: _Forwarding._in_embedding,
    concatenate_p: _Forwarding._in_join,
    slice_p: _Forwarding._in_slice,
    reshape_p: _Forwarding._in_reshape,
}

_VIEWS = (slice_p, reshape_p)
"""What is not worth replacing by a slice of its operand, unless that leads on."""

_FILLED = (absent_p, full_p)
"""Arrays of equal elements."""
