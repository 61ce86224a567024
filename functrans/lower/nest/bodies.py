"""A fused nest as statements of the loop IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod

from functrans.loop.nodes import INDEX, index
from functrans.loop.reductions import START, lower_folds
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier, from_terms
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    Let,
    Reduce,
    Statement,
    Store,
    buffer,
    load,
    local,
    serial,
)
from functrans.loop.target import Target
from functrans.loop.walk import expressions, loaded, stored, walk
from functrans.lower.nest.accumulators import side_by_side
from functrans.lower.nest.fusion import Loop
from functrans.lower.nest.index_splitting import pieces, row_length
from functrans.lower.nest.tiling import tiled
from functrans.lower.select.root import Root, extent_of


@dataclass(frozen=True)
class Nest:
    """Statements, and what they need besides the buffers that outlive them.

    Parameters
    ----------
    body : tuple of statements
    scratch : tuple of Buffer
        Rows that are used only within an iteration of the outermost loop.
    work : int
        Roughly the number of scalar operations.
    part : bool
        Whether it writes a part of a join, as others do.
    """

    body: tuple[Statement, ...]
    scratch: tuple[Buffer, ...]
    work: int
    part: bool = False


def within_bounds(nest: Nest, target: Target) -> Nest:
    """The nest with no more on the stack than fits; other rows become temporaries like any.

    Threads cannot share such a row, so they cannot share the loop.
    """
    room = target.loops.largest_stack
    kept = []
    for row in sorted(nest.scratch, key=_bytes):
        room -= _bytes(row)
        if room >= 0:
            kept.append(row)
    if len(kept) == len(nest.scratch):
        return nest
    return replace(nest, body=tuple(map(serial, nest.body)), scratch=tuple(kept))


class Bodies:
    """Makes the statements of nests.

    Parameters
    ----------
    readers : dict
        All roots that read a buffer.
    target : Target
    simplify : Simplifier
    """

    def __init__(
        self, readers: Mapping[Buffer, Sequence[Root]], target: Target, simplify: Simplifier
    ) -> None:
        self.readers = readers
        self.target = target
        self.limits = target.loops
        self.simplify = simplify
        self._known: dict[Scalar, Scalar] = {}
        self._moved: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}
        self._contracted: set[Root] = set()
        self._replaced: dict[Scalar, Scalar] = {}

    def build(self, nest: Loop) -> list[Nest]:
        """The statements of one nest; several if its outermost loop is cut into pieces."""
        self._known = {}
        self._moved = {}
        self._contracted = set()
        self._plan(nest, nest, ())
        units = list(self._units(nest))
        scratch = tuple(row for row, _ in self._moved.values())
        scratch += tuple(row for root in nest.roots for row in root.scratch)
        work = sum(root.work for root in nest.roots)
        is_long = partial(_is_long, least=self.target.fusion.worth_a_kernel)
        bodies = _kernels(units, set(scratch), is_long)
        total = sum(map(_count, filter(is_long, bodies))) or 1
        if len(bodies) == 1:
            return [Nest(bodies[0], scratch, work, any(root.part for root in nest.roots))]
        return [
            Nest(body, scratch, work * _count(body) // total if is_long(body) else len(body))
            for body in bodies
        ]

    # -- where the values of a nest live ------------------------------------------------------

    def _plan(self, nest: Loop, loop: Loop, path: tuple[Loop, ...]) -> None:
        path = (*path, loop)
        for child in loop.children:
            if isinstance(child, Loop):
                self._plan(nest, child, path)
            elif not child.output:
                self._contract(nest, child, path)

    def _contract(self, nest: Loop, root: Root, path: tuple[Loop, ...]) -> None:
        """Keep a value that only its nest needs in locals, or in a row, instead of in memory."""
        readers = self.readers.get(root.target, ())
        shared = 0
        for loop in path:
            if not all(reader in loop.roots for reader in readers):
                break
            shared += 1
        if shared == 0 or root.call or not readers:
            return
        loads = [node for reader in readers for node in reader.loads[root.target]]
        constant = all(
            i.op == "const"
            for node in loads
            for axis, i in enumerate(node.args)
            if axis not in root.axes
        )
        if shared == len(path) and constant:
            self._contracted.add(root)
            return
        if path[0].index is None or path[shared - 1].vector:
            return
        kept = [n for axis, n in enumerate(root.target.shape) if axis not in root.axes[:shared]]
        bytes_needed = prod(int(n.attribute) for n in kept) * root.target.dtype.itemsize
        used = sum(_bytes(row) for row, _ in self._moved.values())
        if bytes_needed + used <= self.limits.largest_scratch:
            row = buffer(f"{root.target.name}_row", root.target.dtype, kept)
            self._moved[root.target] = row, root.axes[:shared]

    def _resolve(self, root: Root) -> list[Scalar]:
        """A root's expressions, reading locals and rows where the nest keeps its values in such."""
        replaced: dict[Scalar, Scalar] = {}
        for node in root.nodes:
            if node.op != "load":
                continue
            if node in self._known:
                replaced[node] = self._known[node]
            elif node.attribute in self._moved:
                row, dropped = self._moved[node.attribute]
                kept = [i for axis, i in enumerate(node.args) if axis not in dropped]
                replaced[node] = load(row, self.simplify.substitute(kept, replaced))
        return self.simplify.substitute([value for _, value in root.elements], replaced)

    # -- statements ---------------------------------------------------------------------------

    def _units(self, nest: Loop) -> Iterator[tuple[Statement, ...]]:
        """What the outermost loop does, in pieces of its range: no iteration needs another."""
        if nest.index is None:
            yield tuple(self._block(nest))
            return
        for start, stop in self._pieces(nest):
            yield tuple(self._piece(nest, start, stop, outermost=True))

    def _block(self, loop: Loop) -> Iterator[Statement]:
        for child in loop.children:
            assert isinstance(child, Root)
            yield from child.call or self._root(child)

    def _loop(self, loop: Loop, outermost: bool) -> Iterator[Statement]:
        for start, stop in self._pieces(loop):
            yield from self._piece(loop, start, stop, outermost)

    def _pieces(self, loop: Loop) -> list[tuple[int, int]]:
        assert loop.index is not None
        extent = extent_of(loop.index)
        if sum(root.size for root in loop.roots) > self.limits.largest_copied:
            return [(0, extent)]
        nodes = [node for root in loop.roots for node in root.nodes]
        return pieces(loop.index, extent, nodes, self.target, self.simplify)

    def _piece(self, loop: Loop, start: int, stop: int, outermost: bool) -> Iterator[Statement]:
        """The iterations ``start <= index < stop`` of a loop."""
        assert loop.index is not None
        extent = stop - start
        counter = loop.index
        length = self._row_length(loop, start, extent)
        rows = index("row", extent // length) if length else None
        if extent == 1:
            self._replaced[loop.index] = const(start, INDEX)
        elif length and rows is not None:
            extent, counter = length, index(loop.index.attribute[0], length)
            self._replaced[loop.index] = from_terms({rows: length, counter: 1}, start)
        elif extent < extent_of(loop.index):
            counter = index(loop.index.attribute[0], extent)
            self._replaced[loop.index] = from_terms({counter: 1}, start)
        lanes = self._lanes(loop, extent) if loop.vector and extent > 1 else 1
        body: list[Statement] = []
        for child in loop.children:
            if isinstance(child, Root):
                body.extend(self._root(child, lanes))
            else:
                # in a single iteration, the loops inside are the outermost ones
                body.extend(self._loop(child, outermost and extent == 1))
        self._replaced.pop(loop.index, None)
        if extent == 1:
            yield from body
            return
        inner = For(
            counter,
            START,
            const(extent, INDEX),
            tuple(body),
            lanes=lanes,
            repeatable=lanes > 1,
            whole=extent % lanes == 0 and not (outermost and rows is None),
        )
        if rows is not None:
            inner = For(rows, START, const(extent_of(rows), INDEX), (inner,))
        elif outermost and "tile" in self.target.stages:
            inner = tiled(inner, self.target)
        yield _in_parallel(inner, self.target.parallel_loops) if outermost else inner

    def _row_length(self, loop: Loop, start: int, extent: int) -> int | None:
        """The length of rows that a vector loop is to be taken apart into."""
        assert loop.index is not None
        if not loop.vector:
            return None
        nodes = (node for root in loop.roots for node in root.nodes)
        length = row_length(loop.index, extent, nodes, self.target)
        return length if length and start % length == 0 else None

    def _root(self, root: Root, lanes: int = 1) -> Iterator[Statement]:
        """Compute a root at the current indices: so many of them, if it is in a vector loop."""
        values = self._resolve(root)
        values = self.simplify.substitute(values, self._replaced)
        if root.folds:
            register = self._register(values, root)
            if lanes > 1 and "accumulators" in self.target.stages:
                count = self._accumulators(root, lanes // register)
                values = side_by_side(values, count, self.target, self.simplify)
            along = register if lanes == 1 else 1
            statements, values = lower_folds(values, along, self.simplify, self.target)
            yield from statements
        if root in self._contracted:
            names: list[Scalar] = []
            named: list[Scalar] = []
            for (position, _), value in zip(root.elements, values, strict=True):
                element = load(root.target, position)
                if value.args and value.op != "load":
                    name = local(root.target.dtype, root.target.name)
                    names.append(name)
                    named.append(value)
                    self._known[element] = name
                else:
                    self._known[element] = value  # a zero stays known to be one
            if names:
                yield Let(tuple(names), tuple(named))
            return
        where, dropped = self._moved.get(root.target, (root.target, ()))
        for (position, _), value in zip(root.elements, values, strict=True):
            kept = [i for axis, i in enumerate(position) if axis not in dropped]
            yield Store(where, tuple(self.simplify.substitute(kept, self._replaced)), value)

    def _register(self, values: Sequence[Scalar], root: Root) -> int:
        """How many of the numbers of a root fit into a vector register."""
        widest = max(root.target.dtype.itemsize, *_widths(values))
        return self.target.lanes(widest)

    def _accumulators(self, root: Root, registers: int) -> int:
        """How many sums side by side keep the adders busy, where one takes so many registers."""
        if root.size > self.limits.narrow_body:
            return 1
        return self.target.reductions.accumulators // (max(registers, 1) * len(root.folds))

    def _lanes(self, loop: Loop, extent: int) -> int:
        """How many of so many iterations to do at once."""
        roots = [child for child in loop.children if isinstance(child, Root)]
        widest = max(max(root.target.dtype.itemsize, *_widths_of(root)) for root in roots)
        lanes = self.target.lanes(widest)
        narrow = sum(root.size for root in roots) <= self.limits.narrow_body
        if lanes > 1 and narrow and any(root.folds for root in roots):
            lanes = self._columns(lanes, extent)
        while lanes > extent:
            lanes //= 2
        return lanes

    def _columns(self, lanes: int, extent: int) -> int:
        """How many columns to sum at once: the last ones may be summed twice."""

        def cost(vectors: int) -> float:
            return -(-extent // (vectors * lanes)) * (vectors + self.limits.cost_of_steps)

        widest = self.limits.wide_columns
        choices = [widest >> i for i in range(widest.bit_length())]
        return lanes * min(choices, key=cost)


def _in_parallel(loop: For, count: int) -> For:
    """A loop, with so many of the band that it begins marked: no iteration of a nest needs another.

    What a nest keeps in rows or locals, an iteration of the innermost loop around all of their uses
    makes for itself.
    """
    body = loop.body
    if count > 1 and len(body) == 1 and isinstance(body[0], For):
        body = (_in_parallel(body[0], count - 1),)
    return replace(loop, body=body, parallel=True)


def _kernels(
    units: Sequence[tuple[Statement, ...]],
    scratch: set[Buffer],
    is_long: Callable[[Sequence[Statement]], bool],
) -> list[tuple[Statement, ...]]:
    """The bodies of kernels: each long loop, which threads may share, and all short units in one.

    Units do not depend on each other, so the short ones may come last. The statements of one unit
    keep their order.
    """
    long: list[tuple[Statement, ...]] = []
    short: list[Statement] = []
    for unit in units:
        groups = _groups(unit, scratch, is_long)
        if any(map(is_long, groups)):
            long += groups
        else:
            short += unit
    bodies = [body for body in (*long, tuple(short)) if body]
    if len(bodies) > 1:
        bodies = [body if is_long(body) else tuple(map(_serial, body)) for body in bodies]
    return bodies


def _groups(
    unit: Sequence[Statement],
    scratch: set[Buffer],
    is_long: Callable[[Sequence[Statement]], bool],
) -> list[tuple[Statement, ...]]:
    """Statements in kernels: a long loop has its own if nothing that a kernel forgets is lost."""
    cuts = {0, len(unit)}
    for number, each in enumerate(unit):
        if is_long((each,)):
            cuts.update((number, number + 1))
    legal = [cut for cut in sorted(cuts) if not _handed_on(unit[:cut], unit[cut:], scratch)]
    return [tuple(unit[start:stop]) for start, stop in pairwise(legal)]


def _handed_on(
    before: Sequence[Statement], after: Sequence[Statement], scratch: set[Buffer]
) -> bool:
    """Whether statements need locals, or rows on the stack, that others before them have made."""
    if not scratch.isdisjoint(stored(before)) and not scratch.isdisjoint(loaded(after)):
        return True
    made = {x for each in before if isinstance(each, (Let, Reduce)) for x in each.targets}
    if not made:
        return False
    inside = list(walk(after))
    needed = {x for each in inside if isinstance(each, Assign) for x in each.targets}
    needed.update(postorder(x for each in inside for x in expressions(each)))
    return not made.isdisjoint(needed)


def _is_long(body: Sequence[Statement], least: int) -> bool:
    """Whether statements are one loop that threads may share, and are worth it."""
    (first, *rest) = body
    return isinstance(first, For) and first.parallel and not rest and _count(body) >= least


def _count(body: Sequence[Statement]) -> int:
    """The iterations of the loop that statements are."""
    (loop,) = body
    assert isinstance(loop, For)
    return int(loop.stop.attribute)


def _serial(statement: Statement) -> Statement:
    """A statement among others of its kernel: a part of its range is not asked for."""
    if not isinstance(statement, For) or not statement.parallel:
        return statement
    whole = int(statement.stop.attribute) % statement.lanes == 0
    return serial(replace(statement, whole=whole))


def _widths_of(root: Root) -> list[int]:
    return _widths([value for _, value in root.elements])


def _widths(values: Sequence[Scalar]) -> list[int]:
    """The sizes in bytes of the numbers that are computed with, indices left out."""
    return [1] + [
        node.attribute.widest if node.op == "apply" else node.dtype.itemsize
        for node in postorder(values)
        if node.dtype != INDEX or node.op == "load"
    ]


def _bytes(row: Buffer) -> int:
    return prod(int(n.attribute) for n in row.shape) * row.dtype.itemsize
