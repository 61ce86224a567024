"""Elementwise functions that are not ufuncs, and functions of dtypes.

The ufuncs of the namespace are NumPy's own: applied to traced values they record operations.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functrans.ir.on_device import OnDevice
from functrans.ir.types import is_complex, is_inexact
from functrans.lazily import lazy
from functrans.numpy.arrays import array, astype, axis_of, common_dtype, inexact, operand
from functrans.numpy.define import answers
from functrans.ops.arrays.promotion import dtype_key
from functrans.ops.arrays.promotion import result_type as promoted
from functrans.ops.arrays.shape import concatenate, read_along
from functrans.ops.elementwise import complex_numbers
from functrans.ops.elementwise.arithmetic import remainder
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import equal, not_equal
from functrans.ops.elementwise.complex_numbers import complex_p
from functrans.ops.elementwise.logic import isinf, signbit
from functrans.ops.elementwise.rounding import rint, trunc
from functrans.ops.elementwise.sinc import sinc_derivative
from functrans.ops.elementwise.stop import stop_gradient
from functrans.ops.elementwise.trigonometric import arctan2
from functrans.ops.indexing import views
from functrans.ops.reductions.cumulative import cumsum
from functrans.ops.reductions.reduce import reduce_and
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = [
    "angle", "around", "can_cast", "common_type", "fix", "i0", "imag", "iscomplex",
    "iscomplexobj", "isneginf", "isposinf", "isreal", "isrealobj", "kaiser", "real",
    "real_if_close", "result_type", "round", "sinc", "unwrap",
]  # fmt: skip

_bessel_i0 = lazy("functrans.ops.elementwise.special.bessel:i0")


@answers(np.round, np.around)
def round(a: Any, decimals: Any = 0) -> Any:
    """Round to a number of decimals, half to even; the derivative is 0."""
    x = array(a)
    decimals = operator.index(decimals)
    if is_complex(x.dtype):
        parts = (round(part(x), decimals) for part in (complex_numbers.real, complex_numbers.imag))
        return complex_p(*parts)
    if x.dtype.kind == "b" and decimals:
        raise TypeError(
            f"np.round(x, {decimals}) of truth values{here()}: NumPy has none, "
            "convert them by .astype(float)"
        )
    if x.dtype.kind in "iu":
        return x if decimals >= 0 else astype(round(astype(x, np.float64), decimals), x.dtype)
    if decimals == 0:
        return rint(x)
    scale = x.dtype.type(10.0 ** abs(decimals))
    return rint(x * scale) / scale if decimals > 0 else rint(x / scale) * scale


around = round


@answers(np.fix)
def fix(x: Any) -> Any:
    """Round towards 0; the derivative is 0."""
    return trunc(array(x))


@answers(np.sinc)
def sinc(x: Any) -> Any:
    """The normalised sinc function, ``sin(pi x) / (pi x)``, with its limit 1 at 0."""
    x = array(x)
    return sinc_derivative(np.pi * (x if is_inexact(x.dtype) else inexact(x)), n=0)


@answers(np.i0)
def i0(x: Any) -> Any:
    """The modified Bessel function of order 0, as `scipy.special.i0`."""
    number = inexact(x)
    return astype(_bessel_i0(number), number.dtype)


@answers(np.kaiser)
def kaiser(M: int, beta: Any) -> Any:
    """The Kaiser window of M points, whose shape parameter may be traced."""
    if M < 2:
        return np.ones(M if M > 0 else 0)
    place = (np.arange(M) - 0.5 * (M - 1)) / (0.5 * (M - 1))
    return i0(beta * np.sqrt(1 - place * place)) / i0(beta)


@answers(np.unwrap)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """Unwrap angles: add multiples of the period so that consecutive differences are smallest."""
    x = array(p)
    axis = axis_of(axis, x.ndim)
    start, size = min(1, x.shape[axis]), max(x.shape[axis] - 1, 0)
    later, earlier = read_along(x, axis, start, size), read_along(x, axis, 0, size)
    step = stop_gradient(later ^ earlier if x.dtype.kind == "b" else later - earlier)
    dtype = common_dtype(step, operand(period))
    half, odd = divmod(period, 2) if dtype.kind in "iu" else (period / 2, False)
    short = remainder(step + half, period) - half
    if not odd:
        # a difference of exactly half a period keeps its sign
        short = select(equal(short, -half) & (step > 0), half, short)
    added = select(absolute(step) < (period / 2 if discont is None else discont), 0, short - step)
    moved = later + cumsum(added, axis=axis, reverse=False)
    return concatenate([astype(read_along(x, axis, 0, start), dtype), moved], axis=axis)


@answers(np.isposinf)
def isposinf(x: Any) -> Any:
    """Whether elements are positive infinity."""
    x = array(x)
    return isinf(x) & ~signbit(x)


@answers(np.isneginf)
def isneginf(x: Any) -> Any:
    """Whether elements are negative infinity."""
    x = array(x)
    return isinf(x) & signbit(x)


# -- complex numbers -------------------------------------------------------------------------------


@answers(np.real, views=True)
def real(val: Any) -> Any:
    """The real parts; a real array itself."""
    return views.real(array(val))


@answers(np.imag, views=True)
def imag(val: Any) -> Any:
    """The imaginary parts; zeros for a real array."""
    return views.imag(array(val))


def conjugate(x: Any) -> Any:
    """The complex conjugates; a real array itself."""
    return complex_numbers.conj(x)


@answers(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """The arguments of complex numbers; for real ones 0, or pi if negative."""
    x = array(z)
    if is_complex(x.dtype):
        angles = arctan2(complex_numbers.imag(x), complex_numbers.real(x))
    else:
        angles = arctan2(0, x)
    if not deg:
        return angles
    # NumPy multiplies arrays in place
    turned = angles * (180 / np.pi)
    return astype(turned, angles.dtype) if angles.ndim else turned


@answers(np.real_if_close, views=True)
def real_if_close(a: Any, tol: Any = 100) -> Any:
    """The real parts if all imaginary parts are known to be nearly 0."""
    x = array(a)
    if not is_complex(x.dtype):
        return x
    if tol > 1:
        tol = np.finfo(x.dtype).eps * tol
    small = absolute(complex_numbers.imag(x)) < tol
    return views.real(x) if reduce_and(small, axes=tuple(range(x.ndim))) else x


@answers(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """Whether the imaginary parts are not 0."""
    return not_equal(complex_numbers.imag(array(x)), 0)


@answers(np.isreal)
def isreal(x: Any) -> Any:
    """Whether the imaginary parts are 0."""
    return equal(complex_numbers.imag(array(x)), 0)


@answers(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return is_complex(array(x).dtype)


@answers(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not is_complex(array(x).dtype)


# -- dtypes ----------------------------------------------------------------------------------------


@answers(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> Any:
    """The result of type promotion of arrays and dtypes."""
    return promoted(
        tuple(
            dtype_key(operand(x))
            if isinstance(x, (Tracer, np.ndarray, np.generic, OnDevice, bool, int, float, complex))
            else np.dtype(x)
            for x in arrays_and_dtypes
        )
    )


@answers(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a dtype, or that of an array, can be cast to another."""
    source, target = (x.dtype if isinstance(x, Tracer) else x for x in (from_, to))
    return np.can_cast(source, target, casting)


@answers(np.common_type)
def common_type(*arrays: Any) -> Any:
    """The common inexact type of arrays."""
    return np.common_type(*(np.empty(0, array(x).dtype) for x in arrays))
