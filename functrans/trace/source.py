"""Which line of the user's code an equation or an error belongs to."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import numpy as np

from functrans.caches import cached

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_NUMPY = Path(np.__file__).parent
_LIBRARIES = (_PACKAGE, str(_NUMPY) + os.sep, str(_NUMPY.parent / "scipy") + os.sep)
_STANDARD = str(Path(os.__file__).parent) + os.sep
_BETWEEN = (functools.__file__, contextlib.__file__)


class Source(NamedTuple):
    """A place in the user's code, kept as cheaply as a frame gives it."""

    code: CodeType
    instruction: int

    @property
    def line(self) -> int:
        """The line number, worked out when somebody asks."""
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def text(self) -> str:
        """The line itself, or an empty string where the file cannot be read."""
        return linecache.getline(self.code.co_filename, self.line).strip()

    def __str__(self) -> str:
        name = Path(self.code.co_filename).name
        return f"{name}:{self.line} ({self.code.co_qualname})"


@cached(4096)
def is_installed(filename: str) -> bool:
    """Whether code belongs to an installed package, this one or Python: it is not the user's."""
    below = Path(filename).parts
    return (
        _is_library(filename)
        or filename.startswith((_STANDARD, "<frozen "))
        or "site-packages" in below
        or "dist-packages" in below
    )


@cached(4096)
def _is_library(filename: str) -> bool:
    return filename.startswith(_LIBRARIES) or filename in _BETWEEN


def user_source() -> Source | None:
    """The innermost place in the calling stack outside of this package, NumPy and SciPy."""
    frame = sys._getframe(1).f_back
    while frame is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else Source(frame.f_code, frame.f_lasti)


def located(source: Source | None) -> str:
    """``" at file.py:3 (f), `y = x + 1`"`` for a message; empty if the place is not known."""
    if source is None:
        return ""
    text = source.text
    if len(text) > 80:
        text = text[:77] + "..."
    return f" at {source}" + (f", `{text}`" if text else "")
