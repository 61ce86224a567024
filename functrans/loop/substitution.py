"""Substitution in statements: other expressions in place of leaves, or of any nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Statement, load
from functrans.loop.walk import Expressions, rebuilt

Position = tuple[Scalar, ...]

Element = Callable[[Buffer, Position], tuple[Buffer, Position]]
"""Maps a buffer and indices to the element that replaces it."""


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


class Rewriting:
    """Rewrites statements: replaces leaves of expressions, and relocates elements of buffers."""

    def __init__(
        self,
        values: Mapping[Scalar, Scalar],  # the replacements of leaves
        element: Element,  # maps old indices to new ones, which are not rewritten again
        simplify: Simplifier,
    ) -> None:
        self.values = values
        self.element = element
        self.simplify = simplify

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(
            rebuilt(
                each,
                body=self.statements,
                values=self.expressions,
                indices=self.expressions,
                element=self.element,
                buffer=lambda one: one,
            )
            for each in body
        )

    def expressions(self, given: Sequence[Scalar]) -> list[Scalar]:
        replaced = dict(self.values)
        for node in postorder(given):
            if node.op == "load":
                replaced[node] = load(*self.element(node.attribute, node.args))
        return self.simplify.substitute(given, replaced)
