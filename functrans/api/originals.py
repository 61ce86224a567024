"""The user's own functions in place of the copies that are traced instead of them.

A function that closes over arrays is traced as a copy, with tracers in place of the arrays
(`functrans.api.closure_copies`). A program must not call such a copy when it runs: its tracers are
no longer valid, and assignments to copied objects would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Original = Callable[[Any], Any]
"""Takes any value; gives what it is a copy of, or the value itself."""

_active: ContextVar[tuple[Original, ...]] = ContextVar("_active", default=())


def original(value: Any) -> Any:
    """The user's own object in place of a copy that is being traced."""
    for one in reversed(_active.get()):
        value = one(value)
    return value


@contextmanager
def copied(one: Original) -> Iterator[None]:
    """Trace copies within a block."""
    before = _active.set((*_active.get(), one))
    try:
        yield
    finally:
        _active.reset(before)
