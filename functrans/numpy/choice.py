"""Selection of values: where, select, clip, replacing NaN and infinities, comparing arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.types import broadcast_shape, is_complex, is_inexact
from functrans.numpy.arrays import (
    INDEX,
    array,
    astype,
    check_castable,
    common_dtype,
    duplicate,
    flat,
    known,
    operand,
)
from functrans.numpy.define import answers, sizing
from functrans.numpy.inplace import check_assignable
from functrans.numpy.reductions import all, mask, truth
from functrans.numpy.sized import nonzero_places
from functrans.ops.arrays.shape import stack
from functrans.ops.elementwise import complex_numbers
from functrans.ops.elementwise.choice import clip as clip_p
from functrans.ops.elementwise.choice import maximum, minimum
from functrans.ops.elementwise.choice import select as select_p
from functrans.ops.elementwise.compare import equal, less_equal
from functrans.ops.elementwise.complex_numbers import complex_p
from functrans.ops.elementwise.logic import isfinite, isinf, isnan, signbit
from functrans.trace import protocols
from functrans.trace.views import assign

__all__ = [
    "allclose", "argwhere", "array_equal", "array_equiv", "choose", "clip", "flatnonzero",
    "isclose", "nan_to_num", "nonzero", "select", "where",
]  # fmt: skip


@answers(np.where, beyond=("size", "fill_value"))
def where(
    condition: Any, x: Any = None, y: Any = None, /, *, size: Any = None, fill_value: Any = None
) -> Any:
    """Select the elements of ``x`` where a condition holds, and those of ``y`` elsewhere.

    Elements that are not selected contribute exactly 0 to the derivative, even where it is
    infinite. With the condition alone, this is `nonzero`.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    return select_p(truth(condition), operand(x), operand(y))


# -- positions -------------------------------------------------------------------------------------


def _known_truth(x: Any, name: str) -> Any:
    return sizing(
        array(x),
        f"how many elements are not 0 is not known, so np.{name} has no shape",
        "Go on with the whole array: np.where(condition, x, y), or x.sum(where=condition); or "
        f"say how many there may be: functrans.numpy.{name}(x, size=n).",
    )


@answers(np.nonzero, beyond=("size", "fill_value"))
def nonzero(a: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The indices of the nonzero elements, which must be known unless ``size`` is given.

    Parameters
    ----------
    a : array
    size : int, optional
        The number of positions to return: excess ones are dropped, and missing ones filled.
    fill_value : int or tuple of int, optional
        The position to fill in, one for all axes or one for each; 0 by default.

    Examples
    --------
    >>> import numpy as np
    >>> nonzero(np.array([0, 7, 0, 9]), size=3, fill_value=-1)
    (array([ 1,  3, -1]),)
    """
    if size is None:
        return np.nonzero(_known_truth(a, "nonzero"))
    return nonzero_places(array(a), size, fill_value)


@answers(np.flatnonzero, beyond=("size", "fill_value"))
def flatnonzero(a: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The flat indices of the nonzero elements; see `nonzero`."""
    if size is None:
        return np.flatnonzero(_known_truth(a, "flatnonzero"))
    return nonzero_places(flat(array(a)), size, fill_value)[0]


@answers(np.argwhere, beyond=("size", "fill_value"))
def argwhere(a: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The indices of the nonzero elements, one row for each; see `nonzero`."""
    if size is None:
        return np.argwhere(_known_truth(a, "argwhere"))
    return stack(nonzero_places(array(a), size, fill_value), axis=1)


# -- one of several --------------------------------------------------------------------------------


@answers(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """For each element, the choice of the first condition that holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    choices = [operand(choice) for choice in choicelist]
    default = operand(default)
    dtype = common_dtype(*choices, default)
    for choice in choices:
        check_castable(array(choice), dtype, "same_kind")  # (-1 is no uint8)
    result = astype(array(default), dtype)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        result = select_p(mask(condition, "condlist"), astype(array(choice), dtype), result)
    return result


@answers(np.choose)
def choose(a: Any, choices: Any, *, mode: str = "raise") -> Any:
    """For each element, the choice with the given index."""
    number, parts = array(a), [operand(choice) for choice in choices]
    check_castable(number, INDEX, "safe")
    if mode == "wrap":
        number = number % len(parts)
    elif mode == "clip":
        number = clip(number, 0, len(parts) - 1)
    elif mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    elif known(number) is not None and not np.isin(known(number), np.arange(len(parts))).all():
        raise ValueError("invalid entry in choice array")
    result = astype(array(parts[0]), common_dtype(*parts))
    for i, part in enumerate(parts[1:], 1):
        result = select_p(equal(number, i), part, result)
    return result


# -- within bounds ---------------------------------------------------------------------------------

_NOT_GIVEN = object()


@answers(np.clip)
def clip(
    a: Any, a_min: Any = _NOT_GIVEN, a_max: Any = _NOT_GIVEN, *, min: Any = _NOT_GIVEN,
    max: Any = _NOT_GIVEN,
) -> Any:  # fmt: skip
    """Limit elements to an interval; at a bound, the derivative is shared equally."""
    bounds = (b if a is _NOT_GIVEN else a for a, b in ((a_min, min), (a_max, max)))
    low, high = (None if bound is _NOT_GIVEN else bound for bound in bounds)
    x = array(a)
    if x.dtype.kind in "iu":
        # a Python number outside the dtype's range is no bound
        limits = np.iinfo(x.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if low is None:
        return array(x) if high is None else minimum(x, operand(high))
    if high is None:
        return maximum(x, operand(low))
    return clip_p(x, operand(low), operand(high))


protocols.ufuncs["clip"] = clip  # the method of a plain array dispatches in this way


@answers(np.nan_to_num, views=True)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Replace NaN and infinities by finite numbers."""
    if not copy and hasattr(x, "dtype") and x.ndim and is_inexact(x.dtype):
        check_assignable(x, "np.nan_to_num(..., copy=False)")
        assign(x, nan_to_num(x, True, nan, posinf, neginf), "np.nan_to_num(..., copy=False)")
        return x
    x = array(x)
    if is_complex(x.dtype):
        parts = (complex_numbers.real(x), complex_numbers.imag(x))
        return complex_p(*(nan_to_num(each, True, nan, posinf, neginf) for each in parts))
    if x.dtype.kind != "f":
        return duplicate(x) if copy else x
    limits = np.finfo(x.dtype)
    posinf = limits.max if posinf is None else posinf
    neginf = limits.min if neginf is None else neginf
    infinite = isinf(x)
    kept = select_p(isnan(x), operand(nan), x)
    kept = select_p(infinite & ~signbit(x), operand(posinf), kept)
    return astype(select_p(infinite & signbit(x), operand(neginf), kept), x.dtype)


# -- comparing -------------------------------------------------------------------------------------


@answers(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether elements of two arrays are equal within tolerances."""
    x, y = operand(a), operand(b)
    y = y * 1.0 if isinstance(y, (bool, int, float, complex)) else astype(y, common_dtype(y, 1.0))
    near = less_equal(abs(x - y), atol + rtol * abs(y)) & isfinite(y)
    near = near | equal(x, y)
    return near | (isnan(x) & isnan(y)) if equal_nan else near


@answers(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all elements of two arrays are equal within tolerances."""
    return all(isclose(a, b, rtol, atol, equal_nan))


@answers(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have the same shape and elements."""
    x, y = array(a1), array(a2)
    if x.shape != y.shape:
        return False
    same = equal(x, y)
    return all(same | (isnan(x) & isnan(y)) if equal_nan else same)


@answers(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether two arrays are equal after broadcasting."""
    x, y = array(a1), array(a2)
    try:
        broadcast_shape(x.shape, y.shape)
    except ValueError:
        return False
    return all(equal(x, y))
