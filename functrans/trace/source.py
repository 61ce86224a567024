"""Source locations: the line of the user's code that an equation or an error belongs to."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from functrans.caches import Table
from functrans.ir.evaluate import FILE
from functrans.ir.graph import Eqn
from functrans.records import NamedTuple

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_NUMPY = Path(np.__file__).parent
_LIBRARIES = (_PACKAGE, FILE, str(_NUMPY) + os.sep, str(_NUMPY.parent / "scipy") + os.sep)
_INSTALLED = (os.path.join(os.path.dirname(os.__file__), ""), "<frozen ")
_PACKAGES = frozenset({"site-packages", "dist-packages"})


class Source(NamedTuple):
    """A location in the user's code, stored cheaply as code object and instruction offset."""

    code: CodeType
    instruction: int
    derivative: str = ""
    """``"tangent"`` or ``"cotangent"`` for derivatives of the line's operation; ``"again"`` for its
    recomputation in a backward pass; empty for the operation itself.
    """

    def of(self, derivative: str) -> Source:
        """The location, for equations of a derivative rule."""
        # NamedTuple's `__new__` is a slower Python function
        return _new(Source, (self.code, self.instruction, derivative))

    @property
    def line(self) -> int:
        """The line number, computed on demand."""
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def text(self) -> str:
        """The text of the line, or an empty string if the file cannot be read."""
        return linecache.getline(self.code.co_filename, self.line).strip()

    def __str__(self) -> str:
        name = Path(self.code.co_filename).name
        return f"{name}:{self.line} ({self.code.co_qualname})"


_USER, _INSTALLED_CODE, _STANDARD, _LIBRARY = 1, 2, 3, 4

_written_by: Table[str, int] = Table(4096)
"""The owner of the code in a file."""


def _whose(file: str) -> int:
    if file.startswith(_LIBRARIES):
        whose = _LIBRARY
    elif not _PACKAGES.isdisjoint(Path(file).parts):
        whose = _INSTALLED_CODE
    else:
        whose = _STANDARD if file.startswith(_INSTALLED) else _USER
    _written_by.remember(file, whose)
    return whose


def is_library(file: str) -> bool:
    """Whether a file belongs to this package, NumPy or SciPy."""
    return (_written_by.get(file) or _whose(file)) == _LIBRARY


def is_installed(file: str) -> bool:
    """Whether a file belongs to this package, Python's library or an installed package."""
    return (_written_by.get(file) or _whose(file)) != _USER


def user_source() -> Source | None:
    """The innermost location in the call stack in the user's code."""
    return source_of(sys._getframe(1).f_back)


def source_of(frame: FrameType | None) -> Source | None:
    """As `user_source`, starting at a frame."""
    found = _users(frame)
    if found is None:
        return None
    code, at = found.f_code, found.f_lasti
    # memoised, since a loop records one location many times, and objects cost garbage collection
    source: Source | None = _sources.get((id(code), at))
    if source is None:
        source = _new(Source, (code, at, ""))
        _sources.remember((id(code), at), source)
    return source


def user_frame() -> FrameType | None:
    """The frame of `user_source`."""
    return _users(sys._getframe(1).f_back)


_new = tuple.__new__

_sources: Table[tuple[int, int], Source] = Table(4096)
"""Keyed by the id of the code, which the location keeps alive: hashing code would be slow."""


def asks_for_user(frame: FrameType | None) -> bool:
    """Whether the innermost frame outside of Python's own library is one of the user's code."""
    while frame is not None:
        file = frame.f_code.co_filename
        whose = _written_by.get(file) or _whose(file)
        if whose != _STANDARD:
            return whose == _USER
        frame = frame.f_back
    return False


def _users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame outside of this package and all installed packages.

    If there is none, the innermost one outside of this package, NumPy and SciPy.
    """
    first = None
    while frame is not None:
        file = frame.f_code.co_filename
        whose = _written_by.get(file) or _whose(file)
        if whose == _USER:
            return frame
        if first is None and whose != _LIBRARY:
            first = frame
        frame = frame.f_back
    return first


def recomputed(eqn: Eqn) -> Eqn:
    """The equation, marked as a recomputation in a backward pass."""
    source = eqn.source
    again = source if source is None or source.derivative else source.of("again")
    return Eqn(eqn.primitive, eqn.inputs, eqn.outputs, eqn.params, again)


def warn_user(message: str, category: type[Warning], source: Source | None = None) -> None:
    """Warn at the user's line: by default once for each line, as Python's filters do.

    The line is that of ``source``, or else the user's current line.
    """
    source = source or user_source()
    if source is None:
        warnings.warn(message, category, stacklevel=2)
        return
    file = source.code.co_filename
    warnings.warn_explicit(
        message, category, file, source.line, module=_module_of(file), registry=_warned
    )


def _module_of(file: str) -> str | None:
    """The name of a file's module, for warning filters."""
    modules = list(sys.modules.items())
    return next((name for name, one in modules if getattr(one, "__file__", None) == file), None)


_warned: dict[Any, Any] = {}
"""The registry of given warnings, for the module `warnings`."""


def located(source: Source | None) -> str:
    """``" at file.py:3 (f), `y = x + 1`"`` for a message; empty if the location is unknown."""
    if source is None:
        return ""
    text = source.text
    if len(text) > 80:
        text = text[:77] + "..."
    return f" at {source}" + (f", `{text}`" if text else "")


def here() -> str:
    """`located` for the user's line which called the caller."""
    return located(source_of(sys._getframe(1).f_back))
