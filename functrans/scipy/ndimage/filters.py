"""Filters of images that are linear: correlations with weights, Gaussians, derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.errors import UnsupportedNumPyError
from functrans.numpy.arrays import array, axes_of, axis_of, common_dtype
from functrans.ops.arrays.structural import astype
from functrans.ops.arrays.views import flip, unlinked
from functrans.ops.convolution.convolution import convolve as contracted
from functrans.ops.convolution.windows import Window
from functrans.scipy.define import answers
from functrans.scipy.ndimage.boundaries import (
    delivered,
    extended,
    in_doubles,
    per_axis,
    result_dtype,
)
from functrans.trace.source import located, user_source
from functrans.trace.tracer import Tracer

__all__ = [
    "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d",
    "gaussian_gradient_magnitude", "gaussian_laplace", "generic_gradient_magnitude",
    "generic_laplace", "laplace", "prewitt", "sobel", "uniform_filter", "uniform_filter1d",
]  # fmt: skip

Axes = tuple[int, ...]


def _correlated(
    x: Any, weights: Any, axes: Axes, modes: Sequence[str], cval: Any, origins: Sequence[int]
) -> Any:
    """The sums of products of weights with what is around each element along some axes."""
    windows = []
    widths = [(0, 0)] * x.ndim
    full = ["constant"] * x.ndim
    for axis, taps, mode, origin in zip(axes, weights.shape, modes, origins, strict=True):
        before = taps // 2 + origin
        if not 0 <= before < max(taps, 1):
            raise ValueError(
                "Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= "
                "(len(weights)-1) // 2"
            )
        zero = mode in ("constant", "grid-constant") and not isinstance(cval, Tracer) and cval == 0
        if not zero:
            widths[axis], full[axis] = (before, taps - 1 - before), mode
        windows.append((axis, Window(x.shape[axis], taps, offset=-before if zero else 0)))
    x = extended(x, widths, full, cval)
    labels = tuple(range(x.ndim))
    return contracted(x, weights, (labels, axes, labels), tuple(windows))


def _filtered(
    input: Any, weights: Any, axes: Axes, output: Any, modes: Any, cval: Any, origins: Any
) -> Any:
    x = array(input)
    dtype = result_dtype(output, x)
    numbers = in_doubles(x)
    weights = array(weights)
    weights = astype(weights, common_dtype(numbers) if weights.dtype.kind != "c" else weights.dtype)
    return delivered(_correlated(numbers, weights, axes, modes, cval, origins), dtype)


@answers("scipy.ndimage:correlate1d")
def correlate1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """Correlate an array with weights along an axis.

    Parameters
    ----------
    input : array
    weights : array
        A vector.
    axis : int, optional
    output : dtype, optional
        That of the input, if nothing is given.
    mode : {"reflect", "constant", "nearest", "mirror", "wrap"}, optional
        What lies beyond the boundary.
    cval : number, optional
        It is this, in the mode ``"constant"``.
    origin : int, optional
        How far from its middle the weights are laid on an element.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.correlate1d(x, [1.0, 0.0, -1.0]))(np.array([1.0, 2.0, 4.0]))
    array([-1., -3., -2.])
    """
    x, weights = array(input), array(weights)
    if weights.ndim != 1 or weights.size < 1:
        raise RuntimeError("no filter weights given")
    return _filtered(x, weights, (axis_of(axis, x.ndim),), output, [mode], cval, [origin])


@answers("scipy.ndimage:convolve1d")
def convolve1d(
    input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """Convolve an array with weights along an axis; the parameters are those of `correlate1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.convolve1d(x, [1.0, 0.0, -1.0]))(np.array([1.0, 2.0, 4.0]))
    array([1., 3., 2.])
    """
    weights = array(weights)
    turned = unlinked(flip(weights))
    return correlate1d(input, turned, axis, output, mode, cval, _turned(origin, weights.size))


def _turned(origin: int, taps: int) -> int:
    """The origin of weights that are turned around."""
    return -origin - (taps % 2 == 0)


@answers("scipy.ndimage:correlate")
def correlate(
    input: Any, weights: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Correlate an array with weights that have as many axes.

    Parameters
    ----------
    input, weights : array
    output, cval : optional
        As for `correlate1d`.
    mode, origin : optional
        As for `correlate1d`: for all axes, or one for each.
    axes : sequence of int, optional
        The axes along which the weights lie: all, if nothing is given.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import ndimage
    >>> x = np.arange(4.0).reshape(2, 2)
    >>> grad(lambda w: ndimage.correlate(x, w, mode="constant")[0, 0])(np.ones((2, 2)))
    array([[0., 0.],
           [0., 0.]])
    """
    x, weights = array(input), array(weights)
    chosen = axes_of(axes, x.ndim)
    if weights.ndim != len(chosen):
        raise RuntimeError(f"weights.ndim ({weights.ndim}) must match len(axes) ({len(chosen)}).")
    origins = per_axis(origin, len(chosen), "origin")
    modes = per_axis(mode, len(chosen), "mode")
    return _filtered(x, weights, chosen, output, modes, cval, origins)


@answers("scipy.ndimage:convolve")
def convolve(
    input: Any, weights: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """Convolve an array with weights that have as many axes; as `correlate`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.convolve(x, np.ones((2, 2)), mode="constant"))(np.eye(2))
    array([[2., 1.],
           [1., 1.]])
    """
    weights = array(weights)
    origins = [
        _turned(one, taps)
        for one, taps in zip(per_axis(origin, weights.ndim, "origin"), weights.shape, strict=True)
    ]
    return correlate(input, unlinked(flip(weights)), output, mode, cval, origins, axes=axes)


# -- Gaussians -------------------------------------------------------------------------------------


def _gaussian(sigma: Any, order: int, radius: int) -> Any:
    """A Gaussian at the integers around 0, which adds up to 1, or a derivative of it."""
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
        The weights end after so many standard deviations,
    radius : int, optional
        or after so many elements.

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


def _one_after_another(x: Any, axes: Axes, output: Any, run: Callable[[Any, int, int], Any]) -> Any:
    """Filters along axes, the results of each in the dtype of the last one."""
    dtype = result_dtype(output, x)
    x = delivered(x, dtype)
    for number, axis in enumerate(axes):
        x = run(x, axis, number)
    return x


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
        All, if nothing is given.

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
    chosen = axes_of(axes, x.ndim)
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

    return _one_after_another(x, tuple(chosen[n] for n in kept), output, run)


# -- means -----------------------------------------------------------------------------------------


@answers("scipy.ndimage:uniform_filter1d")
def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect",
    cval: Any = 0.0, origin: int = 0,
) -> Any:  # fmt: skip
    """The mean of so many neighbours along an axis; the parameters are those of `correlate1d`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.uniform_filter1d(x, 3))(np.array([3.0, 0.0, 6.0]))
    array([2., 3., 4.])
    """
    if size < 1:
        raise RuntimeError("incorrect filter size")
    x = array(input)
    dtype = result_dtype(output, x)
    numbers = in_doubles(x)
    ones = np.ones(size, numbers.dtype)
    axis = axis_of(axis, x.ndim)
    return delivered(_correlated(numbers, ones, (axis,), [mode], cval, [origin]) / size, dtype)


@answers("scipy.ndimage:uniform_filter")
def uniform_filter(
    input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The mean of a box around each element.

    Parameters
    ----------
    input : array
    size, mode, origin : optional
        As for `uniform_filter1d`: for all axes, or one for each.
    output, cval : optional
        As for `correlate1d`.
    axes : sequence of int, optional
        All, if nothing is given.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(ndimage.uniform_filter)(np.arange(9.0).reshape(3, 3))[1, 1]
    np.float64(4.0)
    """
    x = array(input)
    chosen = axes_of(axes, x.ndim)
    count = len(chosen)
    sizes, modes = per_axis(size, count, "size"), per_axis(mode, count, "mode")
    origins = per_axis(origin, count, "origin")
    kept = [number for number in range(count) if sizes[number] > 1]

    def run(x: Any, axis: int, place: int) -> Any:
        n = kept[place]
        return uniform_filter1d(x, int(sizes[n]), axis, None, modes[n], cval, origins[n])

    return _one_after_another(x, tuple(chosen[n] for n in kept), output, run)


# -- derivatives -----------------------------------------------------------------------------------


def _difference(
    input: Any, axis: int, output: Any, mode: Any, cval: Any, across: Sequence[float]
) -> Any:
    """The difference of both neighbours along an axis, weighted along the others."""
    x = array(input)
    axis = axis_of(axis, x.ndim)
    modes = per_axis(mode, x.ndim, "mode")
    result = correlate1d(x, [-1, 0, 1], axis, output, modes[axis], cval, 0)
    for other in range(x.ndim):
        if other != axis:
            result = correlate1d(result, across, other, None, modes[other], cval, 0)
    return result


@answers("scipy.ndimage:sobel")
def sobel(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Sobel's filter: differences along an axis, weighted by 1, 2, 1 along the others.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(ndimage.sobel)(np.arange(9.0).reshape(3, 3))[1]
    array([4., 8., 4.])
    """
    return _difference(input, axis, output, mode, cval, [1, 2, 1])


@answers("scipy.ndimage:prewitt")
def prewitt(
    input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0
) -> Any:
    """Prewitt's filter: differences along an axis, added up along the others.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(ndimage.prewitt)(np.arange(9.0).reshape(3, 3))[1]
    array([3., 6., 3.])
    """
    return _difference(input, axis, output, mode, cval, [1, 1, 1])


@answers("scipy.ndimage:generic_laplace")
def generic_laplace(
    input: Any, derivative2: Callable[..., Any], output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, extra_arguments: Any = (), extra_keywords: Any = None, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The sum of second derivatives along axes.

    ``derivative2(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)`` gives one.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> def second(x, axis, output, mode, cval):
    ...     return ndimage.correlate1d(x, [1, -2, 1], axis, output, mode, cval)
    >>> jit(lambda x: ndimage.generic_laplace(x, second))(np.array([1.0, 4.0, 9.0]))
    array([ 3.,  2., -5.])
    """
    x = array(input)
    chosen = axes_of(axes, x.ndim)
    modes = per_axis(mode, len(chosen), "mode")
    dtype = result_dtype(output, x)
    total = None
    for axis, one in zip(chosen, modes, strict=True):
        part = derivative2(x, axis, dtype, one, cval, *extra_arguments, **(extra_keywords or {}))
        total = part if total is None else total + part
    return delivered(x, dtype) if total is None else total


@answers("scipy.ndimage:laplace")
def laplace(
    input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None
) -> Any:
    """The sum of the second differences along axes.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(ndimage.laplace)(np.array([1.0, 4.0, 9.0]))
    array([ 3.,  2., -5.])
    """

    def second(x: Any, axis: int, output: Any, mode: Any, cval: Any) -> Any:
        return correlate1d(x, [1, -2, 1], axis, output, mode, cval, 0)

    return generic_laplace(input, second, output, mode, cval, axes=axes)


@answers("scipy.ndimage:gaussian_laplace")
def gaussian_laplace(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *,
    axes: Any = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """The sum of the second derivatives of an array that is smoothed by Gaussians.

    The parameters are those of `gaussian_filter`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.gaussian_laplace(x, 1.0))(np.arange(9.0))[4].round(12) + 0.0
    np.float64(0.0)
    """
    return generic_laplace(
        input, _of_gaussian(input, sigma, axes, 2, kwargs), output, mode, cval, axes=axes
    )


def _of_gaussian(
    input: Any, sigma: Any, axes: Any, order: int, kwargs: dict[str, Any]
) -> Callable[..., Any]:
    chosen = axes_of(axes, array(input).ndim)

    def derivative(x: Any, axis: int, output: Any, mode: Any, cval: Any) -> Any:
        orders = [order if i == axis else 0 for i in chosen]
        return gaussian_filter(x, sigma, orders, output, mode, cval, axes=chosen, **kwargs)

    return derivative


@answers("scipy.ndimage:generic_gradient_magnitude")
def generic_gradient_magnitude(
    input: Any, derivative: Callable[..., Any], output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, extra_arguments: Any = (), extra_keywords: Any = None, *, axes: Any = None,
) -> Any:  # fmt: skip
    """The length of the gradient; where it is 0, so is its derivative.

    ``derivative(input, axis, output, mode, cval, *extra_arguments, **extra_keywords)`` gives one of
    the components.

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
    chosen = axes_of(axes, x.ndim)
    modes = per_axis(mode, len(chosen), "mode")
    dtype = result_dtype(output, x)
    parts = [
        derivative(x, axis, dtype, one, cval, *extra_arguments, **(extra_keywords or {}))
        for axis, one in zip(chosen, modes, strict=True)
    ]
    if not parts:
        return delivered(x, dtype)
    squares = np.stack(parts)
    if squares.dtype.kind == "f":
        return np.linalg.norm(squares, axis=0)
    return delivered(np.sqrt(np.sum(squares * squares, axis=0)), dtype)


@answers("scipy.ndimage:gaussian_gradient_magnitude")
def gaussian_gradient_magnitude(
    input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *,
    axes: Any = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """The length of the gradient of an array that is smoothed by Gaussians.

    The parameters are those of `gaussian_filter`; where the gradient is 0, so is its derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> jit(lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0))(np.arange(20.0))[10].round(3)
    np.float64(1.0)
    """
    return generic_gradient_magnitude(
        input, _of_gaussian(input, sigma, axes, 1, kwargs), output, mode, cval, axes=axes
    )
