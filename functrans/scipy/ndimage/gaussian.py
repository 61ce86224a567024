"""Gaussian filters of images, by derivatives of Gaussians, and the magnitudes of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import UnsupportedNumPyError
from functrans.numpy.arrays import array, axis_of
from functrans.scipy.define import answers
from functrans.scipy.ndimage.boundaries import (
    axes_in_order,
    check_mode,
    delivered,
    per_axis,
    result_dtype,
    stored,
)
from functrans.scipy.ndimage.kernels import correlated
from functrans.trace.source import located, user_source
from functrans.trace.tracer import Tracer

__all__ = ["gaussian_filter", "gaussian_filter1d", "generic_gradient_magnitude"]


def _gaussian(sigma: Any, order: int, radius: int) -> Any:
    """The weights of a sampled Gaussian, normalised to sum 1, or of one of its derivatives."""
    x = np.arange(-radius, radius + 1)
    variance = sigma * sigma
    weights = np.exp(x**2 * (-0.5 / variance))
    weights = weights / np.sum(weights)
    # each derivative is the Gaussian times a polynomial q, and the next one has q' - x q / variance
    factors: list[Any] = [1.0]
    for _ in range(order):
        rise = [*(j * q for j, q in enumerate(factors) if j), 0.0, 0.0]
        fall = [0.0, *(q / variance for q in factors)]
        factors = [a - b for a, b in zip(rise, fall, strict=True)]
    polynomial: Any = 0.0
    for factor in reversed(factors):
        polynomial = polynomial * x + factor
    return polynomial * weights


@answers("scipy.ndimage:gaussian_filter1d")
def gaussian_filter1d(
    input: Any, sigma: Any, axis: int = -1, order: int = 0, output: Any = None,
    mode: str = "reflect", cval: Any = 0.0, truncate: float = 4.0, *, radius: Any = None,
) -> Any:  # fmt: skip
    """Convolve an array with a Gaussian along an axis, or with a derivative of it.

    Parameters
    ----------
    input : array
    sigma : float
        The standard deviation. If it is traced, ``radius`` must be given.
    axis : int, optional
    order : int, optional
        Which derivative of the Gaussian.
    output, mode, cval : optional
        As for `correlate1d`.
    truncate : float, optional
        The number of standard deviations after which the weights end.
    radius : int, optional
        The number of elements after which they end, in place of ``truncate``.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import ndimage
    >>> x = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    >>> grad(lambda s: ndimage.gaussian_filter1d(x, s, radius=2)[2])(1.0).round(4)
    np.float64(-0.3721)
    """
    if order < 0:
        raise ValueError("order must be non-negative")
    if radius is None:
        if isinstance(sigma, Tracer):
            raise UnsupportedNumPyError(
                "a Gaussian filter whose sigma is traced is not supported without radius"
                f"{located(user_source())}: how many weights there are is part of the program"
            )
        radius = int(truncate * float(sigma) + 0.5)
    if not float(radius).is_integer() or radius < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    weights = _gaussian(sigma, order, int(radius))
    x = array(input)
    check_mode(mode)
    sums = correlated(x, weights[::-1], (axis_of(axis, x.ndim),), mode, cval, (0,))
    return stored(delivered(sums, result_dtype(output, x)), output)


@answers("scipy.ndimage:gaussian_filter")
def gaussian_filter(
    input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, truncate: float = 4.0, *, radius: Any = None, axes: Any = None,
) -> Any:  # fmt: skip
    """Convolve an array with Gaussians along its axes.

    Parameters
    ----------
    input : array
    sigma, order, mode, radius : optional
        As for `gaussian_filter1d`: for all axes, or one for each.
    output, cval, truncate : optional
        As for `gaussian_filter1d`.
    axes : sequence of int, optional
        By default all.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import ndimage
    >>> total = grad(lambda x: ndimage.gaussian_filter(x, 1.0).sum())(np.eye(5))
    >>> total.round(12).tolist() == np.ones((5, 5)).tolist()
    True
    """
    x = array(input)
    chosen = axes_in_order(axes, x.ndim)
    settings = [
        per_axis(given, len(chosen), name)
        for name, given in (("sigma", sigma), ("order", order), ("mode", mode), ("radius", radius))
    ]
    x = delivered(x, result_dtype(output, x))
    for axis, width, one, beyond, taps in zip(chosen, *settings, strict=True):
        if isinstance(width, Tracer) or width > 1e-15:
            x = gaussian_filter1d(x, width, axis, one, None, beyond, cval, truncate, radius=taps)
    return stored(x, output)


@answers("scipy.ndimage:generic_gradient_magnitude")
def generic_gradient_magnitude(
    input: Any, derivative: Callable[..., Any], output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, extra_arguments: Any = (), extra_keywords: Any = None, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The magnitude of the gradient by a given derivative function.

    ``derivative(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)`` returns the
    derivative along an axis. Where the magnitude is 0, its derivative is 0, too.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> x = np.arange(9.0).reshape(3, 3)
    >>> jit(lambda x: ndimage.generic_gradient_magnitude(x, ndimage.prewitt))(x)[1, 1].round(6)
    np.float64(18.973666)
    """
    x = array(input)
    chosen = axes_in_order(axes, x.ndim)
    modes = per_axis(mode, len(chosen), "mode")
    dtype = result_dtype(output, x)
    parts = [
        derivative(x, axis, dtype, one, cval, *extra_arguments, **(extra_keywords or {}))
        for axis, one in zip(chosen, modes, strict=True)
    ]
    if not parts:
        return stored(delivered(x, dtype), output)
    both = np.stack(parts)
    if both.dtype.kind == "f":
        return stored(np.linalg.norm(both, axis=0), output)
    return stored(delivered(np.sqrt(np.sum(both * both, axis=0)), dtype), output)
