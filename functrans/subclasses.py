"""Subclasses of ``np.ndarray`` whose arithmetic is not that of arrays: masks, units, matrices.

To compute with the plain array inside of one would drop what it has beyond its numbers, so they are
refused wherever they come in: as arguments, and where they meet a traced value. Those that compute
as arrays do (``np.memmap``, ``np.recarray``) come in as the arrays that they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MASKED = (
    "a masked array, whose mask would be lost: pass its data and its mask as two arrays, and write "
    "np.where(mask, 0.0, data)"
)


_OURS = "functrans."


def lost(x: Any) -> str:
    """What a message says of an array that a plain one does not stand for; else nothing."""
    kind = type(x)
    if kind is np.ndarray:
        return ""
    if hasattr(kind, "unit") or hasattr(kind, "units"):
        return f"a {kind.__name__}, whose unit would be lost: pass its numbers, in a unit you chose"
    if not isinstance(x, np.ndarray):
        return ""
    if isinstance(x, np.ma.MaskedArray):
        return MASKED
    if isinstance(x, np.matrix):
        return "a np.matrix: pass np.asarray(x), and multiply by @"
    if kind.__array_ufunc__ is np.ndarray.__array_ufunc__ or kind.__module__.startswith(_OURS):
        return ""
    return (
        f"a {kind.__name__}, whose own arithmetic (__array_ufunc__) would be lost: pass "
        "np.asarray(x)"
    )
