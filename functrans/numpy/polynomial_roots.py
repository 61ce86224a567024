"""Polynomial roots by companion matrices, and polynomial fits by least squares."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from functrans.ir.types import is_complex
from functrans.numpy.arrays import astype, inexact, known, with_axes
from functrans.numpy.contraction import outer
from functrans.numpy.creation import vander
from functrans.numpy.decompositions import eigvals, real_if_known
from functrans.numpy.define import answers
from functrans.numpy.linalg import lstsq
from functrans.numpy.reductions import sum
from functrans.ops.arrays.shape import concatenate
from functrans.ops.arrays.structural import expand_axes, zeros
from functrans.ops.elementwise.compare import not_equal
from functrans.ops.elementwise.complex_numbers import real
from functrans.ops.elementwise.power import sqrt
from functrans.ops.linalg.factorisations import inv
from functrans.ops.linalg.matrices import above, transposed
from functrans.ops.linalg.products import matmul

__all__ = ["poly", "polyfit", "roots"]


@answers(np.roots)
def roots(p: Any) -> Any:
    """The roots of a polynomial: the eigenvalues of its companion matrix.

    Parameters
    ----------
    p : array of shape (N,)
        The coefficients, the highest power first. Zeros at either end change the number of
        roots; under `jit` and `vmap`, where they are not known, there must be none.

    Returns
    -------
    array of shape (N - 1,)
        Complex; or real, where the coefficients are and all roots are known to be.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> grad(lambda p: np.sort(np.roots(p))[0])(np.array([1.0, -3.0, 2.0]))
    array([1., 1., 1.])
    """
    x = with_axes(p)
    if x.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    filled = known(not_equal(x, 0))
    present = np.arange(x.size) if filled is None else np.flatnonzero(filled)
    if not present.size:
        return zeros((0,), np.float64)
    behind = x.size - 1 - int(present[-1])
    x = inexact(x[int(present[0]) :])
    # A simple root 0 depends smoothly on the last coefficient; a multiple one has an infinite
    # derivative.
    x, last = _divided(x) if behind == 1 else (x[: x.size - behind], zeros((behind,), x.dtype))
    if x.size < 2:  # NumPy's are float64 then
        wide = np.dtype(np.float64)
        return zeros((behind,), wide) if is_complex(x.dtype) else astype(last, wide)
    rest = np.eye(x.size - 2, x.size - 1, dtype=x.dtype)
    found = real_if_known(above(expand_axes(-x[1:] / x[0], (0,)), rest))
    return concatenate([found, astype(last, found.dtype)], axis=0) if behind else found


def _divided(p: Any) -> tuple[Any, Any]:
    """The quotient of a polynomial by its root at 0, and this root, which NumPy takes to be 0.

    Both are 0 and coefficients of ``p``, but computed from all coefficients: two steps of Newton's
    method have the derivatives of the root of orders 1 to 3.
    """
    root = 0 - p[-1] / p[-2]  # the difference of two zeros is positive
    values = _quotient(p, root)
    root = root - values[-1] / _quotient(values[:-1], root)[-1]
    return concatenate([expand_axes(x, (0,)) for x in _quotient(p, root)[:-1]], axis=0), (
        expand_axes(root, (0,))
    )


def _quotient(p: Any, root: Any) -> list[Any]:
    """The quotient by ``x - root``, and the remainder, which is the value at the root."""
    results = [p[0]]
    for coefficient in [p[i] for i in range(1, len(p))]:
        results.append(coefficient + root * results[-1])
    return results


@answers(np.poly)
def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of the polynomial with given roots, or of the characteristic polynomial.

    They are real if the roots are, or if these are known to come in conjugate pairs.
    """
    x = with_axes(seq_of_zeros)
    comes_from_real = x.ndim == 2 and not is_complex(x.dtype)
    if x.ndim == 2 and x.shape[0] == x.shape[1] != 0:
        x = eigvals(x)
    elif x.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    x = astype(x, np.float64) if x.dtype == np.float16 else inexact(x)  # NumPy's conversion
    if not x.size:
        return 1.0
    result: Any = np.ones(1, x.dtype)
    for i in range(x.size):
        inner = result[1:] - x[i] * result[:-1]
        result = concatenate([result[:1], inner, -x[i] * result[-1:]], axis=0)
    return real(result) if comes_from_real or _come_in_pairs(x) else result


def _come_in_pairs(x: Any) -> bool:
    values = known(x)
    return values is not None and bool(np.all(np.sort(values) == np.sort(values.conjugate())))


@answers(np.polyfit)
def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The coefficients of the least-squares polynomial fit.

    Parameters
    ----------
    x : array of shape (M,)
    y : array of shape (M,) or (M, K)
    deg : int
    rcond : float, optional
        As for `numpy.linalg.lstsq`; by default, ``M`` times the machine epsilon.
    full : bool
        Whether to return residuals, rank, singular values and `rcond`, too.
    w : array of shape (M,), optional
        Weights of the residuals.
    cov : bool or 'unscaled'
        Whether to return the covariance of the coefficients as a second result.

    Returns
    -------
    array of shape (deg + 1,) or (deg + 1, K)
        The highest power first.
    """
    order = int(deg) + 1
    at, values = inexact(x), inexact(y)
    if order < 1:
        raise ValueError("expected deg >= 0")
    if at.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if not at.size:
        raise TypeError("expected non-empty vector for x")
    if values.ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if at.shape[0] != values.shape[0]:
        raise TypeError("expected x and y to have same length")
    cutoff = at.size * float(np.finfo(at.dtype).eps) if rcond is None else rcond
    matrix, right = vander(at, order), values
    if w is not None:
        weights = inexact(w)
        if weights.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if weights.shape[0] != values.shape[0]:
            raise TypeError("expected w and y to have the same length")
        matrix = matrix * weights[:, None]
        right = right * (weights if right.ndim == 1 else weights[:, None])
    # columns of equal norm improve the condition
    scale = sqrt(sum(matrix * matrix, 0))
    matrix = matrix / scale
    fitted, residuals, rank, singular = lstsq(matrix, right, cutoff)
    coefficients = fitted / (scale if fitted.ndim == 1 else scale[:, None])
    found = known(rank)
    if found is not None and found != order and not full:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    if full:
        return coefficients, residuals, rank, singular, cutoff
    if not cov:
        return coefficients
    base = inv(matmul(transposed(matrix), matrix)) / outer(scale, scale)
    if isinstance(cov, str) and cov == "unscaled":
        factor: Any = 1
    elif at.size <= order:
        raise ValueError(
            "the number of data points must exceed order to scale the covariance matrix"
        )
    else:
        factor = residuals / (at.size - order)
    return coefficients, (base if values.ndim == 1 else base[:, :, None]) * factor
