"""Step-by-step evaluation under an observer, on which debugging tools are built.

While an observer is set, `functrans.ir.evaluate` evaluates equation by equation, also inside loops,
branches and calls, and notifies the observer of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from functrans.ir.graph import Eqn, Graph


class Observer:
    """Receives the events of an evaluation; those of inner graphs come between an equation's.

    Subclasses redefine the methods for the events that concern them.
    """

    def enter(self, graph: Graph, inputs: Sequence[Any]) -> None:
        """A graph is about to be evaluated."""

    def before(self, eqn: Eqn, operands: Sequence[Any]) -> None:
        """An equation is about to be evaluated."""

    def after(self, eqn: Eqn, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """An equation has been evaluated."""

    def leave(self, graph: Graph, outputs: Sequence[Any]) -> None:
        """A graph has been evaluated."""


observer: ContextVar[Observer | None] = ContextVar("observer", default=None)
"""The observer in this context, or None."""


@contextmanager
def observed(by: Observer | None) -> Iterator[None]:
    """Set the observer of evaluations within a block."""
    token = observer.set(by)
    try:
        yield
    finally:
        observer.reset(token)
