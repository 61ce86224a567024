"""Warning about objects whose changes the walk over state cannot detect.

The state of an object of a class written in C is visible through attributes, through Python's
garbage collector, or as a buffer. An object with none of these may be a constant, like a date, or
have hidden state, like a simulator with parameters. By convention, objects that are hashed by value
are constant. So are, or are detected, the objects of the standard library and of the packages that
are listed here.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from functrans.api.kinds import BUFFERS, BUILTIN, PLAIN, is_compiled, is_native
from functrans.api.reach import MOST_OBJECTS, Walk
from functrans.caches import cached
from functrans.errors import UnseenStateWarning
from functrans.trace.source import warn_user

_KNOWN = frozenset({
    *sys.stdlib_module_names, "functrans", "llvmlite", "numba", "numpy", "optree", "pandas",
    "polars", "pyarrow", "scipy", "xarray",
})  # fmt: skip
"""Packages whose objects are constant, or detected otherwise, if they show no state."""

_INSTEAD = "Pass what changes as an argument; if nothing does, filter functrans.errors.{}."


def warn_of_hidden_state(walk: Walk, name: str) -> None:
    """Warn, at the user's line, about objects whose changes a compiled function cannot detect."""
    instead = _INSTEAD.format(UnseenStateWarning.__name__)
    if not walk.complete:
        warn_user(
            f"{name} reaches more than {MOST_OBJECTS:,} objects besides its arguments: changes in "
            f"those beyond are not seen. {instead}",
            UnseenStateWarning,
        )
    kinds: set[Any] = {type(value) for value in walk.alive if not gc.is_tracked(value)}
    hidden = sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if _hides(kind))
    if hidden:
        warn_user(
            f"{name} reads an object of {' and one of '.join(hidden)}, which is written in C and "
            f"shows nothing of its state: changes in it are not seen. {instead}",
            UnseenStateWarning,
        )


@cached(1024)
def _hides(kind: Any) -> bool:
    """Whether instances that the garbage collector does not track may have hidden state."""
    if issubclass(kind, (*PLAIN, *BUFFERS, *BUILTIN)) or is_compiled(kind):
        return False
    if kind.__module__.partition(".")[0] in _KNOWN or not is_native(kind):
        return False
    return kind.__hash__ is object.__hash__ and not hasattr(kind, "__array__")
