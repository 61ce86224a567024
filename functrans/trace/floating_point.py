"""NumPy's floating-point warnings during eager evaluation, attributed to the user's lines.

NumPy's warnings refer to the calling line, which is in this package. In the error mode ``log``
NumPy passes its message to an object, which warns at the user's line. Nothing else changes: errors
that `numpy.errstate` ignores or raises are ignored or raised.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from types import FrameType

import numpy as np

from functrans.ir.evaluate import equation_of
from functrans.ir.primitive import current
from functrans.trace.source import Source, is_installed, warn_user

UNWRITTEN = ("divide", "invalid")
"""The kinds of errors of divisions, which occur in derivatives without a division by the user."""


def warning_users(ignored: Collection[str] = ()) -> AbstractContextManager[object]:
    """Attribute NumPy's warnings to the user's lines, within a with statement.

    Warnings of the ``ignored`` kinds are suppressed; errors are raised as configured.
    """
    called = _geterrcall()
    ours = called is _LOG
    warned = [
        kind for kind, mode in _geterr().items() if mode == "warn" or (mode == "log" and ours)
    ]
    # a user's handler is kept: NumPy has one handler for all kinds
    mode = "log" if ours or called is None else "warn"
    if not warned or (ours and not ignored):
        return nullcontext()
    modes = {kind: "ignore" if kind in ignored else mode for kind in warned}
    return np.errstate(call=called if mode == "warn" else _LOG, **modes)  # type: ignore[arg-type]


_geterrcall, _geterr = np.geterrcall, np.geterr


class _Log:
    def write(self, message: str) -> None:
        """Warn with NumPy's own text."""
        text = message.removeprefix("Warning: ").rstrip("\n")
        warn_user(text, RuntimeWarning, _evaluated_source())


_LOG = _Log()


def _evaluated_source() -> Source | None:
    """The source line of the equation that is being evaluated, if any."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_installed(frame.f_code.co_filename):
        eqn = equation_of(frame)
        if eqn is not None:
            source: Source | None = eqn.source
            return source
        frame = frame.f_back
    # a graph is being replayed on tracers with known values
    return getattr(current.get(), "source", None)
