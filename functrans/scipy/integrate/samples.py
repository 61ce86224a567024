"""Integrals of samples: the trapezoidal rule, Simpson's rule and Romberg integration.

Simpson's rule for unequal spacing follows Cartwright, J. Math. Sci. Math. Educ. 12 (2017).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import array, axis_of, inexact
from functrans.numpy.joining import concatenate
from functrans.scipy.inside import refuse_options, within_traces


def _along_last(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any, int]:
    """The samples moved to the last axis, the distances between them, and the original axis."""
    y = array(y)
    axis = axis_of(axis, y.ndim)
    samples = np.moveaxis(y, axis, -1)
    if x is None:
        dx = array(dx)
        return samples, dx if dx.ndim < y.ndim or not dx.ndim else np.moveaxis(dx, axis, -1), axis
    x = array(x)
    if x.ndim != 1 and x.ndim != y.ndim:
        raise ValueError("If given, shape of `x` must be 1-D or the same as `y`.")
    places = x if x.ndim == 1 else np.moveaxis(x, axis, -1)
    if places.shape[-1] != samples.shape[-1]:
        raise ValueError("If given, length of `x` along axis must be the same as `y`.")
    return samples, np.diff(places, axis=-1), axis


@within_traces("scipy.integrate:trapezoid")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples by the trapezoidal rule, as `numpy.trapezoid`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.integrate import trapezoid
    >>> grad(lambda y: trapezoid(y, dx=0.5))(np.zeros(3))
    array([0.25, 0.5 , 0.25])
    """
    return np.trapezoid(array(y), None if x is None else array(x), dx, axis)


@within_traces("scipy.integrate:cumulative_trapezoid")
def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The integrals from the first sample to each later one, by the trapezoidal rule.

    With ``initial=0``, the result begins with a 0 for the first sample.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy.integrate import cumulative_trapezoid
    >>> jit(lambda y: cumulative_trapezoid(y, initial=0))(np.array([1.0, 3.0, 5.0]))
    array([0., 2., 6.])
    """
    samples, steps, axis = _along_last(y, x, dx, axis)
    if initial is not None and initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    if not samples.shape[-1]:
        raise ValueError("At least one point is required along `axis`.")
    parts = np.cumsum(steps * (samples[..., 1:] + samples[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        parts = concatenate([np.zeros((*parts.shape[:-1], 1), parts.dtype), parts], -1)
    return np.moveaxis(parts, -1, axis)


def _safe_quotient(a: Any, b: Any) -> Any:
    """The quotient, and 0 where the divisor is 0."""
    nothing = b == 0
    return np.where(nothing, 0.0, a / np.where(nothing, 1.0, b))


def _parabolas(y: Any, steps: Any) -> Any:
    """The sum of the integrals of the parabolas through samples 0, 1, 2, samples 2, 3, 4, ..."""
    count = y.shape[-1]
    left, middle, right = (y[..., i : count - 2 + i : 2] for i in range(3))
    if not steps.ndim or steps.shape[-1] == 1:
        return np.sum(left + 4.0 * middle + right, axis=-1) * (steps / 3.0)
    h0, h1 = steps[..., 0 : count - 1 : 2], steps[..., 1 : count - 1 : 2]
    both, product, ratio = h0 + h1, h0 * h1, _safe_quotient(h0, h1)
    weighed = (
        left * (2.0 - _safe_quotient(np.ones_like(ratio), ratio))
        + middle * both * _safe_quotient(both, product)
        + right * (2.0 - ratio)
    )
    return np.sum(both / 6.0 * weighed, axis=-1)


@within_traces("scipy.integrate:simpson")
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples by Simpson's rule.

    If the number of samples is even, the last interval is integrated by the parabola through the
    last three samples.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.integrate import simpson
    >>> grad(lambda y: simpson(y, dx=3.0))(np.zeros(3))
    array([1., 4., 1.])
    """
    samples, steps, _ = _along_last(inexact(y), x, dx, axis)
    count = samples.shape[-1]
    if count % 2:
        return _parabolas(samples, steps)
    if count == 2:
        whole = steps if x is None else steps[..., -1]
        return 0.5 * whole * (samples[..., 0] + samples[..., 1])
    first = _parabolas(samples[..., :-1], steps if x is None else steps[..., :-1])
    h0, h1 = (steps, steps) if x is None else (steps[..., -2], steps[..., -1])
    alpha = _safe_quotient(2 * h1**2 + 3 * h0 * h1, 6 * (h1 + h0))
    beta = _safe_quotient(h1**2 + 3.0 * h0 * h1, 6 * h0)
    eta = _safe_quotient(h1**3, 6 * h0 * (h0 + h1))
    return first + alpha * samples[..., -1] + beta * samples[..., -2] - eta * samples[..., -3]


def _first_of_pairs(y: Any, steps: Any) -> Any:
    """For any three consecutive samples, the integral of their parabola over the first interval."""
    f1, f2, f3 = y[..., :-2], y[..., 1:-1], y[..., 2:]
    if not steps.ndim or steps.shape[-1] == 1:
        return steps / 3 * (5 * f1 / 4 + 2 * f2 - f3 / 4)
    h0, h1 = steps[..., :-1], steps[..., 1:]
    ratio = h0 / (h0 + h1)
    return h0 / 6 * (f1 * (3 - ratio) + f2 * (3 + ratio * h0 / h1 + ratio) - f3 * ratio * h0 / h1)


@within_traces("scipy.integrate:cumulative_simpson")
def cumulative_simpson(
    y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None
) -> Any:
    """The integrals from the first sample to each later one, by Simpson's rule.

    With ``initial``, the result begins with that value, which is added to all others.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy.integrate import cumulative_simpson
    >>> jit(lambda y: cumulative_simpson(y, initial=0))(np.array([0.0, 1.0, 4.0, 9.0]))
    array([0.        , 0.33333333, 2.66666667, 9.        ])
    """
    samples, steps, axis = _along_last(inexact(y), x, dx, axis)
    if samples.shape[-1] < 3:
        result = cumulative_trapezoid(samples, None if x is None else _places(steps), dx)
    else:
        ahead = _first_of_pairs(samples, steps)
        mirrored = steps if not steps.ndim else steps[..., ::-1]
        behind = _first_of_pairs(samples[..., ::-1], mirrored)[..., ::-1]
        # of each pair of intervals, the first uses the parabola to its right, the second that to
        # its left
        count = samples.shape[-1] - 1
        last = behind[..., -1:]
        even = concatenate([ahead, last], -1)
        odd = concatenate([last, behind], -1)
        result = np.cumsum(np.where(np.arange(count) % 2 == 0, even, odd), axis=-1)
    if initial is not None:
        start = np.broadcast_to(array(initial), (*result.shape[:-1], 1)).astype(result.dtype)
        result = concatenate([start, result + start], -1)
    return np.moveaxis(result, -1, axis)


def _places(steps: Any) -> Any:
    start = np.zeros((*steps.shape[:-1], 1), steps.dtype)
    return concatenate([start, np.cumsum(steps, axis=-1)], -1)


@within_traces("scipy.integrate:romb")
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: bool = False) -> Any:
    """The integral of ``2**k + 1`` samples by Romberg integration.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.integrate import romb
    >>> grad(lambda y: romb(y, dx=45.0))(np.zeros(5))
    array([14., 64., 24., 64., 14.])
    """
    refuse_options("scipy.integrate.romb", [("show", show, "leave it out")])
    samples, _, _ = _along_last(inexact(y), None, 1.0, axis)
    intervals = samples.shape[-1] - 1
    levels = max(intervals, 1).bit_length() - 1
    if intervals != 1 << levels:
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    row: list[Any] = []
    for level in range(levels + 1):
        stride = intervals >> level
        h = dx * stride
        ends = (samples[..., 0] + samples[..., -1]) / 2
        inner = np.sum(samples[..., stride:-1:stride], axis=-1)
        following = [h * (ends + inner)]
        for order, coarser in enumerate(row, 1):
            following.append(following[-1] + (following[-1] - coarser) / (4**order - 1))
        row = following
    return row[-1]
