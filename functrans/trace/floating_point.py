"""NumPy's floating-point warnings during eager evaluation, attributed to the user's lines.

NumPy's warnings refer to the calling line, which is in this package. In the error mode ``log``
NumPy passes its message to an object, which warns at the user's line. Nothing else changes: errors
that `numpy.errstate` ignores or raises are ignored or raised.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from types import FrameType
from typing import Any

import numpy as np

from functrans.caches import Table
from functrans.ir.evaluate import equation_of
from functrans.ir.primitive import current
from functrans.trace.source import Source, is_installed, warn_user

UNWRITTEN = ("divide", "invalid")
"""The kinds of errors of divisions, which occur in derivatives without a division by the user."""


class warning_users:
    """Attribute NumPy's warnings to the user's lines, within a with statement.

    Warnings of the ``ignored`` kinds are suppressed; errors are raised as configured.
    """

    __slots__ = ("_before", "_ignored")

    _before: Any

    def __init__(self, ignored: tuple[str, ...] = ()) -> None:
        self._ignored = ignored

    def __enter__(self) -> None:
        if _settings is None:
            self._before = _changed(self._ignored)
            self._before.__enter__()
            return
        given = _settings.get()
        known = _derived.get((id(given), self._ignored))
        if known is None:
            with _changed(self._ignored):
                known = given, _settings.get()
            _derived.remember((id(given), self._ignored), known)
        self._before = _settings.set(known[1])

    def __exit__(self, *_: object) -> None:
        if _settings is None:
            self._before.__exit__(None, None, None)
        else:
            _settings.reset(self._before)


_settings: ContextVar[object] | None = getattr(
    getattr(getattr(np, "_core", None), "umath", None), "_extobj_contextvar", None
)
"""NumPy's own settings, an immutable object, which its functions take microseconds to read.

None if this NumPy keeps them in another way.
"""

_derived: Table[tuple[int, tuple[str, ...]], tuple[object, object]] = Table(64)
"""Settings, by the id of those that they are derived from, which the entry keeps alive."""


_geterrcall, _geterr = np.geterrcall, np.geterr


def _changed(ignored: tuple[str, ...]) -> AbstractContextManager[object]:
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
            return eqn.source
        frame = frame.f_back
    # a graph is being replayed on tracers with known values
    return getattr(current.get(), "source", None)
