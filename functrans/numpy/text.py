"""Arrays as text, and properties of arrays that do not depend on elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from functrans.numpy.arrays import array, known
from functrans.numpy.creation import asarray
from functrans.numpy.define import answers, needed
from functrans.trace.delegation import own
from functrans.trace.tracer import Tracer

__all__ = [
    "array2string", "array_repr", "array_str", "asarray_chkfinite", "isscalar", "min_scalar_type",
    "ndenumerate", "require",
]  # fmt: skip


def _text(of: Callable[..., str], x: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    value = known(x)
    found = of(np.empty(0) if value is None else value, *args, **keywords)
    return repr(x) if value is None else found


@answers(np.array2string)
def array2string(a: Any, *args: Any, **keywords: Any) -> str:
    """The elements as text; a tracer's own text if they are not known."""
    return _text(np.array2string, a, args, keywords)


@answers(np.array_repr)
def array_repr(arr: Any, *args: Any, **keywords: Any) -> str:
    """The array as text, with its type; a tracer's own text if elements are not known."""
    return _text(np.array_repr, arr, args, keywords)


@answers(np.array_str)
def array_str(a: Any, *args: Any, **keywords: Any) -> str:
    """The elements as text; a tracer's own text if they are not known."""
    return _text(np.array_str, a, args, keywords)


@answers(np.min_scalar_type)
def min_scalar_type(a: Any, /) -> np.dtype[Any]:
    """The dtype of an array, or the smallest for one number, which must be known."""
    if a.ndim:
        return a.dtype
    what = "np.min_scalar_type of a number that is not known"
    return np.min_scalar_type(needed(a, what, "its dtype is x.dtype"))


@answers(np.require, views=True)
def require(a: Any, dtype: Any = None, requirements: Any = None) -> Any:
    """As `asarray`: a traced array fulfils all requirements, except to be an ``np.ndarray``."""
    return asarray(a, dtype, "C" if requirements else None)


@answers(np.asarray_chkfinite, views=True)
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    """As `asarray`; NaN and infinities raise where the elements are known."""
    x = asarray(a, dtype, order)
    value = known(x)
    if value is not None and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise ValueError("array must not contain infs or NaNs")
    return x


def isscalar(element: Any) -> bool:
    """Whether a value is a scalar; a traced value without axes is one."""
    return element.ndim == 0 if isinstance(element, Tracer) else own(np.isscalar)(element)


class ndenumerate:
    """The elements of an array, each with its index.

    Examples
    --------
    >>> from functrans import grad
    >>> from functrans import numpy as np
    >>> grad(lambda x: sum(i * value for (i,), value in np.ndenumerate(x)))(np.ones(3))
    array([0., 1., 2.])
    """

    def __init__(self, arr: Any) -> None:
        x = arr if isinstance(arr, Tracer) else array(arr)
        self._indices = np.ndindex(x.shape)
        self._array = x

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], Any]]:
        return self

    def __next__(self) -> tuple[tuple[int, ...], Any]:
        index = next(self._indices)
        return index, self._array[index]
