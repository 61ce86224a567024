"""Reductions: the fold nodes of some expressions become `Reduce` statements before them.

A long sum of floats is a sum of partial sums with a bounded number of terms each, so that its
rounding error grows with the logarithm of its length, as in pairwise summation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functrans.loop.affine import Coefficients
from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import BOOL, Scalar, const, maximum, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Reduce, Statement, local
from functrans.loop.target import Target
from functrans.loop.walk import scalars
from functrans.records import NamedTuple


class Reductions(NamedTuple):
    """Long reductions in blocks, sums of partial sums, and parallel accumulators.

    Measured: `steps` (the error of float32 sums), `from_memory`, `beyond_cache`, `fewest_rows`,
    `fewest_rows_again`, `fewest_lines`, `rows_together`, `fewest_lines_together`,
    `fewest_lines_far`.
    `blocks` gives many threads blocks to share; it must not depend on the number of threads, since
    the bits of a result must not.
    """

    blocks: int = 64
    """The number of blocks of a long reduction."""
    fewest_blocks: int = 8
    """The fewest blocks of a sum over rows that are read whole, if they have enough rows."""
    few_iterations: int = 512
    """Roots with more iterations than this need no blocks, since threads share the iterations."""
    from_memory: int = 24 << 20
    """The bytes of an array that is in no cache: sums over its rows take one row after the other
    (`functrans.lower.nest.row_sums`)."""
    beyond_cache: int = 1 << 20
    """The same for several rows at once, profitable as soon as a core's own cache is too small."""
    fewest_rows: int = 256
    """The fewest rows for this."""
    fewest_rows_again: int = 512
    """The same for arrays that may be in a cache which cores share, and are read twice, as for a
    variance: a piece of fewer rows stays in the core's own cache until then."""
    fewest_lines: int = 16
    """The fewest cache lines of a row for this."""
    rows_together: int = 8
    """The rows that are combined before they are added to the sums."""
    fewest_lines_together: int = 32
    """The fewest cache lines of a row for this."""
    fewest_lines_far: int = 96
    """The same for arrays from memory: of shorter rows, several are on each page, and hardware
    prefetches them best one by one."""
    rows_jammed: int = 4
    """The rows that are reduced at once, if they share an operand or come from memory."""
    shortest_jammed: int = 24
    """The shortest of these rows."""
    most_columns: int = 1 << 62
    """This many sums over rows are never split: inside a loop on a grid, where each thread of a
    team computes one of them, and additional threads share their terms
    (`functrans.lower.grid.slicing`)."""
    long: int = 1 << 17
    """The fewest terms of all folds of a root for which blocks are profitable."""
    plain_body: int = 16
    """A reduction of at most so many operations has all accumulators, one of three times as many
    has half of them: more work for each term hides the latency of additions by itself."""
    most_steps: int = 32
    """The most floats that are added to a sum sequentially."""
    steps: int = 16
    """The terms of a partial sum: enough work to make the cost of each partial sum negligible."""
    accumulators: int = 4
    """The number of vector accumulators: an addition has about as many cycles of latency, and
    two start in each cycle."""
    blocks_of_lanes: bool = True
    """Whether a sum that is dealt to lanes has partial sums, too: vector lanes can be combined
    at any time, while threads would have to wait for each other."""
    longest_alone: int = 0
    """The most terms, dealt to lanes, of a sum that is not split in any case."""
    shortest: int = 16
    """A sum of fewer terms has one accumulator."""

    def rows_at_once(self, rows: int, row: int, whole: int, operations: int, line: int) -> int:
        """The rows that are added at once to the sums of columns, if rows are read whole; else 0.

        Given are the number of rows, the bytes of a row, of the array and of a cache line, and the
        operations for an element.
        """
        is_far = whole >= self.from_memory
        fewest = self.fewest_lines_far if is_far else self.fewest_lines_together
        is_long = row >= fewest * line
        if is_long and rows >= 3 * self.rows_together and operations <= self.plain_body:
            return self.rows_together if whole >= self.beyond_cache else 0
        return int(is_far)


IDEMPOTENT = frozenset({"max", "min", "or", "and"})
"""The operations that may combine an element twice."""


def lower_folds(
    expressions: Sequence[Scalar],
    lanes: int,  # the numbers in a vector register; 1 inside of a vector loop
    simplify: Simplifier,
    target: Target,
) -> tuple[list[Statement], list[Scalar]]:
    """Statements that compute the folds, and the expressions with locals instead of them.

    Independent folds over equal extents share one loop.
    """
    statements: list[Statement] = []
    current = list(expressions)
    while True:
        ready = _ready(current)
        if not ready:
            return statements, current
        known: dict[Scalar, Scalar] = {}
        for group in _by_extents(ready):
            statements.append(_reduce(group, lanes, simplify, target, known))
        current = simplify.substitute(current, known)


def _ready(expressions: Sequence[Scalar]) -> list[Scalar]:
    """The folds that do not depend on other folds, except for those inside them."""
    ready: list[Scalar] = []
    bound: set[Scalar] = set()
    folds = [node for node in postorder(expressions) if node.op == "fold"]
    for node in folds:
        bound.update(node.attribute[1])
    for node in folds:
        inner = postorder(node.args)
        own = set(node.attribute[1])
        free = {n for n in inner if n.op == "index" and n in bound} - own
        nested = [n for n in inner if n.op == "fold"]
        for other in nested:
            free -= set(other.attribute[1])
        depends = any(not _uses(other, own) for other in nested)
        if not free and not depends:
            ready.append(node)
    return ready


def _uses(fold: Scalar, indices: set[Scalar]) -> bool:
    return any(node in indices for node in postorder([fold]))


def _by_extents(folds: Sequence[Scalar]) -> list[list[Scalar]]:
    groups: dict[tuple[Scalar, ...], list[Scalar]] = {}
    for fold in folds:
        groups.setdefault(fold.args[1:], []).append(fold)
    return list(groups.values())


def _reduce(
    group: Sequence[Scalar],
    lanes: int,
    simplify: Simplifier,
    target: Target,
    known: dict[Scalar, Scalar],
) -> Statement:
    """One loop for folds over the same extents; adds their locals to the known values."""
    indices = group[0].attribute[1]
    values = []
    for fold in group:
        rename: Mapping[Scalar, Scalar] = dict(zip(fold.attribute[1], indices, strict=True))
        values += simplify.substitute(fold.args[:1], rename)
    body, values = lower_folds(values, 1, simplify, target)
    targets = []
    for fold in group:
        known[fold] = local(fold.dtype, "sum" if fold.attribute[0] == "add" else fold.attribute[0])
        targets.append(known[fold])
    loops = tuple((i, ZERO, stop) for i, stop in zip(indices, group[0].args[1:], strict=True))
    stop = loops[-1][2]
    lanes = 1 if body else _partials(values, stop, lanes, target)
    ops = tuple(fold.attribute[0] for fold in group)
    is_long = stop.op == "const" and 1 < lanes <= int(stop.attribute)
    return blocked(
        Reduce(
            tuple(targets),
            ops,
            tuple(values),
            loops,
            tuple(body),
            lanes,
            repeatable=is_long and IDEMPOTENT.issuperset(ops) and not target.lanes_are_threads,
            whole=stop.op == "const" and int(stop.attribute) % lanes == 0,
        ),
        target[Reductions],
    )


def blocked(whole: Reduce, lengths: Reductions) -> Reduce:
    """Blocked summation: turn a sum of many floats into a sum of partial sums."""
    if not any(
        op == "add" and target.dtype.kind == "f"
        for op, target in zip(whole.ops, whole.targets, strict=True)
    ):
        return whole
    if whole.lanes > 1 and not lengths.blocks_of_lanes:
        return whole
    steps = 1
    for depth in reversed(range(len(whole.loops))):
        counter, start, stop = whole.loops[depth]
        lanes = whole.lanes if depth == len(whole.loops) - 1 else 1
        extent = counter.attribute[2] or 0
        inside = -(-extent // lanes)
        if steps * inside > lengths.most_steps:
            break
        steps *= inside
    else:
        return whole
    length = max(lengths.steps // steps, 1) * lanes
    outer, inner = whole.loops[:depth], whole.loops[depth + 1 :]
    if length == 1:
        outer = (*outer, (counter, start, stop))
    else:
        block = index("block", -(-extent // length))
        first = Scalar("mul", (block, const(length, INDEX)), INDEX)
        last = Scalar("add", (first, const(length, INDEX)), INDEX)
        if stop.op != "const" or extent % length:
            last = Scalar("min", (last, stop), INDEX)
        if stop.op != "const":
            last = Scalar("max", (first, last), INDEX)
        outer = (*outer, (block, ZERO, const(block.attribute[2], INDEX)))
        inner = ((counter, first, last), *inner)
    partial = tuple(local(target.dtype, target.attribute[0]) for target in whole.targets)
    body = replace(whole, targets=partial, loops=inner)
    return blocked(Reduce(whole.targets, whole.ops, partial, outer, (body,)), lengths)


def unblocked(whole: Reduce) -> Reduce:
    """The inverse of `blocked`: a single nest of loops."""
    while (inner := _partial_of(whole)) is not None:
        *outer, (block, start, count) = whole.loops
        (counter, first, last), *within = inner.loops
        if _is_free_of(block, (first, last)):
            loops = [*outer, (block, start, count), (counter, first, last), *within]
        else:
            stop = _last_of_blocks(block, count, first, last)
            if stop is None:
                return whole
            loops = [*outer, (counter, ZERO, stop), *within]
        whole = replace(whole, loops=tuple(loops), values=inner.values, body=inner.body)
    return whole


def _partial_of(whole: Reduce) -> Reduce | None:
    """The partial reduction whose results are all that a reduction combines; or None."""
    inner = whole.body[0] if len(whole.body) == 1 else None
    if not isinstance(inner, Reduce):
        return None
    alike = inner.ops == whole.ops and inner.targets == whole.values
    if not alike or inner.lanes > 1 or whole.lanes > 1 or whole.loops[-1][1] is not ZERO:
        return None
    block = whole.loops[-1][0]
    bounds = [bound for _, *pair in inner.loops[1:] for bound in pair]
    roots = [*bounds, *inner.values, *scalars(inner.body)]
    return inner if _is_free_of(block, roots) else None


def _last_of_blocks(block: Scalar, count: Scalar, first: Scalar, last: Scalar) -> Scalar | None:
    """The stop of the last block, if the blocks are contiguous; else None."""
    simplify = Simplifier()
    length = Coefficients(block).of(first)
    if not length or simplify.substitute([first], {block: ZERO})[0] is not ZERO:
        return None
    whole = simplify(first + length)
    if last.op == "max" and first in last.args:
        (last,) = (each for each in last.args if each != first)
    if last == whole:
        return simplify(count * length)
    if last.op == "min" and whole in last.args:
        (stop,) = (each for each in last.args if each != whole)
        return simplify(maximum(stop, ZERO)) if _is_free_of(block, [stop]) else None
    return None


def _is_free_of(block: Scalar, roots: Sequence[Scalar]) -> bool:
    return block not in postorder(roots)


def _partials(values: Sequence[Scalar], stop: Scalar, lanes: int, target: Target) -> int:
    """The number of lanes of all accumulators, given those of a vector register."""
    wanted = lanes
    if lanes > 1 and "accumulators" in target.stages:
        plain, most = target[Reductions].plain_body, target[Reductions].accumulators
        operations = node_count(node for node in postorder(values) if node.args)
        wanted *= most if operations <= plain else most // 2 if operations <= 3 * plain else 1
        if values[0].dtype == BOOL:
            # of more, LLVM keeps each in a register of its own if there are no mask registers
            wanted = min(wanted, target.lanes(1))
    while stop.op == "const" and wanted > max(stop.attribute, 1):
        wanted //= 2
    return wanted
