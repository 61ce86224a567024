"""Substitution in statements: other expressions in place of leaves, or of any nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Statement
from functrans.loop.walk import Expressions, rebuilt


def substituted(
    statements: Iterable[Statement], values: Mapping[Scalar, Scalar], simplify: Simplifier
) -> tuple[Statement, ...]:
    """The statements with some leaves of their expressions replaced, simplified again."""
    return with_expressions(statements, lambda given: simplify.substitute(given, values))


def with_expressions(
    statements: Iterable[Statement], rewrite: Callable[[Expressions], Expressions]
) -> tuple[Statement, ...]:
    """The statements with all of their expressions rewritten."""
    return tuple(
        rebuilt(
            each,
            body=lambda body: with_expressions(body, rewrite),
            values=rewrite,
            indices=rewrite,
            element=lambda one, position: (one, tuple(rewrite(position))),
            buffer=lambda one: one,
        )
        for each in statements
    )
