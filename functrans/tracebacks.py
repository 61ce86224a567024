"""Traceback filtering: errors show the user's frames, without those of this library.

Between the line that calls `grad(f)` and the lines of `f` are some twenty frames of this library,
which do not help users. `hide` removes them from the traceback itself, so terminals, notebooks,
pytest and debuggers show the rest. ``functrans.config.full_tracebacks`` keeps them.

Python adds a frame to a traceback when an exception reaches it, but not again at a bare ``raise``.
So a function that ends with ::

    except BaseException as error:
        hide(error)
        raise

does not appear itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from linecache import getline
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from functrans import config

P = ParamSpec("P")
R = TypeVar("R")

_OURS = (str(Path(__file__).parent) + os.sep, "<functrans ")
"""The prefixes of the names of the library's files, and of code that it has generated."""

_FAULTS = {AssertionError, AttributeError, IndexError, KeyError, NameError, UnboundLocalError}
"""Exceptions that indicate a bug in the library, for which tracebacks keep all frames."""


def boundary(function: Callable[P, R]) -> Callable[P, R]:
    """Hide the library's frames in the tracebacks of errors that a public function raises."""

    @wraps(function)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return bounded


def hide(error: BaseException) -> None:
    """Remove the library's frames from the tracebacks of an error and of its causes.

    They are kept if the error shows a bug in the library.
    """
    if config.full_tracebacks or is_fault(error):
        return
    for each in _chain(error):
        each.__traceback__ = _users(each.__traceback__)


def is_fault(error: BaseException, kinds: Collection[type[BaseException]] = _FAULTS) -> bool:
    """Whether an error shows a bug: it comes from a line of the library without a ``raise``."""
    if type(error) not in kinds:
        return False
    last = [*_entries(error.__traceback__)][-1:]
    return all(_is_ours(entry) and not _raises(entry) for entry in last)


def _raises(entry: TracebackType) -> bool:
    """Whether the current line of a frame is a raise statement."""
    line = getline(entry.tb_frame.f_code.co_filename, entry.tb_lineno)
    return line.lstrip().startswith("raise ")


def _chain(error: BaseException) -> list[BaseException]:
    """An error, and the errors that it was raised from or while they were handled."""
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in found:
            found.append(each)
            waiting += [each.__cause__, each.__context__]
    return found


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_ours(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_OURS)


def _users(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the library's frames."""
    entries = [*_entries(traceback)]
    kept = [entry for entry in entries if not _is_ours(entry)]
    if len(kept) == len(entries):
        return traceback
    rest: TracebackType | None = None
    for entry in reversed(kept):
        rest = TracebackType(rest, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return rest
