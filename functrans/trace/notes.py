"""Notes on NumPy's errors: the operation, its operands, and the line of the user's code.

NumPy's message is unchanged; the note follows it in the traceback.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functrans.errors import FunctransError
from functrans.lazily import lazy
from functrans.trace.source import here

_is_fault = lazy("functrans.tracebacks:is_fault")

NUMPYS = (ValueError, TypeError, IndexError, ArithmeticError)
"""The errors that NumPy's functions raise for invalid arguments."""


_PLACE = re.compile(r" at \S+:\d+ \(")
"""What `located` writes: errors of ours have it if they know better which line is meant."""


def add_place(error: Exception, operation: str, operands: Sequence[Any]) -> None:
    """Add a note with the operation, operands and line to an error of NumPy, once."""
    place = here()
    said = [str(error), *getattr(error, "__notes__", ())]
    ours = isinstance(error, FunctransError)
    if any((place and place in text) or (ours and _PLACE.search(text)) for text in said):
        return
    error.add_note(f"in {operation} of {', '.join(map(_described, operands))}{place}")


SLIPS = (AttributeError, IndexError, KeyError, TypeError, UnboundLocalError, ValueError)
"""The errors of our own code that invalid arguments cause, if nothing has refused them."""

_MOST = 10_000
"""The most elements of an array in a call that is repeated with plain arrays."""


class _TooMany(Exception):
    """An array has more elements than `_MOST`."""


def raise_theirs(
    error: Exception, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]
) -> None:
    """Raise what NumPy's or SciPy's own function raises for such arguments, if it does.

    ``error`` has come from our code; if it was not raised there on purpose, its words are about
    that code. Ones stand for traced numbers, zeros for traced integers.
    """
    if not _is_fault(error, SLIPS):
        return
    try:
        function(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
    except (FunctransError, np.linalg.LinAlgError, _TooMany):  # of the ones, not of the arguments
        return
    except Exception as theirs:
        raise theirs from error


def _plain(x: Any) -> Any:
    if type(x) in (list, tuple):
        return type(x)(map(_plain, x))
    traced = hasattr(x, "_variable")
    if not traced and not isinstance(x, np.ndarray):
        return x
    if x.size > _MOST:
        raise _TooMany
    return np.full(x.shape, x.dtype.kind not in "iu", x.dtype) if traced else x.copy()


def _described(x: Any) -> str:
    if hasattr(x, "_variable"):
        name = f" ({x._argument()})" if x._argument else ""
        return f"{x._aval}{name}"
    if isinstance(x, np.ndarray):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    text = repr(x)
    return text if len(text) <= 40 else f"a {type(x).__name__}"
