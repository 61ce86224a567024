"""Recursive (IIR) filters along an axis, as a scan over the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.lax.scanning import scan
from functrans.numpy.arrays import array, astype, axis_of, common_dtype, flat, known
from functrans.numpy.shapes import broadcast_to, moveaxis
from functrans.ops.arrays.shape import concatenate, read_along
from functrans.ops.arrays.structural import reshape, zeros
from functrans.ops.convolution.convolution import convolve
from functrans.ops.convolution.windows import Window
from functrans.ops.indexing.views import unlinked
from functrans.scipy.define import answers
from functrans.trace.source import here

__all__ = ["lfilter", "lfilter_zi", "lfiltic", "sosfilt"]


def _floats(*given: Any) -> list[Any]:
    """Convert arrays to their common floating-point dtype; None remains."""
    arrays = [x if x is None else array(x) for x in given]
    dtype = common_dtype(*(x for x in arrays if x is not None))
    dtype = dtype if dtype.kind in "fc" else np.dtype(np.float64)
    return [x if x is None else astype(x, dtype) for x in arrays]


def _coefficients(b: Any, a: Any) -> tuple[Any, Any]:
    """Numerator and denominator, normalised by ``a[0]`` and padded to equal lengths."""
    b, a = flat(b), flat(a)
    size = max(b.size, a.size)
    first = a[0]
    return _lengthened(b, size) / first, _lengthened(a, size) / first


def _lengthened(x: Any, size: int) -> Any:
    return concatenate([x, zeros((size - x.size,), x.dtype)], axis=0) if x.size < size else x


def _column(x: Any, ndim: int) -> Any:
    """Reshape a vector to broadcast along the first of several axes."""
    return reshape(x, shape=(x.size, *(1,) * (ndim - 1)))


@answers("scipy.signal:lfilter")
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter data along an axis by a rational transfer function, in transposed direct form II.

    Parameters
    ----------
    b, a : array
        The coefficients of the numerator and of the denominator.
    x : array
    axis : int, optional
    zi : array, optional
        The initial state, with ``max(len(a), len(b)) - 1`` elements along the axis.

    Returns
    -------
    array, or pair of arrays
        The result; with ``zi``, also the final state.

    Raises
    ------
    ShapeError
        If ``zi`` has another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import signal
    >>> def last(decay):
    ...     return signal.lfilter([1.0], np.stack([1.0, -decay]), np.ones(3))[-1]
    >>> grad(last)(0.5)            # of 1 + decay + decay**2
    np.float64(2.0)
    """
    b, a, x, zi = _floats(b, a, x, zi)
    axis = axis_of(axis, x.ndim)
    for name, given in (("b", b), ("a", a)):
        if given.size == 0 or given.ndim > 1:
            raise ValueError(
                f"Parameter {name} is not a non-empty 1d array, since {name}.shape={given.shape}!"
            )
    b, a_given = flat(b), flat(a)
    if known(a_given[0]) == 0:
        raise ValueError("a[0] of lfilter, the factor of the result, must not be 0")
    order = max(b.size, a_given.size) - 1
    shape = (*x.shape[:axis], order, *x.shape[axis + 1 :])
    if zi is not None:
        zi = _state(zi, shape, axis)
    if a_given.size == 1:
        return _moving_average(b / a_given[0], x, axis, zi)
    b, a = _coefficients(b, a_given)
    rows = moveaxis(x, axis, 0)
    start = zeros((order, *rows.shape[1:]), x.dtype) if zi is None else moveaxis(zi, axis, 0)
    end, out = scan(_direct_form(b, a), start, rows)
    out = unlinked(moveaxis(out, 0, axis))
    return out if zi is None else (out, unlinked(moveaxis(end, 0, axis)))


def _state(zi: Any, shape: tuple[int, ...], axis: int) -> Any:
    sizes = [n if i == axis else (n, 1) for i, n in enumerate(shape)]
    fits = zi.ndim == len(shape) and all(
        n == of if isinstance(of, int) else n in of for n, of in zip(zi.shape, sizes, strict=True)
    )
    _check_state(zi, shape, fits)
    return broadcast_to(zi, shape)


def _check_state(zi: Any, shape: tuple[int, ...], fits: bool) -> None:
    if not fits:
        raise ShapeError(
            f"the state zi of a filter must have the shape {shape}{here()}, and has {zi.shape}"
        )


def _direct_form(b: Any, a: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    def step(state: Any, x: Any) -> tuple[Any, Any]:
        y = b[0] * x + state[0]
        moved = concatenate([state[1:], zeros((1, *state.shape[1:]), state.dtype)], axis=0)
        ahead, back = _column(b[1:], state.ndim), _column(a[1:], state.ndim)
        return moved + ahead * x - back * y, y

    return step


def _moving_average(b: Any, x: Any, axis: int, zi: Any) -> Any:
    """The filter without a denominator (FIR), as a convolution."""
    labels, own = tuple(range(x.ndim)), (axis,)
    size, taps = x.shape[axis], b.size
    places = size if zi is None else size + taps - 1
    window = Window(places, taps, dilation=-1)
    out = convolve(x, b, (labels, own, labels), ((axis, window),))
    if zi is None:
        return out
    before = concatenate([zi, zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)],
                         axis=axis)  # fmt: skip
    out = out + before
    return read_along(out, axis, 0, size), read_along(out, axis, size, taps - 1)


@answers("scipy.signal:lfilter_zi")
def lfilter_zi(b: Any, a: Any) -> Any:
    """The initial state of `lfilter` for which the step response is constant.

    Parameters
    ----------
    b, a : array
        The coefficients of the numerator and of the denominator.

    Returns
    -------
    array
        Of ``max(len(a), len(b)) - 1`` elements.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(signal.lfilter_zi)(np.array([1.0]), np.array([1.0, -0.5]))
    array([1.])
    """
    b, a = _coefficients(*_floats(b, a))
    order = a.size - 1
    # the state after a step is (state[1:], 0) - a[1:] * state[0] + ...
    rest = np.eye(order, dtype=a.dtype) - np.eye(order, k=1, dtype=a.dtype)
    first = np.eye(1, order, dtype=a.dtype)
    matrix = rest + _column(a[1:], 2) * first
    return np.linalg.solve(matrix, b[1:] - a[1:] * b[0])


@answers("scipy.signal:lfiltic")
def lfiltic(b: Any, a: Any, y: Any, x: Any = None) -> Any:
    """The state of `lfilter` after past outputs ``y`` and inputs ``x``, most recent first.

    Parameters
    ----------
    b, a : array
        The coefficients of the numerator and of the denominator.
    y, x : array
        Missing values are zero.

    Returns
    -------
    array
        Of ``max(len(a), len(b)) - 1`` elements.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> jit(lambda y: signal.lfiltic([1.0], [1.0, -0.5], y))(np.array([4.0]))
    array([2.])
    """
    b, a, y, x = _floats(b, a, y, x)
    x = zeros((0,), y.dtype) if x is None else x
    b, a = _coefficients(b, a)
    order = a.size - 1
    past = [_lengthened(flat(z)[:order], order) for z in (x, y)]

    def remembered(c: Any, z: Any) -> Any:
        # state[m] has c[m + 1 + k] * z[k]
        window = Window(order, order, offset=1)
        return convolve(c, z, ((0,), (0,), (0,)), ((0, window),))

    return remembered(b, past[0]) - remembered(a, past[1])


# -- second-order sections -------------------------------------------------------------------------


def _sections(sos: Any) -> Any:
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if known(np.all(sos[:, 3] == 1)) == np.False_:
        raise ValueError("sos[:, 3] should be all ones")
    return sos


@answers("scipy.signal:sosfilt")
def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter data along an axis by a cascade of second-order sections.

    Parameters
    ----------
    sos : array
        A row of six coefficients for each section: three of the numerator, and three of the
        denominator, the first of which is 1.
    x : array
    axis : int, optional
    zi : array, optional
        The initial state: for each section, two elements along the axis.

    Returns
    -------
    array, or pair of arrays
        The result; and with ``zi`` the state in the end.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import signal
    >>> sos = np.array([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]])
    >>> jit(signal.sosfilt)(sos, np.array([4.0, 0.0, 0.0]))
    array([4., 2., 1.])
    """
    sos, x, zi = _floats(sos, x, zi)
    sos = _sections(sos)
    axis = axis_of(axis, x.ndim)
    count = sos.shape[0]
    shape = (count, *x.shape[:axis], 2, *x.shape[axis + 1 :])
    if zi is not None:
        _check_state(zi, shape, zi.shape == shape)
    rows = moveaxis(x, axis, 0)
    start = zeros((count, 2, *rows.shape[1:]), x.dtype) if zi is None else moveaxis(zi, axis + 1, 1)
    steps = [_direct_form(sos[k, :3], sos[k, 3:]) for k in range(count)]

    def cascade(states: Any, x: Any) -> tuple[Any, Any]:
        after = []
        for k, step in enumerate(steps):
            state, x = step(states[k], x)
            after.append(state)
        return np.stack(after), x

    end, out = scan(cascade, start, rows)
    out = unlinked(moveaxis(out, 0, axis))
    return out if zi is None else (out, unlinked(moveaxis(end, 1, axis + 1)))
