"""Functions of `scipy.special` that are not ufuncs.

SciPy's ufuncs (``scipy.special.erf``, ``expit``, ``gammaln``...) accept traced values. SciPy's
``logsumexp`` and ``softmax`` do not; the functions here replace them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.types import is_bfloat16, is_complex
from functrans.numpy.arrays import array, astype, axes_of, flat, inexact, inexact_pair
from functrans.numpy.reductions import max, reduced_axes, restored, sum
from functrans.ops.arrays.structural import zeros_like
from functrans.ops.elementwise.choice import absolute, select, sign
from functrans.ops.elementwise.compare import equal, less
from functrans.ops.elementwise.complex_numbers import real
from functrans.ops.elementwise.exponential import exp, log, log1p
from functrans.ops.elementwise.logic import isfinite, logical_and, logical_not
from functrans.ops.elementwise.stop import stop_gradient
from functrans.trace import protocols

__all__ = ["log_softmax", "logsumexp", "softmax"]


def __getattr__(name: str) -> Any:
    """SciPy's ufuncs, which SciPy looks up here if its array API support is enabled."""
    operation = protocols.ufuncs.get(name)
    if operation is None or hasattr(np, name):
        raise AttributeError(f"functrans.numpy.special has no {name!r}")
    return operation


def _highest(x: Any, axes: tuple[int, ...]) -> Any:
    """The maxima to which exponents are relative, 0 where they are infinite.

    The result does not depend on them, so they are not differentiated.
    """
    top = max(x, axes, keepdims=True, initial=-np.inf)
    return stop_gradient(select(isfinite(top), top, 0))


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """The logarithm of the sum of exponentials along axes, without overflow.

    Parameters
    ----------
    a : array
    axis : int or tuple of int, optional
        All axes by default.
    b : array, optional
        Factors of the exponentials, which broadcast with `a`. An element with the factor 0 is
        ignored, even if it is infinite or NaN.
    keepdims : bool
        Whether to keep the axes, with size 1.
    return_sign : bool
        Whether to return the logarithm of the sum's absolute value, and its sign. Otherwise, the
        logarithm of a negative sum is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> float(logsumexp(np.array([1000.0, 1000.0])))
    1000.69314718
    """
    x = inexact(a)
    x = flat(x) if x.ndim == 0 else x  # as in SciPy
    if b is not None:
        given, b = inexact_pair(x, b)
        b = b + zeros_like(given)
        # terms with weight 0 do not count, however large
        x = select(equal(b, 0), -np.inf, given)
    axes = axes_of(axis, x.ndim)
    exponents = real(x) if is_complex(x.dtype) else x
    raw = max(exponents, axes, keepdims=True, initial=-np.inf)
    top = stop_gradient(select(isfinite(raw), raw, 0))
    none = equal(raw, -np.inf)  # there, the derivative by `a` is 0, and that of the logarithm 0 / 0
    if b is None:
        terms = exp(x - top)
    else:
        terms = _weighted(select(none, stop_gradient(given), given), b, top)
    if b is None and not is_complex(x.dtype):
        # the largest terms are ones: small other terms are lost in the sum, but not in log1p
        zero, one = map(x.dtype.type, (0, 1))
        highest = equal(terms, one)
        above = sum(select(highest, terms, 0), axes, keepdims=True)
        rest = sum(select(highest, 0, terms), axes, keepdims=True)
        total = above + rest
        out = log1p((above - select(none, zero, one)) + rest) + select(none, -np.inf, top)
    else:
        total = sum(terms, axes, keepdims=True)
        size = absolute(total) if return_sign else total
        out = log(size) + _lost(total, terms, equal(exponents, raw), axes) + top
    if not return_sign:
        return restored(sum(out, axes), axes, keepdims)
    out = real(out) if is_complex(out.dtype) else out
    return tuple(restored(sum(y, axes), axes, keepdims) for y in (out, sign(total)))


def _weighted(x: Any, b: Any, top: Any) -> Any:
    """Exponentials of differences with factors; 0 for the factor 0, even of infinity and NaN.

    The derivative by such a factor is the exponential, or 0 if that is not finite.
    """
    ignored = equal(b, 0)
    exponents = x - top
    small = less(real(exponents), np.log(np.finfo(x.dtype).max))
    if is_complex(x.dtype):
        small = logical_and(small, isfinite(exponents))
    return b * exp(select(logical_and(ignored, logical_not(small)), -np.inf, exponents))


def _lost(total: Any, terms: Any, highest: Any, axes: tuple[int, ...]) -> Any:
    """The correction of the logarithm for terms lost by rounding in the sum."""
    if not axes:
        return 0
    above = sum(select(highest, terms, 0), axes, keepdims=True)
    rest = sum(select(highest, 0, terms), axes, keepdims=True)
    # if the rest is small, the first difference is exact
    lost = log1p(((above - total) + rest) / total)
    # not differentiated: the derivative is that of the sum
    return stop_gradient(select(isfinite(lost), lost, 0))


def _exponents(x: Any) -> Any:
    """Numbers in the dtype of their exponentials: float16 for int8."""
    return astype(x, np.exp(np.empty(0, x.dtype)).dtype)


def softmax(x: Any, axis: Any = None) -> Any:
    """Exponentials divided by their sum along axes.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    x = array(x)
    if is_bfloat16(x.dtype):
        return astype(softmax(astype(x, np.float32), axis), x.dtype)
    x = _exponents(x)
    axes = reduced_axes(axis, x.ndim)
    # not `_highest`: as in SciPy, an infinite element gives NaN
    powers = exp(x - stop_gradient(max(x, axes, keepdims=True, initial=-np.inf)))
    return powers / sum(powers, axes, keepdims=True)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """The logarithm of `softmax`, without overflow or underflow.

    Examples
    --------
    >>> import numpy as np
    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """
    x = array(x)
    if is_bfloat16(x.dtype):
        return astype(log_softmax(astype(x, np.float32), axis), x.dtype)
    x = _exponents(x)
    axes = reduced_axes(axis, x.ndim)
    shifted = x - _highest(x, axes)
    return shifted - log(sum(exp(shifted), axes, keepdims=True))
