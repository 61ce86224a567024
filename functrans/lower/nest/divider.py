"""Strength reduction of division and of square roots in vector loops, to fused multiply-adds.

A vector of quotients occupies the divider for 16 cycles, and one of roots for 24, in which other
units do ten times as much. So loops that wait for the divider compute some of them otherwise, with
the same bits:

- Several quotients with one divisor, and quotients whose divisor is the same in all lanes, share
  its reciprocal. By Markstein's theorem ``q + (x - q y) r``, where ``r`` is ``1 / y`` and ``q`` is
  ``x r``, both rounded, is the rounded quotient.
- Roots are found by Goldschmidt's iteration from an estimate of a few bits, and corrected in the
  same way: ``g + (x - g g) h``, where ``h`` is half the reciprocal of the root ``g``.

The remainder must be exact and nothing may overflow. Where an operand or a result is so small or so
large that this is not certain, a branch divides or takes the root.

References
----------
P. W. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM
Journal of Research and Development 34 (1990).
P. Markstein, "Software division and square root using Goldschmidt's algorithms", 6th Conference on
Real Numbers and Computers (2004).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import combinations
from math import frexp
from typing import TypeGuard

import numpy as np

from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX
from functrans.loop.operations import NO_WORK
from functrans.loop.scalar import (
    Scalar,
    bitcast,
    const,
    fma,
    lshr,
    ne,
    postorder,
    sqrt,
    unlikely,
    where,
)
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Assign, For, Let, Reduce, Statement, Store, local
from functrans.loop.substitution import with_expressions
from functrans.loop.target import Target
from functrans.loop.walk import (
    Body,
    always_loaded,
    assigned,
    bounds,
    declared,
    expressions,
    loops_of,
    scalars,
    stored,
    with_bodies,
)
from functrans.records import NamedTuple

LEAST, GREATEST = 2.0**-960, 2.0**1000
"""The sizes between which this holds: neither a remainder nor a reciprocal is subnormal."""


class Cost(NamedTuple):
    """The cycles of the divider, of a Sapphire Rapids, and the other operations instead."""

    cycles: int
    operations: int


DIVISION, ROOT = Cost(16, 11), Cost(24, 22)
WINDOW = 200
"""The operations of a body below which those of neighbouring iterations overlap."""
GAIN = 1.2
"""The estimated gain from which on other operations replace the divider."""

ESTIMATE, ITERATIONS = 0x5FE6EB50C7B537A9, 4
"""From it, the shifted bits of a number are subtracted for the bits of an estimate of the
reciprocal of its root, which has an error of 3 % (C. Lomont, "Fast inverse square root", 2003)."""

_CHECKS = frozenset({"checked", "required"})


def with_relieved_divider(body: Body, target: Target) -> Body:
    """The statements of a nest, with quotients and roots computed otherwise where loops wait."""
    if not target.slow_division:
        return body
    if len(body) == 1 and _is_vector_loop(body[0]):
        return _relieved(body[0], is_alone=True)

    def relieved(body: Body) -> Body:
        return tuple(made for each in body for made in in_order(each))

    def in_order(statement: Statement) -> Iterable[Statement]:
        if _is_vector_loop(statement):
            return _relieved(statement)
        return (with_bodies(statement, relieved),)

    return relieved(body)


def _is_vector_loop(statement: Statement) -> TypeGuard[For | Reduce]:
    return isinstance(statement, (For, Reduce)) and statement.lanes > 1


def _chosen(nodes: Sequence[Scalar], varying: Container[Scalar]) -> set[Scalar]:
    """The quotients and roots of a vector loop that other operations compute."""
    quotients = [node for node in nodes if _is_quotient(node)]
    roots = [node for node in nodes if _is_root(node)]
    divisors = Counter(node.args[1] for node in quotients if node in varying)
    shared = {y for y, count in divisors.items() if y not in varying or count > 1}
    reciprocals = sum(y in varying for y in shared)
    by_reciprocal = [node for node in quotients if node in varying and node.args[1] in shared]
    by_iteration = [node for node in roots if node in varying]
    forms = {
        tuple(by_reciprocal): Cost(
            DIVISION.cycles * (len(by_reciprocal) - reciprocals),
            DIVISION.operations * len(by_reciprocal),
        ),
        tuple(by_iteration): Cost(*(each * len(by_iteration) for each in ROOT)),
    }
    dividing = DIVISION.cycles * len(quotients) + ROOT.cycles * len(roots)
    return set(_relief(dividing, node_count(filter(_is_other, nodes)), forms))


def _relieved(loop: For | Reduce, is_alone: bool = False) -> tuple[Statement, ...]:
    """A vector loop, and before it the reciprocals that it shares.

    Before a loop that is alone in its nest there is nothing, since threads share only such loops.
    """
    nodes = scalars([loop])
    if not any(_is_quotient(node) or _is_root(node) for node in nodes):
        return (loop,)
    varying = _varying(loop, nodes)
    replaced = _chosen(nodes, varying)
    if not replaced:
        return (loop,)
    simplify, done = Simplifier(), dict[Scalar, Scalar]()
    before = dict[Scalar, Scalar]()
    executed = _executed(loop)

    def is_invariant(y: Scalar) -> bool:
        """Whether a divisor may be computed before the loop: it would have been in it."""
        moved = postorder([y])
        is_loaded = all(node.op != "load" or node in executed for node in moved)
        is_safe = is_loaded and _CHECKS.isdisjoint(node.op for node in moved)
        return not is_alone and y not in varying and is_safe

    for node in nodes:
        args = tuple([done[arg] for arg in node.args])
        if node not in replaced:
            done[node] = node if args == node.args else simplify.build(node.op, args, node)
            continue
        if node.op == "sqrt":
            done[node] = _root(*args)
            continue
        x, y = args
        reciprocal = simplify(_reciprocal(y))
        if reciprocal.op != "const" and is_invariant(node.args[1]):
            reciprocal = before.setdefault(reciprocal, local(y.dtype, "r"))
        done[node] = _product(x, y, reciprocal)

    (made,) = with_expressions((loop,), lambda given: [done[each] for each in given])
    return (Let(tuple(before.values()), tuple(before)), made) if before else (made,)


def _relief(
    dividing: int, others: int, forms: Mapping[tuple[Scalar, ...], Cost]
) -> tuple[Scalar, ...]:
    """The nodes that are best computed by other operations.

    Given are the cycles of the divider, the number of other operations, of which two start in a
    cycle, and what each choice spares and adds.
    """

    def cycles(chosen: Sequence[tuple[Scalar, ...]]) -> float:
        waiting = dividing - sum(forms[each].cycles for each in chosen)
        working = (others + sum(forms[each].operations for each in chosen)) / 2
        # of a short body, the operations of neighbouring iterations overlap
        return max(waiting, working) if others < WINDOW else waiting + working

    choices = [some for n in range(len(forms) + 1) for some in combinations(forms, n)]
    best = min(choices, key=cycles)
    return sum(best, ()) if GAIN * cycles(best) < cycles(()) else ()


def _is_other(node: Scalar) -> bool:
    """Whether a node is an operation on data that the divider does not do."""
    return bool(node.args) and node.op not in NO_WORK and node.dtype != INDEX


def _executed(loop: For | Reduce) -> set[Scalar]:
    """The loads that every iteration executes, if there is one."""
    if any(end.op != "const" for end in bounds(loop)):
        return set()
    if any(start.attribute >= stop.attribute for _, start, stop in loops_of(loop)):
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


def _is_root(node: Scalar) -> bool:
    return node.op == "sqrt" and node.dtype == np.float64


def _varying(loop: For | Reduce, nodes: Sequence[Scalar]) -> set[Scalar]:
    """The nodes that may differ between iterations: of inner loops, of locals, or of changes."""
    found, changing = {*declared([loop]), *assigned([loop])}, stored([loop])
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


def _root(x: Scalar) -> Scalar:
    """The square root; each iteration doubles the digits of the estimate, which has a few bits."""
    estimate = bitcast(const(ESTIMATE, np.int64) - lshr(bitcast(x, np.int64), 1), x.dtype)
    root, half = x * estimate, estimate * 0.5
    for _ in range(ITERATIONS):
        error = fma(-root, half, 0.5)
        root, half = fma(root, error, root), fma(half, error, half)
    corrected = fma(fma(-root, root, x), half, root)
    return unlikely(~((x > LEAST) & (x < GREATEST)), sqrt(x), corrected)
