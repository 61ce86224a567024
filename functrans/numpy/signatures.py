"""Signatures of NumPy's built-in functions, which have none of their own before NumPy 2.4."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

# as NumPy 2.4 has them
_BUILT_IN: dict[str, Callable[..., Any]] = {
    "arange": lambda start_or_stop, /, stop=None, step=1, *, dtype=None, device=None, like=None: 0,
    "bincount": lambda x, /, weights=None, minlength=0: 0,
    "can_cast": lambda from_, to, casting="safe": 0,
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": 0,
    "copyto": lambda dst, src, casting="same_kind", where=True: 0,
    "dot": lambda a, b, out=None: 0,
    "empty": lambda shape, dtype=None, order="C", *, device=None, like=None: 0,
    "empty_like": (
        lambda prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None: 0
    ),
    "inner": lambda a, b, /: 0,
    "lexsort": lambda keys, axis=-1: 0,
    "min_scalar_type": lambda a, /: 0,
    "packbits": lambda a, /, axis=None, bitorder="big": 0,
    "putmask": lambda a, /, mask, values: 0,
    "ravel_multi_index": lambda multi_index, dims, mode="raise", order="C": 0,
    "result_type": lambda *arrays_and_dtypes: 0,
    "unpackbits": lambda a, /, axis=None, count=None, bitorder="big": 0,
    "unravel_index": lambda indices, shape, order="C": 0,
    "vdot": lambda a, b, /: 0,
    "where": lambda condition, x=None, y=None, /: 0,
    "zeros": lambda shape, dtype=None, order="C", *, device=None, like=None: 0,
}


_LACKING = np.lib.NumpyVersion(np.__version__) < "2.4.0"


def with_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function, or a wrapper with its signature if it has none."""
    if _LACKING and getattr(function, "__module__", None) == "numpy":
        return _BUILT_IN.get(function.__name__, function)
    return function


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a NumPy or SciPy function."""
    return inspect.signature(with_signature(function))
