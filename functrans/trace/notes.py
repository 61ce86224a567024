"""Notes on NumPy's errors: the operation, its operands, and the line of the user's code.

NumPy's message is unchanged; the note follows it in the traceback.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import FunctransError
from functrans.trace.source import located, user_source

NUMPYS = (ValueError, TypeError, IndexError, ArithmeticError)
"""The errors that NumPy's functions raise for invalid arguments."""


_PLACE = re.compile(r" at \S+:\d+ \(")
"""What `located` writes: errors of ours have it if they know better which line is meant."""


def add_place(error: Exception, operation: str, operands: Sequence[Any]) -> None:
    """Add a note with the operation, operands and line to an error of NumPy, once."""
    place = located(user_source())
    said = [str(error), *getattr(error, "__notes__", ())]
    ours = isinstance(error, FunctransError)
    if any((place and place in text) or (ours and _PLACE.search(text)) for text in said):
        return
    error.add_note(f"in {operation} of {', '.join(map(_described, operands))}{place}")


def _described(x: Any) -> str:
    if hasattr(x, "_variable"):
        name = f" ({x._argument()})" if x._argument else ""
        return f"{x._aval}{name}"
    if isinstance(x, np.ndarray):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    text = repr(x)
    return text if len(text) <= 40 else f"a {type(x).__name__}"
