"""Step-by-step evaluation under an observer, on which debugging tools are built.

While an observer is set, `functrans.ir.evaluate` goes equation by equation, inside of loops,
branches and calls as well, and tells the observer of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from functrans.ir.graph import Eqn, Graph


class Observer(Protocol):
    """Sees a program while it is evaluated. Graphs inside of an equation come between its two."""

    def enter(self, graph: Graph, inputs: Sequence[Any]) -> None:
        """A graph is about to be evaluated."""
        ...

    def before(self, eqn: Eqn, operands: Sequence[Any]) -> None:
        """An equation is about to be evaluated."""
        ...

    def after(self, eqn: Eqn, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """An equation has been evaluated."""
        ...

    def leave(self, graph: Graph, outputs: Sequence[Any]) -> None:
        """A graph has been evaluated."""
        ...


observer: ContextVar[Observer | None] = ContextVar("observer", default=None)
"""Who sees what is evaluated in this thread of control; None: nobody."""


@contextmanager
def observed(by: Observer | None) -> Iterator[None]:
    """Have somebody see what is evaluated meanwhile."""
    token = observer.set(by)
    try:
        yield
    finally:
        observer.reset(token)
