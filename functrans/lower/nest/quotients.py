"""Strength reduction of division in vector loops: a product with the reciprocal, corrected.

Several quotients with one divisor, and quotients whose divisor is the same in all lanes, share its
reciprocal. By Markstein's theorem ``q + (x - q y) r``, where ``r`` is ``1 / y`` and ``q`` is
``x r``, both rounded, has the bits of ``x / y`` if the remainder is exact and nothing overflows.
Where an operand or a quotient is so small or so large that this is not certain, a branch divides.
The divider works beside the other units, so this is for loops that wait for it.

References
----------
P. W. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM
Journal of Research and Development 34 (1990).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import frexp

import numpy as np

from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX
from functrans.loop.operations import NO_WORK
from functrans.loop.scalar import Scalar, const, fma, ne, postorder, unlikely, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Assign, For, Let, Reduce, Statement, Store, local
from functrans.loop.target import Target
from functrans.loop.walk import (
    Body,
    Expressions,
    always_loaded,
    expressions,
    rebuilt,
    scalars,
    stored,
    walk,
    with_bodies,
)

LEAST, GREATEST = 2.0**-960, 2.0**1000
"""The sizes between which the theorem holds: neither a remainder nor a reciprocal is subnormal."""

DIVISION, ROOT = 16, 24
"""The cycles for which a vector occupies the divider, of a Sapphire Rapids."""
CORRECTION = 11
"""The other operations of a quotient by a reciprocal, of which two start in a cycle."""
WINDOW = 200
"""The operations of a body below which those of neighbouring iterations overlap."""
GAIN = 1.2
"""The estimated gain from which on reciprocals are used."""

_CHECKS = frozenset({"checked", "required"})


def by_reciprocals(body: Body, target: Target) -> Body:
    """The statements, with the quotients in vector loops that can share a reciprocal."""
    if not target.slow_division:
        return body

    def reduced(body: Body) -> Body:
        return tuple(made for each in body for made in in_order(each))

    def in_order(statement: Statement) -> Iterable[Statement]:
        if isinstance(statement, (For, Reduce)) and statement.lanes > 1:
            return _in_lanes(statement)
        return (with_bodies(statement, reduced),)

    return reduced(body)


def _in_lanes(loop: For | Reduce) -> tuple[Statement, ...]:
    """A vector loop, with the quotients whose divisors are shared, after their reciprocals."""
    nodes = scalars([loop])
    quotients = [node for node in nodes if _is_quotient(node)]
    if not quotients:
        return (loop,)
    varying = _varying(loop, nodes)
    divisors = Counter(node.args[1] for node in quotients if node in varying)
    shared = {y for y, count in divisors.items() if y not in varying or count > 1}
    if not _pays([divisors[y] for y in shared], len(shared & varying), nodes):
        return (loop,)
    simplify, done = Simplifier(), dict[Scalar, Scalar]()
    before = dict[Scalar, Scalar]()
    executed = _executed(loop)

    def is_invariant(y: Scalar) -> bool:
        """Whether a divisor may be computed before the loop: it would have been in it."""
        moved = postorder([y])
        is_loaded = all(node.op != "load" or node in executed for node in moved)
        return y not in varying and is_loaded and _CHECKS.isdisjoint(node.op for node in moved)

    for node in nodes:
        args = tuple([done[arg] for arg in node.args])
        if not _is_quotient(node) or node not in varying or node.args[1] not in shared:
            done[node] = node if args == node.args else simplify.build(node.op, args, node)
            continue
        x, y = args
        reciprocal = simplify(_reciprocal(y))
        if reciprocal.op != "const" and is_invariant(node.args[1]):
            reciprocal = before.setdefault(reciprocal, local(y.dtype, "r"))
        done[node] = _product(x, y, reciprocal)

    def values(given: Expressions) -> list[Scalar]:
        return [done[each] for each in given]

    def body(inside: Body) -> Body:
        return tuple(map(changed, inside))

    def changed(statement: Statement) -> Statement:
        return rebuilt(
            statement,
            body=body,
            values=values,
            indices=values,
            element=lambda one, position: (one, tuple(values(position))),
            buffer=lambda one: one,
        )

    made = changed(loop)
    return (Let(tuple(before.values()), tuple(before)), made) if before else (made,)


def _pays(quotients: Sequence[int], varying: int, nodes: Sequence[Scalar]) -> bool:
    """Whether the divider is the bottleneck of a loop, so that other operations relieve it.

    Given are the numbers of quotients by each shared divisor, and of the divisors that vary.
    """
    replaced = sum(quotients)
    dividing = DIVISION * sum(map(_is_quotient, nodes))
    dividing += ROOT * sum(node.op == "sqrt" and node.dtype == np.float64 for node in nodes)
    others = node_count(
        node for node in nodes if node.args and node.op not in NO_WORK and node.dtype != INDEX
    )

    def cycles(dividing: float, others: float) -> float:
        overlap = min(dividing, others / 2) if others < WINDOW else 0
        return dividing + others / 2 - overlap

    after = cycles(dividing - DIVISION * (replaced - varying), others + CORRECTION * replaced)
    return GAIN * after < cycles(dividing, others)


def _executed(loop: For | Reduce) -> set[Scalar]:
    """The loads that every iteration executes, if there is one."""
    bounds = [(loop.start, loop.stop)] if isinstance(loop, For) else [x[1:] for x in loop.loops]
    ends = [end for pair in bounds for end in pair]
    if any(end.op != "const" for end in ends) or any(a.attribute >= b.attribute for a, b in bounds):
        return set()
    values = [each for each in loop.body if isinstance(each, (Store, Let, Assign))]
    roots = [root for each in values for root in expressions(each)]
    return set(always_loaded([*roots, *(loop.values if isinstance(loop, Reduce) else ())]))


def _is_quotient(node: Scalar) -> bool:
    """Whether a node is a division of float64, by a variable or by an ordinary constant.

    Those by powers of two are products already.
    """
    if node.op != "div" or node.dtype != np.float64:
        return False
    y = node.args[1]
    if y.op != "const":
        return True
    return LEAST <= abs(y.attribute) <= GREATEST and abs(frexp(y.attribute)[0]) != 0.5


def _varying(loop: For | Reduce, nodes: Sequence[Scalar]) -> set[Scalar]:
    """The nodes that may differ between iterations: of inner loops, of locals, or of changes."""
    inside = list(walk([loop]))
    found: set[Scalar] = set()
    for each in inside:
        if isinstance(each, (Let, Assign, Reduce)):
            found.update(each.targets)
    changing = stored([loop])
    for node in nodes:
        is_changed = node.op == "load" and node.attribute in changing
        if node.op == "index" or is_changed or not found.isdisjoint(node.args):
            found.add(node)
    return found


def _reciprocal(y: Scalar) -> Scalar:
    """``1 / y``; NaN for a divisor that is not ordinary."""
    size = abs(y)
    return where((size >= LEAST) & (size <= GREATEST), 1 / y, const(np.nan, y.dtype))


def _product(x: Scalar, y: Scalar, reciprocal: Scalar) -> Scalar:
    """``x / y`` by Markstein's theorem, or by a division where it does not hold."""
    first = x * reciprocal
    quotient = fma(fma(-first, y, x), reciprocal, first)
    usual = (abs(x) > LEAST) & (abs(quotient) > LEAST)
    # of a zero, the product is right, unless the reciprocal is NaN
    odd = ~usual & ne(x, 0 * reciprocal)
    return unlikely(odd, x / y, where(usual, quotient, first))
