"""The chirp z-transform, and chirps."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functrans.errors import UnsupportedNumPyError
from functrans.lazily import lazy
from functrans.numpy import fft
from functrans.numpy.arrays import array, axis_of, inexact, known
from functrans.numpy.shapes import moveaxis
from functrans.ops.arrays.shape import holds_tracer, read_along
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.scipy.define import answers
from functrans.trace.source import here

__all__ = ["chirp", "czt"]

next_fast_len = lazy("scipy.fft:next_fast_len")
_METHODS = {
    name: names[0]
    for names in (
        ("linear", "lin", "li"),
        ("quadratic", "quad", "q"),
        ("logarithmic", "log", "lo"),
        ("hyperbolic", "hyp"),
    )
    for name in names
}


@answers("scipy.signal:chirp")
def chirp(
    t: Any, f0: Any, t1: Any, f1: Any, method: str = "linear", phi: Any = 0,
    vertex_zero: bool = True, *, complex: bool = False,
) -> Any:  # fmt: skip
    """A chirp (swept tone) with frequency ``f0`` at time 0 and ``f1`` at time ``t1``.

    Parameters
    ----------
    t : array
    f0, t1, f1, phi : float
    method : {"linear", "quadratic", "logarithmic", "hyperbolic"}, optional
    vertex_zero, complex : bool, optional
        As SciPy's.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import signal
    >>> grad(lambda f: signal.chirp(0.25, f, 1.0, f))(1.0).round(6)
    np.float64(-1.570796)
    """
    if method not in _METHODS:
        raise ValueError(
            "method must be 'linear', 'quadratic', 'logarithmic', or 'hyperbolic', but a value of "
            f"{method!r} was given."
        )
    t, f0, t1, f1 = (x if x.ndim else inexact(x) for x in map(array, (t, f0, t1, f1)))
    for name, x in (("f0", f0), ("t1", t1), ("f1", f1)):
        if x.ndim:
            raise TypeError(f"{name} of chirp must be a number, and has the shape {x.shape}")
    ends = known(f0), known(f1)
    if _METHODS[method] in ("logarithmic", "hyperbolic") and None not in ends:
        sign = 1 if _METHODS[method] == "hyperbolic" else ends[0] * ends[1]
        if not all(ends) or sign < 0:
            raise ValueError(
                f"f0 and f1 of a {_METHODS[method]} chirp must be nonzero and have the same sign, "
                f"and f0={ends[0]}, f1={ends[1]}"
            )
    turns = _TURNS[_METHODS[method]](t, f0, t1, f1, vertex_zero)
    phase = 2 * np.pi * turns + np.deg2rad(phi)
    return np.exp(1j * phase) if complex else np.cos(phase)


def _quadratic(t: Any, f0: Any, t1: Any, f1: Any, vertex_zero: bool) -> Any:
    bend = (f1 - f0) / t1**2
    if vertex_zero:
        return f0 * t + bend * t**3 / 3
    return f1 * t + bend * ((t1 - t) ** 3 - t1**3) / 3


def _logarithmic(t: Any, f0: Any, t1: Any, f1: Any, vertex_zero: bool) -> Any:
    # the integral of f0 (f1 / f0)**(t / t1)
    constant = equal(f0, f1)
    rate = np.log(f1 / f0)
    safe = select(constant, 1.0, rate)
    growth = rate * t / t1
    near = f0 * t * (1 + growth / 2 + growth * growth / 6)  # series for f0 == f1
    return select(constant, near, f0 * t1 * np.expm1(safe * t / t1) / safe)


def _hyperbolic(t: Any, f0: Any, t1: Any, f1: Any, vertex_zero: bool) -> Any:
    # the integral of f0 f1 t1 / ((f0 - f1) t + f1 t1)
    constant = equal(f0, f1)
    slope = (f0 - f1) / (f1 * t1)
    safe = select(constant, 1.0, slope)
    near = f0 * t * (1 - slope * t / 2 + (slope * t) ** 2 / 3)
    change = safe * t
    small = change > -0.5  # log1p, because rounding 1 + x loses digits
    logarithm = select(
        small, np.log1p(select(small, change, 0.0)), np.log(np.abs(1 + select(small, 0.0, change)))
    )
    return select(constant, near, f0 * logarithm / safe)


_TURNS = {
    "linear": lambda t, f0, t1, f1, vertex_zero: f0 * t + 0.5 * ((f1 - f0) / t1) * t * t,
    "quadratic": _quadratic,
    "logarithmic": _logarithmic,
    "hyperbolic": _hyperbolic,
}


@answers("scipy.signal:czt")
def czt(x: Any, m: Any = None, w: Any = None, a: Any = 1 + 0j, *, axis: int = -1) -> Any:
    """The chirp z-transform: the z-transform at the points ``a * w**-k``.

    Bluestein's algorithm computes it by a convolution.

    Parameters
    ----------
    x : array
    m : int, optional
        The number of points; by default that of ``x``.
    w, a : complex, optional
        The ratio of consecutive points, and the first point; they must not be traced.
    axis : int, optional

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda x: np.abs(signal.czt(x, 2)))(np.array([3.0, 1.0])).round(6)
    array([4., 2.])
    """
    if holds_tracer((m, w, a)):
        raise UnsupportedNumPyError(
            f"scipy.signal.czt with traced points is not supported{here()}: "
            "give plain numbers as m, w and a, or write the sums"
        )
    x = array(x)
    axis = axis_of(axis, x.ndim)
    rows = moveaxis(x, axis, -1)
    n = rows.shape[-1]
    m = n if m is None else operator.index(m)
    if n < 1 or m < 1:
        raise ValueError(f"Invalid number of CZT points ({n} given, {m} asked for).")
    k = np.arange(max(m, n))
    if w is None:
        chirps = np.exp(-1j * np.pi * (k**2 % (2 * m)) / m)
    else:
        chirps = w ** (k**2 / 2.0)
    points = next_fast_len(n + m - 1)
    kernel = np.fft.fft(1 / np.hstack((chirps[n - 1 : 0 : -1], chirps[:m])), points)
    spread = fft.fft(rows * ((1.0 * a) ** -k[:n] * chirps[:n]), points)
    met = read_along(fft.ifft(spread * kernel), rows.ndim - 1, n - 1, m)
    return moveaxis(met * chirps[:m], -1, axis)
