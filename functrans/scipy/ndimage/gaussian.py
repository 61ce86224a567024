"""Gaussian filters of images, and the derivatives of Gaussians."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import UnsupportedNumPyError
from functrans.numpy.arrays import array
from functrans.scipy.define import answers
from functrans.scipy.ndimage.boundaries import axes_in_order, per_axis
from functrans.scipy.ndimage.filters import convolve1d, one_after_another
from functrans.trace.source import located, user_source
from functrans.trace.tracer import Tracer

__all__ = ["gaussian_filter", "gaussian_filter1d"]


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
    return convolve1d(input, weights, axis, output, mode, cval, 0)


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
    count = len(chosen)
    sigmas, orders = per_axis(sigma, count, "sigma"), per_axis(order, count, "order")
    modes, radii = per_axis(mode, count, "mode"), per_axis(radius, count, "radius")
    wide = [isinstance(s, Tracer) or s > 1e-15 for s in sigmas]
    kept = [number for number in range(count) if wide[number]]

    def run(x: Any, axis: int, place: int) -> Any:
        n = kept[place]
        return gaussian_filter1d(
            x, sigmas[n], axis, orders[n], None, modes[n], cval, truncate, radius=radii[n]
        )

    return one_after_another(x, tuple(chosen[n] for n in kept), output, run)
