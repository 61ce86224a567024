"""NumPy's floating-point warnings during eager evaluation, attributed to the user's lines.

NumPy warns about the line that calls it, which is one of this package. With the error mode ``log``
it hands its message to an object, which knows better. Nothing else changes: what `numpy.errstate`
ignores is ignored, and what it raises is raised.
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
"""The kinds of errors of divisions, which derivatives meet where the user wrote none."""


def warning_users(ignored: Collection[str] = ()) -> AbstractContextManager[object]:
    """Inside of the with statement, NumPy's warnings are of the user's lines.

    There are none of the kinds that are ``ignored``; what raises, raises.
    """
    called = _geterrcall()
    ours = called is _LOG
    warned = [
        kind for kind, mode in _geterr().items() if mode == "warn" or (mode == "log" and ours)
    ]
    # a handler of the user's is left alone: NumPy has one for all kinds
    mode = "log" if ours or called is None else "warn"
    if not warned or (ours and not ignored):
        return nullcontext()
    modes = {kind: "ignore" if kind in ignored else mode for kind in warned}
    return np.errstate(call=called if mode == "warn" else _LOG, **modes)  # type: ignore[arg-type]


_geterrcall, _geterr = np.geterrcall, np.geterr


class _Log:
    def write(self, message: str) -> None:
        """Warn in the words that NumPy has for warnings."""
        text = message.removeprefix("Warning: ").rstrip("\n")
        warn_user(text, RuntimeWarning, _evaluated_source())


_LOG = _Log()


def _evaluated_source() -> Source | None:
    """Where the equation that is being evaluated was written, if one is."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_installed(frame.f_code.co_filename):
        eqn = equation_of(frame)
        if eqn is not None:
            source: Source | None = eqn.source
            return source
        frame = frame.f_back
    # a graph that is replayed on tracers whose values are known
    return getattr(current.get(), "source", None)
