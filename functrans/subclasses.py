"""Subclasses of ``np.ndarray`` whose arithmetic is not that of arrays: masks, units, matrices.

Computing with the plain array inside would lose the mask or unit, so these classes are refused, as
arguments and in operations with traced values. Subclasses with the arithmetic of arrays
(``np.memmap``, ``np.recarray``) are accepted as arrays.
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
    """For a refused array, its description in messages, with the fix; otherwise empty."""
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
