"""Finding the foreign function that converts a traced value to a plain array."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from functrans.errors import DtypeError, TracerConversionError
from functrans.subclasses import MASKED, lost
from functrans.trace.source import is_installed, located, user_source

instead: dict[str, Callable[[str], str]] = {}
"""By the name of a library: from a function, as users write it, to what to write in its place."""


def calls(library: str) -> list[FrameType]:
    """The library's frames between the user's code and here, those next to the user first."""
    found = []
    frame = sys._getframe(1).f_back
    while frame is not None and is_installed(frame.f_code.co_filename):
        if frame.f_globals.get("__name__", "").partition(".")[0] == library:
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def public_name(frame: FrameType) -> str | None:
    """The function of a frame as users write it, if it is one that they call.

    That is a function of a public module; or one that a decorator of the library's, whose frame it
    is, has been handed; or a method of an object that a public module has.
    """
    module, function = frame.f_globals["__name__"], frame.f_code.co_name
    public = _public(module)
    while public:
        if getattr(_names(public).get(function), "__code__", None) is frame.f_code:
            return f"{public}.{function}"
        public = public.rpartition(".")[0]  # where a package has it from a module of its own
    for inner in frame.f_locals.values():
        if isinstance(inner, FunctionType) and inner.__name__ in _names(inner.__module__):
            return f"{_public(inner.__module__)}.{inner.__name__}"
    owner = frame.f_locals.get("self")
    if owner is None:
        wrapped = _names(module).get(function)
        return f"{_public(module)}.{function}" if callable(wrapped) else None
    return None if function.startswith("_") else _name_of_method(owner, function, module)


def _name_of_method(owner: Any, function: str, module: str) -> str | None:
    """``scipy.stats.norm.logpdf`` of the public object, or of one made from it and parameters."""
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
    """What is in the public module that a private one belongs to."""
    public = sys.modules.get(_public(module))
    return {} if public is None else vars(public)


LABELLED = ("pandas", "polars", "xarray")
"""Libraries whose arrays have labels, which arithmetic goes by."""

_LOSSES = {
    "dask": "it is computed later, when that value is gone",
    "pandas": "its labels would be lost",
    "polars": "its labels would be lost",
}
"""Why arrays of a library cannot meet a traced value."""

_NUMBERS = "Take the numbers in it: np.asarray(series) * x, np.asarray(frame) @ x"


def library_of(x: Any) -> str:
    """The package that an object's class is from."""
    return type(x).__module__.partition(".")[0]


def refuse_labelled(x: Any) -> None:
    """Raise if what meets a traced value is an array of another library, which cannot hold it.

    Those of xarray can: they keep their labels, and ask what they hold to do the arithmetic.
    """
    library = library_of(x)
    loss = _LOSSES.get(library)
    if loss:
        raise TracerConversionError(
            f"a {library} {type(x).__name__} meets a traced value{located(user_source())}: {loss}."
            f"\n{_NUMBERS}."
        )


def check_plain(x: np.ndarray[Any, Any]) -> None:
    """Raise if what meets a traced value is an array that a plain one does not stand for."""
    if words := lost(x):
        raise DtypeError(f"what a traced value meets{located(user_source())} is {words}")


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
    return ""
