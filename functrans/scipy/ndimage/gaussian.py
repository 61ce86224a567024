"""Gaussian filters of images, also with traced standard deviations, on which SciPy branches."""

from __future__ import annotations

from typing import Any

from functrans.errors import UnsupportedNumPyError
from functrans.numpy.arrays import array
from functrans.scipy.define import answers
from functrans.scipy.source.reinterpret import module
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = ["gaussian_filter", "gaussian_filter1d"]


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
    if radius is None:
        if isinstance(sigma, Tracer):
            raise UnsupportedNumPyError(
                "a Gaussian filter whose sigma is traced is not supported without radius"
                f"{here()}: how many weights there are is part of the program"
            )
        radius = int(truncate * float(sigma) + 0.5)
    if not float(radius).is_integer() or radius < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    filters = module("scipy.ndimage._filters")
    weights = filters._gaussian_kernel1d(sigma, order, int(radius))[::-1]
    return filters.correlate1d(input, weights, axis, output, mode, cval, 0)


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
    support = module("scipy.ndimage._ni_support")
    output = support._get_output(output, x)
    chosen = support._check_axes(axes, x.ndim)
    settings = (
        support._normalize_sequence(given, len(chosen)) for given in (sigma, order, mode, radius)
    )
    for axis, width, one, beyond, taps in zip(chosen, *settings, strict=True):
        if isinstance(width, Tracer) or width > 1e-15:
            x = gaussian_filter1d(x, width, axis, one, output, beyond, cval, truncate, radius=taps)
    output[...] = x
    return output
