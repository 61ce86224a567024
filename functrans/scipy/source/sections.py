"""Ordering and pairing of poles and zeros by value, for the reinterpreted source of `scipy.signal`.

Which poles are paired with which zeros, and which of them are real, depends on values. It is
decided by comparisons of traced values, like Python's branches: each outcome is a guard of the
compiled program, which is compiled again for values with other outcomes.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np

from functrans import numpy as ours
from functrans.numpy.arrays import array
from functrans.ops.arrays.shape import holds_tracer
from functrans.scipy.source.reinterpret import NumpyWith


def decided(mask: Any) -> Any:
    """The elements of a boolean array as Python booleans, each by a branch."""
    if not holds_tracer(mask):
        return np.asarray(mask)
    found = [bool(element) for element in array(mask).reshape(-1)]
    return np.array(found, bool).reshape(mask.shape)


def _sorted(*keys: Any) -> Any:
    """The permutation that sorts elements lexicographically by keys, the first key first."""

    def compare(i: int, j: int) -> int:
        for key in keys:
            if key[i] != key[j]:
                return -1 if key[i] < key[j] else 1
        return 0

    return np.array(sorted(range(len(keys[0])), key=cmp_to_key(compare)), int)


_DECIDING = NumpyWith(
    argmin=lambda x: _sorted(x)[0],
    argsort=_sorted,
    lexsort=lambda keys: _sorted(*keys[::-1]),
    isreal=lambda x: decided(np.imag(x) == 0),
    nonzero=lambda x: np.nonzero(decided(x)),
    flatnonzero=lambda x: np.flatnonzero(decided(x)),
    compress=lambda condition, a, axis=None: ours.compress(decided(condition), a, axis),
)
"""Functions that find elements by branching on their values."""


def _conjugate_pairs(z: Any, tol: float | None = None) -> tuple[Any, Any]:
    """One of each conjugate pair, and the real elements, ordered by their real parts."""
    z = ours.atleast_1d(z)
    if z.size == 0:
        return z, z
    tol = 100 * np.finfo(z.dtype).eps if tol is None else tol
    z = z[_sorted(np.real(z), np.abs(np.imag(z)))]
    real = decided(np.abs(np.imag(z)) <= tol * np.abs(z))
    above, below = z[~real], z[~real]
    up = decided(np.imag(above) > 0)
    above, below = above[up], below[~up]
    if above.size == below.size:
        # elements with equal real parts are ordered by their imaginary parts
        near = decided(np.diff(np.real(above)) <= tol * np.abs(above[:-1]))
        runs = np.concatenate([[0], np.cumsum(~near)]) if above.size else np.zeros(0)
        above = above[_sorted(runs, np.abs(np.imag(above)))]
        below = below[_sorted(runs, np.abs(np.imag(below)))]
    if (
        above.size != below.size
        or decided(np.abs(above - below.conj()) > tol * np.abs(below)).any()
    ):
        raise ValueError("Array contains complex value with no matching conjugate.")
    return (above + below.conj()) / 2, np.real(z[real])


NAMES = {"np": _DECIDING, "_cplxreal": _conjugate_pairs}
