"""Subclasses of ``np.ndarray`` and of numbers with their own arithmetic: masks, units, matrices.

Computing with the plain array inside would lose the mask or unit, so these classes are refused, as
arguments and in operations with traced values. Subclasses with the arithmetic of arrays
(``np.memmap``, ``np.recarray``) are accepted as arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.caches import cached

MASKED = (
    "a masked array, whose mask would be lost: pass its data and its mask as two arrays, and write "
    "np.where(mask, 0.0, data)"
)


PLAIN = frozenset({np.ndarray, bool, int, float, complex, *np.sctypeDict.values()})
"""Classes of arrays and numbers that are not subclasses."""

_PLAIN_PACKAGES = frozenset({"functrans", "numpy"})
"""Packages whose subclasses of arrays and numbers compute as these do."""

_HARMLESS = frozenset(
    "__annotations__ __array_finalize__ __array_priority__ __array_wrap__ __class_getitem__ "
    "__copy__ __deepcopy__ __delattr__ __dict__ __dir__ __doc__ __format__ __getattribute__ "
    "__getnewargs__ __getstate__ __hash__ __init__ __init_subclass__ __module__ __new__ "
    "__reduce__ __reduce_ex__ __repr__ __setattr__ __setstate__ __sizeof__ __slots__ __str__ "
    "__subclasshook__ __type_params__ __weakref__".split()
)
"""What a subclass may redefine and still compute as its base does."""


@cached(256)
def _redefined(kind: type) -> tuple[str, str]:
    """An operator or method of arrays or numbers that a subclass redefines; the plain class."""
    plain: type = next((each for each in kind.__mro__ if each in PLAIN), object)
    if type(kind).__module__ == "enum":  # a flag's operators give flags, of the same numbers
        return "", ""
    for each in kind.__mro__[: kind.__mro__.index(plain)]:
        if str(each.__module__).partition(".")[0] not in _PLAIN_PACKAGES:
            for name in sorted(vars(each).keys() - _HARMLESS):
                if hasattr(plain, name):
                    return name, ("np." if plain.__module__ == "numpy" else "") + plain.__name__
    return "", ""


def lost(x: Any) -> str:
    """The description of a refused array or number in messages, with the fix; empty if accepted."""
    kind = type(x)
    if kind in PLAIN:
        return ""
    if hasattr(kind, "unit") or hasattr(kind, "units"):
        return f"a {kind.__name__}, whose unit would be lost: pass its numbers, in a unit you chose"
    if isinstance(x, np.ma.MaskedArray):
        return MASKED
    if isinstance(x, np.matrix):
        return "a np.matrix: pass np.asarray(x), and multiply by @"
    if not isinstance(x, (np.ndarray, np.number, int, float, complex)):
        return ""
    name, plain = _redefined(kind)  # type: ignore[arg-type]
    if not name:
        return ""
    to_plain = "np.asarray" if plain == "np.ndarray" else plain
    return f"a {kind.__name__}, whose own {name} would be lost: pass {to_plain}(x)"
