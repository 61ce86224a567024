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


USER, ADOPTED, INSTALLED, APART, STANDARD, LIBRARY = range(1, 7)
"""Owners of code: the user; installed packages, of which some have been adopted
(`functrans.trace.adoption`), and some stay apart; Python; this package, NumPy and SciPy.
"""

_APART = frozenset((
    "dask", "jax", "jaxlib", "numba", "opt_einsum", "optree", "pandas", "polars", "tensorflow",
    "torch", "xarray",
))  # fmt: skip
"""Packages with arrays or compilers of their own, and those that this one calls: a traced value is
no array of NumPy's to them.
"""

_written_by: Table[str, int] = Table(4096)
"""The owner of the code in a file."""

_adopted: set[str] = set()
"""The paths of the installed packages that have been adopted."""

adoptions: list[int] = [0]
"""How many adoptions of packages and namespaces there have been."""


def whose(file: str) -> int:
    """The owner of the code in a file."""
    return _written_by.get(file) or _find_owner(file)


def _find_owner(file: str) -> int:
    if file.startswith(_LIBRARIES):
        owner = LIBRARY
    elif not _PACKAGES.isdisjoint(Path(file).parts):
        package = package_of(file)
        owner = ADOPTED if package in _adopted else INSTALLED
        owner = APART if Path(package).name in _APART else owner
    else:
        owner = STANDARD if file.startswith(_INSTALLED) else USER
    _written_by.remember(file, owner)
    return owner


def package_of(file: str) -> str:
    """The path of the installed package or module to which a file belongs."""
    parts = Path(file).parts
    depth = min(parts.index(name) for name in _PACKAGES.intersection(parts))
    return str(Path(*parts[: depth + 2]))


def adopt(package: str) -> None:
    """Trace the code of an installed package as the user's own."""
    _adopted.add(package)
    _written_by.clear()


def disown(package: str) -> None:
    """Undo `adopt`."""
    _adopted.discard(package)
    _written_by.clear()


def is_library(file: str) -> bool:
    """Whether a file belongs to this package, NumPy or SciPy."""
    return (_written_by.get(file) or _find_owner(file)) == LIBRARY


def is_installed(file: str) -> bool:
    """Whether a file belongs to this package, Python's library or an installed package."""
    return (_written_by.get(file) or _find_owner(file)) != USER


def is_foreign(file: str) -> bool:
    """Whether the code of a file calls NumPy's own functions while a function is traced."""
    return (_written_by.get(file) or _find_owner(file)) > ADOPTED


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


def innermost(error: BaseException) -> FrameType | None:
    """The innermost frame in which an error arose, outside of this package, NumPy, SciPy, Python.

    An error that replaced another one may have the traceback of its own frames only.
    """
    found, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if (_written_by.get(file) or _find_owner(file)) < STANDARD:
            found = trace.tb_frame
        trace = trace.tb_next
    return innermost(error.__context__) if found is None and error.__context__ else found


def user_frame() -> FrameType | None:
    """The frame of `user_source`."""
    return _users(sys._getframe(1).f_back)


_new = tuple.__new__

_sources: Table[tuple[int, int], Source] = Table(4096)
"""Keyed by the id of the code, which the location keeps alive: hashing code would be slow."""


def asks_for_array(frame: FrameType | None) -> bool:
    """Whether code to which a traced value is an array asks for its class.

    That is the innermost frame outside of Python's own library, unless it belongs to this package,
    NumPy, SciPy, or a package with arrays of its own.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        owner = _written_by.get(file) or _find_owner(file)
        if owner != STANDARD:
            return owner <= INSTALLED
        frame = frame.f_back
    return False


def _users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame outside of this package and all installed packages.

    If there is none, the innermost one outside of this package, NumPy and SciPy.
    """
    first = None
    while frame is not None:
        file = frame.f_code.co_filename
        owner = _written_by.get(file) or _find_owner(file)
        if owner == USER:
            return frame
        if first is None and owner != LIBRARY:
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
