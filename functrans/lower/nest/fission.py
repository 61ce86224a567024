"""Loop fission: which statements of a nest become kernels of their own, which threads share.

Expects the statements of a nest. Leaves bodies that do not depend on each other's locals or rows,
each with one parallel loop, or with all that is too short for threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from functrans.loop.statements import Buffer, For, Let, Reduce, Statement, serial
from functrans.loop.target import Target
from functrans.loop.walk import assigned, loaded, scalars, stored


def mark_parallel(loop: For, count: int) -> For:
    """Mark the loops of a band as parallel down to a depth, since they carry no dependence.

    Rows and locals are private to an iteration of the innermost loop around all of their uses.
    """
    body = loop.body
    if count > 1 and len(body) == 1 and isinstance(body[0], For):
        body = (mark_parallel(body[0], count - 1),)
    return replace(loop, body=body, parallel=True)


def distribute(
    units: Sequence[tuple[Statement, ...]],
    scratch: set[Buffer],
    is_shared: Callable[[Sequence[Statement]], bool],
    target: Target,
) -> list[tuple[Statement, ...]]:
    """Loop fission: a kernel for each long loop, which threads may share, and one for the rest.

    Units do not depend on each other, so the short ones may come last. The statements of one unit
    keep their order.
    """
    long: list[tuple[Statement, ...]] = []
    short: list[Statement] = []
    for unit in units:
        parts = groups(unit, scratch, is_shared)
        if any(map(is_shared, parts)):
            long += parts
        else:
            short += unit
    bodies = [body for body in (*long, tuple(short)) if body]
    if len(bodies) > 1 and not target.lanes_are_threads:
        bodies = [body if is_shared(body) else tuple(map(_serial, body)) for body in bodies]
    return bodies


def groups(
    unit: Sequence[Statement],
    scratch: set[Buffer],
    is_shared: Callable[[Sequence[Statement]], bool],
) -> list[tuple[Statement, ...]]:
    """Group statements into kernels: a long loop has its own unless locals or rows live across."""
    cuts = {0, len(unit)}
    for number, each in enumerate(unit):
        if is_shared((each,)):
            cuts.update((number, number + 1))
    legal = [cut for cut in sorted(cuts) if not carries_values(unit[:cut], unit[cut:], scratch)]
    return [tuple(unit[start:stop]) for start, stop in pairwise(legal)]


def carries_values(
    before: Sequence[Statement], after: Sequence[Statement], scratch: set[Buffer]
) -> bool:
    """Whether locals, or rows on the stack, are live between statements and later ones."""
    if scratch and not scratch.isdisjoint(stored(before)) and not scratch.isdisjoint(loaded(after)):
        return True
    made = {x for each in before if isinstance(each, (Let, Reduce)) for x in each.targets}
    if not made:
        return False
    return not made.isdisjoint(assigned(after) | {*scalars(after)})


def is_worth_sharing(body: Sequence[Statement], least: int) -> bool:
    """Whether statements are a single parallel loop with enough work for threads."""
    (first, *rest) = body
    return isinstance(first, For) and first.parallel and not rest and iterations(body) >= least


def iterations(body: Sequence[Statement]) -> int:
    """The iterations of the single loop of statements."""
    (loop,) = body
    assert isinstance(loop, For)
    return int(loop.stop.attribute)


def _serial(statement: Statement) -> Statement:
    """A serial copy of a statement that shares its kernel with others."""
    if not isinstance(statement, For) or not statement.parallel:
        return statement
    whole = int(statement.stop.attribute) % statement.lanes == 0
    return serial(replace(statement, whole=whole))
