"""Least-squares fits to signals, as products with constant matrices: stand-ins for SciPy's fits.

`detrend` and `savgol_filter` run from SciPy's source, which solves a system in each call.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.numpy.arrays import known
from functrans.numpy.joining import concatenate
from functrans.ops.indexing.views import unlinked

lstsq = lazy("functrans.scipy.linalg:lstsq")
savgol_coeffs = lazy("scipy.signal:savgol_coeffs")


def _lstsq(basis: Any, y: Any) -> Any:
    """The least-squares solution, as a product if the basis is a known one of lines."""
    constant = known(basis)
    if constant is None or constant.shape[-1] > 2:
        return lstsq(basis, y)
    return np.linalg.pinv(constant).astype(y.dtype) @ y, None, 2, None


def _with_ends(
    x: Any, window_length: int, polyorder: int, deriv: int, delta: float, axis: int, y: Any
) -> Any:
    """Filtered samples whose ends are on the polynomials through the first and the last window."""
    if polyorder < 0:
        raise ValueError("polyorder must not be negative")
    half = window_length // 2
    if not half:
        return y
    places = [*range(half), *range(window_length - half, window_length)]
    fits = np.stack(
        [
            savgol_coeffs(window_length, polyorder, deriv, delta, pos=place, use="dot")
            for place in places
        ]
    ).astype(x.dtype)
    rows, inner = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    first = np.tensordot(fits[:half], rows[:window_length], 1)
    last = np.tensordot(fits[half:], rows[-window_length:], 1)
    found = concatenate([first, inner[half : inner.shape[0] - half], last])
    return unlinked(np.moveaxis(found, 0, axis))


LINALG = SimpleNamespace(lstsq=_lstsq)
NAMES = {"_fit_edges_polyfit": _with_ends}
"""The replacements for names in SciPy's module of Savitzky-Golay filters."""
