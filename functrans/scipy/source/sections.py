"""Zeros and poles of filters in an order that values decide, for SciPy's own source.

How `scipy.signal` pairs poles with zeros, and which of them are real, is asked of traced values one
by one, as Python's branches are. So a compiled filter design keeps to the order of the values that
it was compiled for, and is compiled again for others.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np

from functrans import numpy as ours
from functrans.numpy.arrays import array
from functrans.ops.arrays.shape import holds_tracer


def _decided(mask: Any) -> Any:
    """The truths of an array, each of which Python branches on."""
    if not holds_tracer(mask):
        return np.asarray(mask)
    found = [bool(element) for element in array(mask).reshape(-1)]
    return np.array(found, bool).reshape(mask.shape)


def _sorted(*keys: Any) -> Any:
    """The order of elements by keys, the first one first."""

    def compare(i: int, j: int) -> int:
        for key in keys:
            if key[i] != key[j]:
                return -1 if key[i] < key[j] else 1
        return 0

    return np.array(sorted(range(len(keys[0])), key=cmp_to_key(compare)), int)


class _Deciding:
    """`functrans.numpy`, where functions that find elements decide which ones."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ours, name)

    def argmin(self, x: Any) -> Any:
        return _sorted(x)[0]

    def argsort(self, x: Any) -> Any:
        return _sorted(x)

    def lexsort(self, keys: Any) -> Any:
        return _sorted(*keys[::-1])

    def isreal(self, x: Any) -> Any:
        return _decided(np.imag(x) == 0)

    def nonzero(self, x: Any) -> Any:
        return np.nonzero(_decided(x))

    def flatnonzero(self, x: Any) -> Any:
        return np.flatnonzero(_decided(x))

    def compress(self, condition: Any, a: Any, axis: Any = None) -> Any:
        return ours.compress(_decided(condition), a, axis)


def _conjugate_pairs(z: Any, tol: float | None = None) -> tuple[Any, Any]:
    """One of each pair of conjugates, and the real ones, in the order of their real parts."""
    z = ours.atleast_1d(z)
    if z.size == 0:
        return z, z
    tol = 100 * np.finfo(z.dtype).eps if tol is None else tol
    z = z[_sorted(np.real(z), np.abs(np.imag(z)))]
    real = _decided(np.abs(np.imag(z)) <= tol * np.abs(z))
    above, below = z[~real], z[~real]
    up = _decided(np.imag(above) > 0)
    above, below = above[up], below[~up]
    if above.size == below.size:
        # runs of one real part are in the order of their imaginary parts
        near = _decided(np.diff(np.real(above)) <= tol * np.abs(above[:-1]))
        runs = np.concatenate([[0], np.cumsum(~near)]) if above.size else np.zeros(0)
        above = above[_sorted(runs, np.abs(np.imag(above)))]
        below = below[_sorted(runs, np.abs(np.imag(below)))]
    if (
        above.size != below.size
        or _decided(np.abs(above - below.conj()) > tol * np.abs(below)).any()
    ):
        raise ValueError("Array contains complex value with no matching conjugate.")
    return (above + below.conj()) / 2, np.real(z[real])


NAMES = {"np": _Deciding(), "_cplxreal": _conjugate_pairs}
