"""Simpson's rule for integrals of samples.

For unequal spacing it follows Cartwright, J. Math. Sci. Math. Educ. 12 (2017). The other rules run
from SciPy's source.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import array, axis_of, inexact
from functrans.scipy.define import quotient
from functrans.scipy.inside import within_traces


def _along_last(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any]:
    """The samples, moved to the last axis, and the distances between them."""
    y = array(y)
    axis = axis_of(axis, y.ndim)
    samples = np.moveaxis(y, axis, -1)
    if x is None:
        dx = array(dx)
        return samples, dx if dx.ndim < y.ndim or not dx.ndim else np.moveaxis(dx, axis, -1)
    x = array(x)
    if x.ndim != 1 and x.ndim != y.ndim:
        raise ValueError("If given, shape of `x` must be 1-D or the same as `y`.")
    places = x if x.ndim == 1 else np.moveaxis(x, axis, -1)
    if places.shape[-1] != samples.shape[-1]:
        raise ValueError("If given, length of `x` along axis must be the same as `y`.")
    return samples, np.diff(places, axis=-1)


def _parabolas(y: Any, steps: Any) -> Any:
    """The sum of the integrals of the parabolas through samples 0, 1, 2, samples 2, 3, 4, ..."""
    count = y.shape[-1]
    left, middle, right = (y[..., i : count - 2 + i : 2] for i in range(3))
    if not steps.ndim or steps.shape[-1] == 1:
        return np.sum(left + 4.0 * middle + right, axis=-1) * (steps / 3.0)
    h0, h1 = steps[..., 0 : count - 1 : 2], steps[..., 1 : count - 1 : 2]
    both, product, ratio = h0 + h1, h0 * h1, quotient(h0, h1, 0.0)
    weighed = (
        left * (2.0 - quotient(np.ones_like(ratio), ratio, 0.0))
        + middle * both * quotient(both, product, 0.0)
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
    samples, steps = _along_last(inexact(y), x, dx, axis)
    count = samples.shape[-1]
    if count % 2:
        return _parabolas(samples, steps)
    if count == 2:
        whole = steps if x is None else steps[..., -1]
        return 0.5 * whole * (samples[..., 0] + samples[..., 1])
    first = _parabolas(samples[..., :-1], steps if x is None else steps[..., :-1])
    h0, h1 = (steps, steps) if x is None else (steps[..., -2], steps[..., -1])
    alpha = quotient(2 * h1**2 + 3 * h0 * h1, 6 * (h1 + h0), 0.0)
    beta = quotient(h1**2 + 3.0 * h0 * h1, 6 * h0, 0.0)
    eta = quotient(h1**3, 6 * h0 * (h0 + h1), 0.0)
    return first + alpha * samples[..., -1] + beta * samples[..., -2] - eta * samples[..., -3]
