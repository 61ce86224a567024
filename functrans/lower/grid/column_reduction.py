"""Reductions over columns: a team shares the rows, and combines its threads' partial results.

Expects a step. Leaves the kernel of a team, if otherwise each thread would reduce a column, and
there would be too few threads:

    for each group of columns, by a team:
        each thread: reduce every n-th row of some of the columns, into shared memory
        in stages: combine a few partial results, until there is one for each column
        each thread: compute the epilogue of a column's result

Adjacent threads read adjacent elements, several columns at once if rows are aligned to 16 bytes.
The order of the reduction depends on the extents alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.reductions import Reductions, blocked, unblocked
from functrans.loop.scalar import Scalar, const, maximum, minimum, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    Kernel,
    Let,
    Reduce,
    Statement,
    Store,
    buffer,
    in_loops,
    load,
    local,
    where_true,
)
from functrans.loop.substitution import substituted
from functrans.loop.walk import Access, Body, accesses, walk
from functrans.lower.grid.contiguity import neighbours, reads_back, stride
from functrans.lower.grid.dealing import deal, least_power_of_two, work_of
from functrans.lower.grid.launch import narrowed
from functrans.lower.grid.sizes import Sizes, called, with_products
from functrans.lower.nest.linearisation import Values, quotient_and_rest
from functrans.lower.nest.unroll_and_jam import Jam, NotUniform
from functrans.lower.plan import Step
from functrans.records import NamedTuple


def shared_columns(step: Step, grid: Grid, lengths: Reductions, largest: int) -> Step:
    """The step with teams that share the rows of reductions over columns.

    ``largest`` is the largest number that is a constant in kernels.
    """
    kernel, sizes = step.kernel, Sizes(step.sizes, largest)
    found = _columns(kernel, sizes, grid)
    if found is None:
        return step
    made = _Sharing(kernel, found, sizes, lengths).kernel()
    return narrowed(called(step, replace(made, narrow=False), sizes.numbers))


class Columns(NamedTuple):
    """The division of a column reduction among the threads of a team."""

    body: Body  # the statements for a column: reductions with a single loop each, and stores
    width: int  # the number of adjacent columns of which a thread reads an element at once
    threads: int  # the number of threads along a row
    groups: int  # the number of rows that are read at the same time


_FAR = 32
"""The bytes of a memory transaction."""

_TOGETHER = 16
"""The number of partial results that a thread combines sequentially."""


def _columns(kernel: Kernel, sizes: Sizes, grid: Grid) -> Columns | None:
    """The division of a kernel's columns and rows among threads; None if not profitable."""
    if kernel.team != 1 or kernel.scratch or not kernel.band:
        return None
    loop = kernel.band[-1]
    body = tuple(unblocked(x) if isinstance(x, Reduce) else x for x in loop.body)
    sums = [each for each in body if isinstance(each, Reduce)]
    if any(each.start is not ZERO for each in kernel.band) or not _is_plain(body):
        return None
    if not any(_goes_down(each, loop, sizes) for each in sums):
        return None
    count = sizes.value(loop.stop)
    width = _width(loop, sums, sizes, grid)
    threads = min(grid.warp, least_power_of_two(count // width))
    teams = -(-count // (width * threads))
    teams *= prod(sizes.value(each.stop) for each in kernel.band[:-1])
    terms = max(prod(map(_extent, each.loops)) for each in sums)
    longest = max(_extent(each.loops[_longest(each)]) for each in sums)
    nbytes = width * threads * sum(x.dtype.itemsize for each in sums for x in each.targets)
    groups = 1
    while (
        2 * groups * threads <= grid.largest_team
        and grid.iterations * groups <= terms
        and 2 * groups <= longest
        and 2 * groups * nbytes <= grid.rows
        and teams * groups * threads < grid.threads
    ):
        groups *= 2
    if groups == 1 or groups * threads < grid.warp:
        return None
    return Columns(body, width, threads, groups)


def _longest(statement: Reduce) -> int:
    """The reduction with the most iterations, among those that are alike otherwise."""
    inner = {counter for counter, *_ in statement.loops}
    extents = [
        _extent(loop) if loop[1] is ZERO and inner.isdisjoint(postorder(loop[1:])) else 0
        for loop in statement.loops
    ]
    return extents.index(max(extents))


def _extent(loop: tuple[Scalar, Scalar, Scalar]) -> int:
    """The most iterations of a loop; 0 if that is not known."""
    return loop[0].attribute[2] or 0


def _is_plain(body: Body) -> bool:
    """Whether statements are reductions and their epilogues, in their own memory."""
    if not all(isinstance(each, (Let, Reduce, Store)) for each in body):
        return False
    if reads_back(body):
        return False
    sums = [each for each in body if isinstance(each, Reduce)]
    inner = [each for one in sums for each in walk(one.body)]
    return all(_extent(one.loops[_longest(one)]) for one in sums) and not any(
        isinstance(each, Store) for each in inner
    )


def _goes_down(statement: Reduce, loop: For, sizes: Sizes) -> bool:
    """Whether a reduction reads at least as much along columns as along rows."""
    votes = []
    for each in set(accesses(statement.body, statement.values)):
        near, far = (
            _bytes(each, counter, sizes) for counter in (loop.index, statement.loops[-1][0])
        )
        votes.append((0 < 2 * near <= far) - (0 < 2 * far <= near))
    return 1 in votes and sum(votes) >= 0


def _bytes(access: Access, counter: Scalar, sizes: Sizes) -> int:
    """The distance in memory between the elements of two iterations, bounded."""
    apart = stride(access, counter, sizes)
    return _FAR if apart is None else min(abs(apart) * access.buffer.dtype.itemsize, _FAR)


def _width(loop: For, sums: Sequence[Reduce], sizes: Sizes, grid: Grid) -> int:
    """The number of columns of which a thread reads elements at once."""
    widths = [
        neighbours(each, loop.index, sizes.numbers)
        for one in sums
        for each in accesses(one.body, one.values)
        if stride(each, loop.index, sizes) != 0
    ]
    width = max(min(widths, default=1), 1)
    work = sum(work_of(one, sizes.numbers) for one in sums)
    while width > 1 and (sizes.value(loop.stop) % width or width * work > grid.largest_strip):
        width //= 2
    try:
        for one in sums:
            Jam([{}, {}], Simplifier()).statements((one,))
    except NotUniform:
        return 1
    return width


class _Sharing:
    """Generates a kernel whose teams share rows."""

    def __init__(self, kernel: Kernel, columns: Columns, sizes: Sizes, lengths: Reductions) -> None:
        self.given = kernel
        self.columns = columns
        self.sizes = sizes
        self.lengths = lengths
        self.simplify = Simplifier()
        self.loop = kernel.band[-1]
        self.count = sizes.value(self.loop.stop)
        self.wide = columns.threads * columns.width  # the number of columns of a team
        self.team = columns.threads * columns.groups
        self.block = index("columns", -(-self.count // self.wide))
        self.scratch: list[Buffer] = []
        self.known: dict[Scalar, Scalar] = {}
        """The values of the declared locals, in a column of the team."""
        self.sums: dict[Scalar, Scalar] = {}  # the same for the reductions alone
        self.column = index("column", self.wide)

    def kernel(self) -> Kernel:
        phases: list[Statement] = []
        last: list[Statement] = []
        for statement in self.columns.body:
            if isinstance(statement, Reduce):
                phases += self._shared(statement)
            if isinstance(statement, Let):
                # all reductions come before all stores, which remain in order
                values = self.simplify.substitute(statement.values, self.known)
                self.known |= dict(zip(statement.targets, values, strict=True))
            if not isinstance(statement, Reduce):
                last.append(statement)
        body: Body = (*phases, self._by_columns(last))
        stop = self.sizes.of(self.block.attribute[2])
        body = (For(self.block, ZERO, stop, body, parallel=True),)
        body = in_loops(self.given.band[:-1], body)
        made = replace(self.given, body=body, scratch=tuple(self.scratch), team=self.team)
        return with_products(made, self.sizes, self.columns.width)

    # -- partial results --------------------------------------------------------------------------

    def _shared(self, statement: Reduce) -> list[Statement]:
        """A reduction: partial results of all threads, and stages that combine them."""
        groups, threads, width = self.columns.groups, self.columns.threads, self.columns.width
        thread = index("thread", self.team)
        group, strip = quotient_and_rest(thread, threads, self.simplify)
        rows = self._some_rows(statement, group)
        lanes = [self._lane(strip, number) for number in range(width)]
        (jammed,) = Jam(lanes, self.simplify).statements((rows,))
        assert isinstance(jammed, Reduce)
        partial = [self._rows(target, groups) for target in statement.targets]
        body: list[Statement] = [blocked(jammed, self.lengths)]
        for number, target in enumerate(jammed.targets):
            lane, which = divmod(number, len(partial))
            column = self.simplify(strip * width + lane)
            body.append(Store(partial[which], (group, column), target))
        statements: list[Statement] = [deal(thread, body, self.team)]
        while groups > 1:
            few = max(groups // _TOGETHER, 1)
            combined = [self._rows(target, few) for target in statement.targets]
            statements.append(self._combined(statement.ops, partial, combined))
            groups, partial = few, combined
        for target, row in zip(statement.targets, partial, strict=True):
            self.sums[target] = self.known[target] = load(row, (ZERO, self.column))
        return statements

    def _some_rows(self, statement: Reduce, group: Scalar) -> Reduce:
        """A strided slice of the rows, reduced by a group of threads."""
        number, groups = _longest(statement), self.columns.groups
        counter, _, stop = statement.loops[number]
        turn = index(counter.attribute[0], -(-counter.attribute[2] // groups))
        many = Scalar("idiv", (stop + (groups - 1) - group, const(groups, INDEX)), INDEX)
        known = {counter: self.simplify(turn * groups + group)}
        loops = list(statement.loops)
        loops[number] = turn, ZERO, self.simplify(maximum(many, ZERO))
        return replace(
            statement,
            loops=tuple(loops),
            values=tuple(self.simplify.substitute(statement.values, known)),
            body=substituted(statement.body, known, self.simplify),
        )

    def _lane(self, strip: Scalar, number: int) -> dict[Scalar, Scalar]:
        """Substitutes for the index of a column, and for what has been computed in it."""
        width = self.columns.width
        within = self.simplify(strip * width + number)
        place = self.block * self.columns.threads + strip
        if self.count % self.wide:
            place = minimum(place, self.sizes.of(self.count // width) - 1)
        column = {self.loop.index: self.simplify(place * width + number)}
        return {**self._in_column(self.known, {self.column: within, **column}), **column}

    def _in_column(self, known: Mapping[Scalar, Scalar], at: Mapping[Scalar, Scalar]) -> Values:
        """Substitutes for locals, in one of the columns."""
        values = self.simplify.substitute(list(known.values()), at)
        return dict(zip(known, values, strict=True))

    def _rows(self, target: Scalar, groups: int) -> Buffer:
        """Shared memory with an element for each group and column."""
        row = buffer(target.attribute[0], target.dtype, (groups, self.wide))
        self.scratch.append(row)
        return row

    def _combined(self, ops: Sequence[str], given: Sequence[Buffer], made: Sequence[Buffer]) -> For:
        """Threads combine a few rows of partial results to one each."""
        thread = index("thread", self.team)
        many, few = given[0].extents[0], made[0].extents[0]
        share = many // few
        body: list[Statement] = []
        for number in range(0, few * self.wide, self.team):
            row, column = quotient_and_rest(thread + number, self.wide, self.simplify)
            term = index("row", share)
            place = self.simplify(row * share + term), column
            targets = tuple(local(one.dtype, one.name) for one in made)
            values = tuple(load(one, place) for one in given)
            loops = ((term, ZERO, const(share, INDEX)),)
            combining: list[Statement] = [Reduce(targets, tuple(ops), values, loops)]
            combining += [
                Store(one, (row, column), target) for one, target in zip(made, targets, strict=True)
            ]
            body += where_true(self.simplify(row < few), combining)
        return deal(thread, body, self.team)

    # -- results ----------------------------------------------------------------------------------

    def _by_columns(self, statements: Sequence[Statement]) -> For:
        """The epilogue of the columns' results, with a thread for each column."""
        thread = index("thread", self.team)
        body: list[Statement] = []
        for number in range(0, self.wide, self.team):
            within = self.simplify(thread + number)
            column = self.simplify(self.block * self.wide + within)
            at = {self.column: within, self.loop.index: column}
            known = {**self._in_column(self.sums, at), self.loop.index: column}
            inside = (within < self.wide) & (column < self.loop.stop)
            body += where_true(self.simplify(inside), self._known_in(statements, known))
        return deal(thread, body, self.team)

    def _known_in(self, statements: Sequence[Statement], known: Values) -> list[Statement]:
        """The statements of one column, with locals of its own."""
        made: list[Statement] = []
        for each in statements:
            if isinstance(each, Let):
                own = tuple(local(target.dtype, target.attribute[0]) for target in each.targets)
                made.append(Let(own, tuple(self.simplify.substitute(each.values, known))))
                known = {**known, **dict(zip(each.targets, own, strict=True))}
            else:
                made += substituted((each,), known, self.simplify)
        return made
