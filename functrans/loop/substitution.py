"""Substitution of leaves in statements: other expressions in place of indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Statement
from functrans.loop.walk import rebuilt


def substituted(
    statements: Iterable[Statement], values: Mapping[Scalar, Scalar], simplify: Simplifier
) -> tuple[Statement, ...]:
    """The statements with some leaves of their expressions replaced, simplified again."""

    def expressions(given: Sequence[Scalar]) -> list[Scalar]:
        return simplify.substitute(given, values)

    return tuple(
        rebuilt(
            each,
            body=lambda body: substituted(body, values, simplify),
            values=expressions,
            indices=expressions,
            element=lambda one, position: (one, tuple(expressions(position))),
            buffer=lambda one: one,
        )
        for each in statements
    )
