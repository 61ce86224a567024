"""References of Python code: the globals that it reads, and the origin of C functions."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from types import CodeType
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.trace.bytecode import dotted_globals

_INSTALLED = tuple(
    os.path.realpath(os.path.dirname(inside)) + os.sep
    for inside in (os.__file__, os.path.dirname(np.__file__))
)
"""The folders of the standard library and of installed packages."""


class Nameless(Exception):
    """A value without an identity in other processes."""


@cached(1024)
def globals_of(code: CodeType) -> tuple[tuple[str, ...], ...]:
    """The globals that a function reads, each with the attributes read directly from it."""
    names = dotted_globals(code)
    if names is None:
        raise Nameless(code)
    return names


def name_of(value: Any) -> tuple[str, str]:
    """The module of a value, and its name in the module."""
    owner = getattr(value, "__objclass__", value)
    name = getattr(value, "__qualname__", None) or value.__name__
    of_ufunc = ("numpy", "scipy.special") if isinstance(value, np.ufunc) else ()
    for module in (getattr(owner, "__module__", None), *of_ufunc):
        found: Any = sys.modules.get(module or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if module and found is value:
            return module, name
    raise Nameless(value)


def top(module: str) -> str:
    """The top-level package of a module."""
    return module.partition(".")[0]


def state_of(module: str) -> str:
    """A hash of the state of a C extension module, or of an installed module."""
    if top(module) == "functrans" or module in sys.builtin_module_names:
        return ""
    states = []
    for name in (module, top(module)):
        about = sys.modules[name].__spec__ if name in sys.modules else find_spec(name)
        path = os.path.realpath((about.origin if about is not None else None) or "")
        if not path.startswith(_INSTALLED) and not path.endswith(tuple(EXTENSION_SUFFIXES)):
            raise Nameless(module)
        try:
            states.append(os.stat(path))
        except OSError:
            raise Nameless(module) from None
    return " ".join(f"{state.st_size} {state.st_mtime_ns}" for state in states)
