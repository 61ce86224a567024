"""Discrete distributions: categories and counts.

References
----------
W. Hormann, "The transformed rejection method for generating Poisson random variables" (1993), and
"The generation of binomial random variates" (1993): the algorithms PTRS and BTRS.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.types import Shape
from functrans.lax.loops import while_loop
from functrans.lax.scanning import scan
from functrans.numpy.arrays import array, axis_of
from functrans.numpy.indexing import argsort
from functrans.ops.elementwise.special.gamma import gammaln
from functrans.random import checks
from functrans.random.continuous import gumbels, positive
from functrans.random.keys import new_keys
from functrans.random.reals import unit
from functrans.trace.source import here

__all__ = ["binomial", "categorical", "geometric", "multinomial", "poisson"]

Dtype = np.dtype[Any]
FLOAT = np.dtype(np.float64)
"""Counts are computed in float64, for every dtype of the result."""


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True
) -> Any:
    """Categories, by the logarithms of their probabilities.

    Parameters
    ----------
    key : array of shape (2,), uint32
    logits : float array
        Logarithms of probabilities, up to a number that may be added to all of them.
    axis : int
        The axis of ``logits`` along which the categories lie.
    shape : tuple of int, optional
        That of ``logits`` without the axis, if it is not given; or with more axes in front.
    replace : bool
        Whether a category may be drawn more than once along the axes in front.

    Returns
    -------
    array of ``shape``, int64

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> random.categorical(random.key(0), np.log(np.array([0.2, 0.3, 0.5])), shape=(5,))
    array([2, 2, 0, 1, 1])
    """
    called = "random.categorical"
    key = checks.checked_key(key, called)
    logits = array(logits)
    axis = axis_of(axis, logits.ndim)
    own = (*logits.shape[:axis], *logits.shape[axis + 1 :])
    shape = own if shape is None else checks.checked_shape(shape, called)
    front = shape[: len(shape) - len(own)]
    if (*front, *own) != shape:
        raise ShapeError(
            f"the shape of {called} ends in that of logits without the axis, {own}"
            f"{here()}, found {shape}"
        )
    count = logits.shape[axis]
    checks.check_enough(prod(front) if prod(own) else 0, count, replace, called, "categories")
    dtype = checks.float_dtype_of(logits)
    return _categorical(key, logits, axis=axis, front=front, replace=bool(replace), dtype=dtype)


@checks.sampler
def _categorical(
    key: Any, logits: Any, *, axis: int, front: Shape, replace: bool, dtype: Dtype
) -> Any:
    logits = checks.parameter(logits, dtype)
    lines = (*logits.shape[:axis], *logits.shape[axis + 1 :])
    if prod(front) * prod(lines) == 0:
        return np.zeros((*front, *lines), np.int64)
    if replace:
        scores = gumbels(key, (*front, *logits.shape), dtype) + logits
        return np.argmax(scores, axis=len(front) + axis)
    scores = np.moveaxis(gumbels(key, logits.shape, dtype) + logits, axis, 0)
    return argsort(-scores, 0)[: prod(front)].reshape(*front, *lines)


@checks.distribution(checks.INTEGER)
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """The number of trials until one succeeds, each with probability ``p``.

    Parameters
    ----------
    p : float array
        In (0, 1].

    Examples
    --------
    >>> from functrans import random
    >>> random.geometric(random.key(0), 0.2)
    np.int64(4)
    """
    p = checks.parameter(p, FLOAT, shape)
    certain = p >= 1
    log_u = np.log(positive(key, shape, FLOAT))
    trials = np.floor(log_u / np.log1p(-np.where(certain, 0.5, p))) + 1
    return np.where(certain, 1, trials).astype(dtype)


def _rejected(key: Any, shape: Shape, propose: Callable[[Any, Any], tuple[Any, Any]]) -> Any:
    """Proposals ``(value, accepted)`` of two uniform numbers each, until all are accepted."""

    def step(state: Any) -> Any:
        key, value, done = state
        key, first, second = new_keys(key, 3)
        new, accepted = propose(unit(first, shape, FLOAT) - 0.5, unit(second, shape, FLOAT))
        return key, np.where(done | ~accepted, value, new), done | accepted

    nothing = unit(key, shape, FLOAT) * 0
    start = key, nothing, nothing > 0
    return while_loop(lambda state: ~np.all(state[2]), step, start)[1]


@checks.distribution(checks.INTEGER)
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = np.int64) -> Any:
    """The number of events in a time in which ``lam`` events are expected.

    Parameters
    ----------
    lam : float array
        Not negative. The result is -1 for NaN and for negative numbers.

    Examples
    --------
    >>> from functrans import random
    >>> random.poisson(random.key(0), 3.5)
    np.int64(3)
    """
    lam = checks.parameter(lam, FLOAT, shape)
    valid, few = lam >= 0, lam < 10
    first, second = new_keys(key, 2)
    small = _poisson_by_times(first, np.where(valid & few, lam, 0.0))
    large = _poisson_by_rejection(second, np.where(valid & ~few, lam, 10.0), shape)
    return np.where(valid, np.where(few, small, large), -1).astype(dtype)


def _number_of_waits(
    key: Any, nothing: Any, waited: Callable[[Any], Any], fits: Callable[[Any], Any]
) -> Any:
    """The number of waiting times, made from uniform numbers, whose sum fits."""

    def step(state: Any) -> Any:
        key, count, time = state
        key, now = new_keys(key, 2)
        time = time + waited(unit(now, nothing.shape, FLOAT))
        return key, count + fits(time), time

    return while_loop(lambda state: np.any(fits(state[2])), step, (key, nothing, nothing))[1]


def _poisson_by_times(key: Any, lam: Any) -> Any:
    """The number of exponential times that fit in ``lam`` (Knuth)."""
    return _number_of_waits(key, lam * 0, lambda u: -np.log1p(-u), lambda time: time < lam)


def _poisson_by_rejection(key: Any, lam: Any, shape: Shape) -> Any:
    """Hormann's PTRS, for ``lam`` from 10 up."""
    log_lam = np.log(lam)
    b = 0.931 + 2.53 * np.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + lam + 0.43)
        at_once = (us >= 0.07) & (v <= v_r)
        outside = (k < 0) | ((us < 0.013) & (v > us))
        bound = k * log_lam - lam - gammaln(np.maximum(k, 0) + 1)
        below = np.log(v * inverse_alpha / (a / (us * us) + b)) <= bound
        return k, at_once | (~outside & below)

    return _rejected(key, shape, propose)


@checks.distribution(checks.COUNT)
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """The number of successes in ``n`` trials, each with probability ``p``.

    Parameters
    ----------
    n : array
        Integers, not negative, as integers or floats.
    p : float array
        In [0, 1].
    dtype : dtype
        A float, as in `jax.random`, or an integer.

    Returns
    -------
    array of ``shape`` and ``dtype``
        NaN, or -1 for an integer dtype, where a parameter is out of its range.

    Examples
    --------
    >>> from functrans import random
    >>> random.binomial(random.key(0), 10, 0.3)
    np.float64(3.0)
    """
    counts, valid = _binomials(
        key, checks.parameter(n, FLOAT, shape), checks.parameter(p, FLOAT, shape)
    )
    return np.where(valid, counts, np.nan if dtype.kind == "f" else -1.0).astype(dtype)


def _binomials(key: Any, n: Any, p: Any) -> tuple[Any, Any]:
    """Counts in float64, and whether the parameters are in their range."""
    valid = (n >= 0) & (n < np.inf) & (p >= 0) & (p <= 1)
    n, p = np.floor(np.where(valid, n, 0.0)), np.where(valid, p, 0.0)
    flipped = p > 0.5
    q = np.where(flipped, 1 - p, p)
    few = n * q < 10
    first, second = new_keys(key, 2)
    small = _binomial_by_waiting(first, np.where(few, n, 0.0), np.where(few, q, 0.0))
    large = _binomial_by_rejection(second, np.where(few, 40.0, n), np.where(few, 0.5, q))
    counts = np.where(few, small, large)
    return np.where(flipped, n - counts, counts), valid


def _binomial_by_waiting(key: Any, n: Any, p: Any) -> Any:
    """The number of geometric waiting times that fit into the trials."""
    never = p == 0
    scale = 1 / np.log1p(-np.where(never, 0.5, p))

    def waited(u: Any) -> Any:
        return np.where(never, np.inf, np.floor(np.log1p(-u) * scale) + 1)

    return _number_of_waits(key, n * 0, waited, lambda trials: trials <= n)


def _binomial_by_rejection(key: Any, n: Any, p: Any) -> Any:
    """Hormann's BTRS, for ``n p`` from 10 up and ``p`` up to 1/2."""
    deviation = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * deviation
    v_r = 0.92 - 4.2 / b
    log_odds = np.log(p) - np.log1p(-p)
    mode = np.floor((n + 1) * p)
    top = gammaln(mode + 1) + gammaln(n - mode + 1)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + n * p + 0.5)
        inside = (k >= 0) & (k <= n)
        k = np.where(inside, k, mode)
        bound = top - gammaln(k + 1) - gammaln(n - k + 1) + (k - mode) * log_odds
        below = np.log(v * alpha / (a / (us * us) + b)) <= bound
        return k, inside & (((us >= 0.07) & (v <= v_r)) | below)

    return _rejected(key, n.shape, propose)


def multinomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """The number of trials, of ``n``, that have each of some outcomes.

    Parameters
    ----------
    key : array of shape (2,), uint32
    n : array
        Integers, not negative, as integers or floats.
    p : float array of shape (..., k)
        The probabilities of the outcomes along the last axis, whose sum is 1.
    shape : tuple of int, optional
        The common shape of ``n`` and of ``p`` without its last axis, if it is not given; they
        broadcast to it.
    dtype : dtype
        A float, as in `jax.random`, or an integer.

    Returns
    -------
    array of shape ``(*shape, k)`` and ``dtype``
        The sums along the last axis are ``n``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> random.multinomial(random.key(0), 100, np.array([0.2, 0.3, 0.5])).sum()
    np.float64(100.0)
    """
    called = "random.multinomial"
    key, dtype = checks.checked_key(key, called), checks.checked_dtype(dtype, called, checks.COUNT)
    if np.ndim(p) == 0 or np.shape(p)[-1] == 0:
        raise ShapeError(
            f"{called} takes a vector of probabilities{here()}, found one of shape {np.shape(p)}"
        )
    one = p[..., 0] if hasattr(p, "dtype") else np.asarray(p)[..., 0]
    return _multinomial(key, n, p, shape=checks.joint_shape(shape, called, n, one), dtype=dtype)


@checks.sampler
def _multinomial(key: Any, n: Any, p: Any, *, shape: Shape, dtype: Dtype) -> Any:
    n = checks.parameter(n, FLOAT, shape)
    p = np.moveaxis(checks.parameter(p, FLOAT, (*shape, p.shape[-1])), -1, 0)
    # each outcome's part of the remaining probability; the last outcome takes all of it
    left = np.flip(np.cumsum(np.flip(p, 0), axis=0), 0)
    parts = np.minimum(p / np.where(left > 0, left, 1.0), 1.0)

    def outcome(left: Any, given: Any) -> tuple[Any, Any]:
        key, part = given
        count, _ = _binomials(key, left, part)
        return left - count, count

    rest, counts = scan(outcome, n, (new_keys(key, len(p) - 1), parts[:-1]))
    return np.moveaxis(np.concatenate([counts, rest[None]]), 0, -1).astype(dtype)
