"""Loop rerolling: an unrolled sum becomes a fold again.

Expects an expression. Leaves it with a fold for the largest sum of floats in it whose terms only
differ in constants of their indices, which are in arithmetic progression.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier

FEWEST = 4
"""The fewest terms for which a loop is profitable."""


def rerolled(expression: Scalar, simplify: Simplifier) -> Scalar | None:
    """The expression with a fold in it; None if there is no such sum.

    The order of the terms is that of `functrans.loop.nodes.combine_pairwise`.
    """
    for node in reversed(postorder([expression])):
        if node.op == "add" and node.dtype.kind == "f":
            fold = _fold(node, simplify)
            if fold is not None:
                return simplify.substitute([expression], {node: fold})[0]
    return None


def _fold(total: Scalar, simplify: Simplifier) -> Scalar | None:
    terms = _terms(total)
    if len(terms) < FEWEST:
        return None
    counter = index("k", len(terms))
    template = _template(terms[0], terms[1], counter)
    if template is None or template is terms[0]:
        return None
    values = [{counter: const(number, INDEX)} for number in range(len(terms))]
    if any(simplify.substitute([template], x) != [y] for x, y in zip(values, terms, strict=True)):
        return None
    count = const(len(terms), INDEX)
    return Scalar("fold", (simplify(template), count), total.dtype, ("add", (counter,)))


def _terms(total: Scalar) -> list[Scalar]:
    """The terms of a tree of additions, from left to right."""
    found: list[Scalar] = []
    stack = [total]
    while stack:
        node = stack.pop()
        if node.op == "add":
            stack += reversed(node.args)
        else:
            found.append(node)
    return found


def _template(first: Scalar, second: Scalar, counter: Scalar) -> Scalar | None:
    """The term as a function of the counter, given the first two."""
    if first is second:
        return first
    if (first.op, first.dtype, len(first.args)) != (second.op, second.dtype, len(second.args)):
        return None
    if first.op == "const":
        if first.dtype != INDEX:
            return None
        step = int(second.attribute) - int(first.attribute)
        return counter * step + first
    if first.attribute != second.attribute:
        return None
    args = _all([_template(x, y, counter) for x, y in zip(first.args, second.args, strict=True)])
    return None if args is None else Scalar(first.op, args, first.dtype, first.attribute)


def _all(found: Sequence[Scalar | None]) -> tuple[Scalar, ...] | None:
    known = tuple(x for x in found if x is not None)
    return known if len(known) == len(found) else None
