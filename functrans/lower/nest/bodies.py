"""Code generation for fused nests: contraction, index-set splitting, vectors, loop fission.

Expects nests of fused roots. Leaves statements of the loop IR, in bodies that each become a kernel.
A value that only its nest needs is contracted to locals (scalar replacement), or to a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice, pairwise
from math import prod
from operator import attrgetter

from functrans.caches import cached_property
from functrans.lazily import lazy
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.operations import operations_of
from functrans.loop.reductions import Reductions, lower_folds
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    Let,
    Statement,
    Store,
    buffer,
    load,
    local,
    serial,
)
from functrans.loop.target import Target
from functrans.loop.terms import from_terms
from functrans.loop.walk import loaded, stored, with_bodies
from functrans.lower.nest.fission import distribute, is_worth_sharing, mark_parallel
from functrans.lower.nest.fusion import Fusion, Loop
from functrans.lower.nest.index_splitting import phases, pieces, row_extent
from functrans.lower.nest.row_jamming import several_rows
from functrans.lower.nest.row_sums import row_by_row, takes_rows
from functrans.lower.nest.tiling import tiled
from functrans.lower.nest.vectors import Vectors, lanes_of, parts_of, widths
from functrans.lower.plan import Exit
from functrans.lower.select.root import Elements, Emitted, Root, TeamKernel, extent_of
from functrans.records import dataclass

_with_accumulators = lazy("functrans.lower.nest.accumulators:with_accumulators")

MOST_TOGETHER = 4
"""The most sums that share a loop along a row: each has several vector registers."""


@dataclass(frozen=True)
class Nest:
    """Statements of a nest, with their private buffers and properties."""

    body: tuple[Statement, ...]
    scratch: tuple[Buffer, ...]  # rows that live only within an iteration of the outermost loop
    part: int = 0  # the elements that it writes of a part of a join; 0 if that is none
    # on a grid, the number of threads for an iteration (`functrans.loop.statements.Kernel`)
    team: int = 0
    # the indices of the enclosing loops that the program executes, outermost first
    turns: tuple[Scalar, ...] = ()
    private: tuple[Buffer, ...] = ()  # the rows that are private to each thread of the team
    # numbers up to this describe tiles, not the program's arrays: they remain constants of the
    # kernel
    largest_constant: int = 0
    operations: int | None = None  # the operations on data, if they have been counted
    products: int = 0  # those of products, which are not among them
    uncounted: int = 0  # those of library routines and of loops of unknown length
    form: str = ""  # the name of its form, if there are several
    in_phases: bool = False  # whether each parallel loop is a kernel, also within sequential loops
    exit: Exit | None = None  # the condition that ends the innermost loop of the program after it

    @property
    def work(self) -> int:
        """All operations."""
        counted = self.operations
        counted = operations_of(self.body) if counted is None else counted
        return counted + self.products + self.uncounted

    @cached_property
    def loads(self) -> frozenset[Buffer]:
        """The buffers that it reads."""
        return frozenset(loaded(self.body))

    @cached_property
    def stores(self) -> frozenset[Buffer]:
        """The buffers that it writes."""
        return frozenset(stored(self.body))


def limit_stack(nest: Nest, target: Target) -> Nest:
    """Limit private rows to those that fit on the stack; the others become temporaries.

    Threads cannot share such a row, so they cannot share the loop.
    """
    if nest.team:
        # its scratch was checked when the number of threads was chosen
        return nest
    room = target.largest_stack
    kept = []
    for row in sorted(nest.scratch, key=attrgetter("nbytes")):
        room -= row.nbytes
        if room >= 0:
            kept.append(row)
    if len(kept) == len(nest.scratch):
        return nest
    lost = set(nest.scratch).difference(kept)
    body = tuple(_one_by_one(serial(each), lost) for each in nest.body)
    return replace(nest, body=body, scratch=tuple(kept))


def _one_by_one(statement: Statement, rows: Set[Buffer]) -> Statement:
    """A statement in which all loops that write one of these rows are serial, at any depth."""
    statement = with_bodies(statement, lambda body: tuple(_one_by_one(each, rows) for each in body))
    if isinstance(statement, For) and statement.parallel and rows & stored([statement]):
        return replace(statement, parallel=False)
    return statement


class NestBuilder:
    """Generates the statements of nests."""

    def __init__(
        self,
        readers: Mapping[Buffer, Sequence[Root]],  # the roots that read each buffer
        target: Target,
        simplify: Simplifier,
    ) -> None:
        self.readers = readers
        self.target = target
        self.limits = target[Vectors]
        self.simplify = simplify
        self._scalars: dict[Scalar, Scalar] = {}
        self._rows: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}
        self._contracted: set[Root] = set()
        self._named: set[Root] = set()
        self._index_values: dict[Scalar, Scalar] = {}

    def build(self, nest: Loop) -> list[Nest]:
        """The statements of one nest; several if its outermost loop is split."""
        first = next(iter(nest.roots))
        if isinstance(first, Emitted) and (first.in_phases or isinstance(first, TeamKernel)):
            made = Nest(
                first.statements,
                first.scratch,
                largest_constant=first.largest_constant,
                uncounted=first.uncounted,
            )
            if isinstance(first, TeamKernel):
                turns, body = first.in_turns
                made = replace(made, body=body, turns=turns, private=first.private)
                return [replace(made, team=first.team)]
            return [replace(made, in_phases=True)]
        self._scalars = {}
        self._rows = {}
        self._contracted = set()
        self._named = set()
        self._contract_all(nest, ())
        units = list(self._pieces_of_nest(nest))
        scratch = tuple(row for row, _ in self._rows.values())
        scratch += tuple(row for root in nest.roots for row in root.scratch)
        uncounted = sum(root.uncounted for root in nest.roots if isinstance(root, Emitted))
        is_shared = partial(is_worth_sharing, least=self.target[Fusion].worth_a_kernel)
        bodies = distribute(units, set(scratch), is_shared, self.target)
        if len(bodies) == 1:
            parts = (x for x in nest.roots if isinstance(x, Elements) and x.part)
            part = sum(len(x.elements) * prod(map(extent_of, x.loops)) for x in parts)
            largest = max(
                (x.largest_constant for x in nest.roots if isinstance(x, Emitted)), default=0
            )
            return [Nest(bodies[0], scratch, part, largest_constant=largest, uncounted=uncounted)]
        return [Nest(body, scratch, uncounted=uncounted // len(bodies)) for body in bodies]

    # -- where the values of a nest live ------------------------------------------------------

    def _contract_all(self, loop: Loop, path: tuple[Loop, ...]) -> None:
        path = (*path, loop)
        for child in loop.children:
            if isinstance(child, Loop):
                self._contract_all(child, path)
                continue
            if not child.output:
                self._contract(child, path)
            if child in self._contracted or self._is_read_inside(loop, child):
                self._named.add(child)

    def _is_read_inside(self, loop: Loop, root: Root) -> bool:
        """Whether loops inside read a value of a row, which LLVM would load in each iteration."""
        if loop.vectorisable or not isinstance(root, Elements) or root.part:
            return False
        if self.target.lanes_are_threads:
            return False  # not measured
        return any(each in loop.roots for each in self.readers.get(root.target, ()))

    def _contract(self, root: Root, path: tuple[Loop, ...]) -> None:
        """Contract a value that only its nest reads: to locals, or else to a row."""
        readers = self.readers.get(root.target, ())
        shared = 0
        for loop in path:
            if not all(reader in loop.roots for reader in readers):
                break
            shared += 1
        if shared == 0 or not isinstance(root, Elements) or not readers:
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
        if path[0].index is None or path[shared - 1].vectorisable:
            return
        kept = [n for axis, n in enumerate(root.target.shape) if axis not in root.axes[:shared]]
        row = buffer(f"{root.target.name}_row", root.target.dtype, kept)
        used = sum(row.nbytes for row, _ in self._rows.values())
        if row.nbytes + used <= self.target.largest_scratch:
            self._rows[root.target] = row, root.axes[:shared]

    def _replace_loads(self, root: Elements) -> list[Scalar]:
        """A root's expressions, with locals, or loads of rows, in place of contracted values."""
        replaced: dict[Scalar, Scalar] = {}
        for node in root.nodes:
            if node.op != "load":
                continue
            if node in self._scalars:
                replaced[node] = self._scalars[node]
            elif node.attribute in self._rows:
                row, dropped = self._rows[node.attribute]
                kept = [i for axis, i in enumerate(node.args) if axis not in dropped]
                replaced[node] = load(row, self.simplify.substitute(kept, replaced))
        return self.simplify.substitute([value for _, value in root.elements], replaced)

    # -- statements ---------------------------------------------------------------------------

    def _pieces_of_nest(self, nest: Loop) -> Iterator[tuple[Statement, ...]]:
        """The outermost loop in independent pieces of its range."""
        if nest.index is None:
            yield tuple(self._children(nest, 1, False))
            return
        for start, stop in self._pieces(nest, outermost=True):
            yield tuple(self._piece(nest, start, stop, outermost=True))

    def _loop(self, loop: Loop, outermost: bool) -> Iterator[Statement]:
        for start, stop in self._pieces(loop, outermost):
            yield from self._piece(loop, start, stop, outermost)

    def _pieces(self, loop: Loop, outermost: bool) -> list[tuple[int, int]]:
        assert loop.index is not None
        extent = extent_of(loop.index)
        if sum(root.node_count for root in loop.roots) > self.limits.largest_copied:
            return [(0, extent)]
        nodes = [node for root in loop.roots for node in root.nodes]
        found = pieces(loop.index, extent, nodes, self.target, self.simplify)
        by_rows = not outermost and "tile" in self.target.stages and takes_rows(loop, self.target)
        if not loop.vectorisable or by_rows or (outermost and self._is_shared(loop)):
            return found
        return [part for piece in found for part in self._parts(loop, *piece)]

    def _is_shared(self, loop: Loop) -> bool:
        """Whether threads may share an outermost loop, or all steps of the scan that it is in.

        They share the columns of a scan if its steps do not mix them.
        """
        if sum(root.work for root in loop.roots) > self.limits.largest_split:
            return True
        loads = [x for root in loop.roots if root.folds for x in root.nodes if x.op == "load"]
        return self.target.in_loop and all(loop.index in postorder(x.args) for x in loads)

    def _parts(self, loop: Loop, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """A piece of a loop in parts of fewer and fewer vectors at once."""
        if self._row_extent(loop, start, stop - start) or self._phases(loop, stop - start):
            return iter([(start, stop)])
        return pairwise(accumulate(parts_of(loop, stop - start, self.target), initial=start))

    def _piece(self, loop: Loop, start: int, stop: int, outermost: bool) -> Iterator[Statement]:
        """The iterations ``start <= index < stop`` of a loop."""
        assert loop.index is not None
        extent = stop - start
        count = self._phases(loop, extent)
        if count is not None:
            yield from self._in_phases(loop, start, extent, count, outermost)
            return
        counter = loop.index
        length = self._row_extent(loop, start, extent)
        rows = index("row", extent // length) if length else None
        if extent == 1:
            self._index_values[loop.index] = const(start, INDEX)
        elif length and rows is not None:
            extent, counter = length, index(loop.index.attribute[0], length)
            self._index_values[loop.index] = from_terms({rows: length, counter: 1}, start)
        elif extent < extent_of(loop.index):
            counter = index(loop.index.attribute[0], extent)
            self._index_values[loop.index] = from_terms({counter: 1}, start)
        lanes = lanes_of(loop, extent, self.target) if loop.vectorisable and extent > 1 else 1
        # a loop of a single iteration vanishes: the loops inside become outermost
        body = list(self._children(loop, lanes, outermost and extent == 1))
        self._index_values.pop(loop.index, None)
        if extent == 1:
            yield from body
            return
        inner = _counting(loop, counter, body, lanes, outermost and rows is None)
        if rows is not None:
            inner = For(rows, ZERO, const(extent_of(rows), INDEX), (inner,))
        elif outermost and "tile" in self.target.stages:
            inner = tiled(inner, self.target)
        if "tile" in self.target.stages:
            inner = several_rows(inner, self.target)
        if outermost or self.target.lanes_are_threads:
            # on a grid, all loops may be divided among threads
            inner = mark_parallel(inner, self.target.parallel_loops)
        tiles = not outermost and "tile" in self.target.stages
        yield from row_by_row(inner, self.target) if tiles else (inner,)

    def _phases(self, loop: Loop, extent: int) -> int | None:
        """The number of iterations that become one, if conditions repeat after as many."""
        assert loop.index is not None
        roots = list(loop.roots)
        nodes = (node for root in roots for node in root.nodes)
        count = phases(loop.index, nodes, self.target, self.simplify)
        if count is None or extent < 2 * count or any(root.folds for root in roots):
            return None
        size = sum(root.node_count for root in roots)
        return count if size * count <= self.limits.largest_copied else None

    def _in_phases(
        self, loop: Loop, start: int, extent: int, count: int, outermost: bool
    ) -> Iterator[Statement]:
        """A loop whose iterations execute ``count`` of the old ones, and the old ones left over."""
        assert loop.index is not None
        steps = extent // count
        step = index(loop.index.attribute[0], steps)
        lanes = lanes_of(loop, steps, self.target) if loop.vectorisable else 1
        body: list[Statement] = []
        for k in range(count):
            self._index_values[loop.index] = from_terms({step: count}, start + k)
            body.extend(self._children(loop, lanes, False))
        del self._index_values[loop.index]
        inner = _counting(loop, step, body, lanes, outermost)
        yield mark_parallel(inner, self.target.parallel_loops) if outermost else inner
        for at in range(start + steps * count, start + extent):
            yield from self._piece(loop, at, at + 1, outermost)

    def _children(self, loop: Loop, lanes: int, outermost: bool) -> Iterator[Statement]:
        """The statements of an iteration."""
        outside = dict(self._scalars)
        together: list[Elements] = []
        for child in loop.children:
            if isinstance(child, Elements):
                if not self._may_join(together, child, lanes):
                    yield from self._roots(together, lanes)
                    together = []
                together.append(child)
                continue
            yield from self._roots(together, lanes)
            together = []
            if isinstance(child, Loop):
                yield from self._loop(child, outermost)
            elif isinstance(child, Emitted):
                yield from child.statements
        yield from self._roots(together, lanes)
        self._scalars = outside

    def _may_join(self, before: Sequence[Elements], root: Elements, lanes: int) -> bool:
        """Whether the folds of a root may share a loop with those of the roots before it.

        They read a row once then, but not in a vector loop, where each has several registers.
        """
        if not before:
            return True
        if lanes > 1 or len(before) == MOST_TOGETHER or not (root.folds and before[0].folds):
            return False
        made = {each.target for each in before}
        first, own = (self._vector_length([x for _, x in r.elements], r) for r in (before[0], root))
        return first == own and made.isdisjoint(
            node.attribute for node in root.nodes if node.op == "load"
        )

    def _row_extent(self, loop: Loop, start: int, extent: int) -> int | None:
        """The extent of the inner loop, if a vector loop is delinearised into two."""
        assert loop.index is not None
        if not loop.vectorisable:
            return None
        nodes = (node for root in loop.roots for node in root.nodes)
        length = row_extent(loop.index, extent, nodes, self.target)
        return length if length and start % length == 0 else None

    def _roots(self, roots: Sequence[Elements], lanes: int = 1) -> Iterator[Statement]:
        """Compute roots at the current indices, or at a vector of them in a vector loop.

        The roots do not depend on each other.
        """
        found = [self._values(root, lanes) for root in roots]
        if any(root.folds for root in roots):
            along = min(map(self._vector_length, found, roots)) if lanes == 1 else 1
            flat = [value for values in found for value in values]
            statements, flat = lower_folds(flat, along, self.simplify, self.target)
            yield from statements
            rest = iter(flat)
            found = [list(islice(rest, len(values))) for values in found]
        for root, values in zip(roots, found, strict=True):
            yield from self._results(root, values)

    def _values(self, root: Elements, lanes: int) -> list[Scalar]:
        """The expressions of a root's elements."""
        values = self.simplify.substitute(self._replace_loads(root), self._index_values)
        if root.folds and lanes > 1 and "accumulators" in self.target.stages:
            count = self._accumulators(root, lanes // self._vector_length(values, root))
            values = _with_accumulators(values, count, self.target, self.simplify)
        return values

    def _results(self, root: Elements, values: Sequence[Scalar]) -> Iterator[Statement]:
        """Name or store the elements of a root."""
        if root in self._named:
            elements = [load(root.target, position) for position, _ in root.elements]
            names = {
                value: local(root.target.dtype, root.target.name)
                for value in values
                if value.args and value.op != "load"
            }
            if names:
                yield Let(tuple(names.values()), tuple(names))
            values = [names.get(value, value) for value in values]  # a zero remains a constant
            self._scalars.update(zip(elements, values, strict=True))
        if root in self._contracted:
            return
        target, dropped = self._rows.get(root.target, (root.target, ()))
        for (position, _), value in zip(root.elements, values, strict=True):
            kept = [i for axis, i in enumerate(position) if axis not in dropped]
            yield Store(target, tuple(self.simplify.substitute(kept, self._index_values)), value)

    def _vector_length(self, values: Sequence[Scalar], root: Root) -> int:
        """The lanes of one vector register, for the widest numbers of a root."""
        widest = max(root.target.dtype.itemsize, *widths(values))
        return self.target.lanes(widest)

    def _accumulators(self, root: Root, registers: int) -> int:
        """The accumulators that hide the latency of additions, given the registers of one."""
        if root.node_count > self.limits.narrow_body:
            return 1
        return self.target[Reductions].accumulators // (max(registers, 1) * len(root.folds))


def _counting(
    loop: Loop,
    counter: Scalar,
    body: Sequence[Statement],
    lanes: int,
    is_divided: bool,  # whether threads may share the iterations
) -> For:
    """The statement of a loop, or of a part of its range."""
    extent = extent_of(counter)
    return For(
        counter,
        ZERO,
        const(extent, INDEX),
        tuple(body),
        lanes=lanes,
        repeatable=lanes > 1 and not loop.accumulates,
        whole=extent % lanes == 0 and not is_divided,
    )
