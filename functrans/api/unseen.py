"""Limits of the walk over objects' state: changes that cannot be seen.

An object of a class that is written in C shows what it consists of by attributes, by Python's
collector of garbage, or as a buffer. One that shows nothing at all may be a constant, as dates are,
or a simulator with parameters. By convention what is hashed by its value is constant; and so is, or
else is seen, what the standard library and the packages that are named here have.
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
"""Packages whose objects are constant where they show nothing, or are seen otherwise."""

_INSTEAD = "Pass what changes as an argument; if nothing does, filter functrans.errors.{}."


def warn_of_unseen(walk: Walk, name: str) -> None:
    """Say at the user's line what a compiled function would not see if it changed."""
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
    """Whether instances that the collector does not track may have state that nobody sees."""
    if issubclass(kind, (*PLAIN, *BUFFERS, *BUILTIN)) or is_compiled(kind):
        return False
    if kind.__module__.partition(".")[0] in _KNOWN or not is_native(kind):
        return False
    return kind.__hash__ is object.__hash__ and not hasattr(kind, "__array__")
