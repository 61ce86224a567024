"""Finding the foreign function that converts a traced value to a plain array."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

from functrans.errors import DtypeError, TracerConversionError
from functrans.subclasses import MASKED, lost
from functrans.trace.source import (
    LIBRARY,
    STANDARD,
    USER,
    Source,
    here,
    is_installed,
    located,
    package_of,
    whose,
)

instead: dict[str, Callable[[str], str]] = {}
"""Replacements by library: from a function's public name to the suggested replacement."""


def calls(library: str) -> list[FrameType]:
    """The library's frames between the user's code and this one, the outermost first."""
    found = []
    frame = sys._getframe(1).f_back
    while frame is not None and is_installed(frame.f_code.co_filename):
        if frame.f_globals.get("__name__", "").partition(".")[0] == library:
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def public_name(frame: FrameType) -> str | None:
    """The public name of a frame's function, if it is a public one.

    That is a function of a public module; or, if the frame is that of a library's decorator, the
    decorated function; or a method of an object in a public module.
    """
    module, function = frame.f_globals["__name__"], frame.f_code.co_name
    public = _public(module)
    while public:
        if getattr(_names(public).get(function), "__code__", None) is frame.f_code:
            return f"{public}.{function}"
        public = public.rpartition(".")[0]  # the package re-exports it from a private module
    for inner in frame.f_locals.values():
        if isinstance(inner, FunctionType) and inner.__name__ in _names(inner.__module__):
            return f"{_public(inner.__module__)}.{inner.__name__}"
    owner = frame.f_locals.get("self")
    if owner is None:
        wrapped = _names(module).get(function)
        return f"{_public(module)}.{function}" if callable(wrapped) else None
    return None if function.startswith("_") else _name_of_method(owner, function, module)


def _name_of_method(owner: Any, function: str, module: str) -> str | None:
    """``scipy.stats.norm.logpdf`` for the public object, or for a frozen one made from it."""
    parts = [owner, *getattr(owner, "__dict__", {}).values()]
    kinds = {type(part) for part in parts if type(part).__module__.startswith(module)}
    kinds |= {type(owner)}
    for name, value in _names(module).items():
        if value is owner or (type(value) in kinds and hasattr(value, function)):
            return f"{_public(module)}.{name}.{function}"
    return None


def _public(module: str) -> str:
    return ".".join(part for part in module.split(".") if not part.startswith("_"))


def _names(module: str) -> dict[str, Any]:
    """The names in the public module of a private one."""
    public = sys.modules.get(_public(module))
    return {} if public is None else vars(public)


LABELLED = ("pandas", "polars", "xarray")
"""Libraries with labelled arrays, whose arithmetic aligns labels."""

_LOSSES = {
    "dask": "it is computed later, when that value is gone",
    "pandas": "its labels would be lost",
    "polars": "its labels would be lost",
}
"""The reason why arrays of a library cannot be combined with traced values."""

_NUMBERS = "Take the numbers in it: np.asarray(series) * x, np.asarray(frame) @ x"


def library_of(x: Any) -> str:
    """The package of an object's class."""
    return type(x).__module__.partition(".")[0]


def refuse_labelled(x: Any) -> None:
    """Raise if a traced value is combined with a labelled array that cannot contain it.

    Arrays of xarray can: they keep the labels, and delegate arithmetic to the wrapped array.
    """
    library = library_of(x)
    loss = _LOSSES.get(library)
    if loss:
        raise TracerConversionError(
            f"a {library} {type(x).__name__} meets a traced value{here()}: {loss}.\n{_NUMBERS}."
        )


def check_plain(x: Any) -> None:
    """Raise if what meets a traced value is no plain array or number, and computes otherwise."""
    if words := lost(x):
        raise DtypeError(f"what a traced value meets{here()} is {words}")


def converted_by() -> str:
    """A sentence about the function that the user called, if it is one of another library."""
    if any(frame.f_globals["__name__"].startswith("numpy.ma") for frame in calls("numpy")):
        return f"What it meets is {MASKED}."
    for library in LABELLED:
        if calls(library):
            return f"{library} makes a plain array of what it is given. {_NUMBERS}."
    for library, find in instead.items():
        for frame in calls(library):
            name = public_name(frame)
            if name is not None:
                return f"{name} converts its arguments to plain arrays: {find(name)}."
    return _converted_in_a_package()


def _converted_in_a_package() -> str:
    """A sentence about the line of an installed package that is being executed, if there is one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and whose(frame.f_code.co_filename) in (STANDARD, LIBRARY):
        frame = frame.f_back
    if frame is None or whose(frame.f_code.co_filename) == USER:
        return ""
    place = located(Source(frame.f_code, frame.f_lasti)).removeprefix(" at ")
    return (
        f"The package {Path(package_of(frame.f_code.co_filename)).stem} converts it in {place}. "
        "Write this formula in your own code, or call the function by functrans.callback, with a "
        "derivative by functrans.custom_jvp."
    )
