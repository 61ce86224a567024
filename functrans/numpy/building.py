"""Arrays from parts and iterables: ``r_``, ``c_``, ``mgrid``, ``ogrid``, ``fromiter``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from functrans.ir.on_device import holds_device
from functrans.numpy.arrays import array, common_dtype, operand
from functrans.numpy.arrays import astype as to_dtype
from functrans.numpy.creation import arange, linspace
from functrans.numpy.define import refuse
from functrans.numpy.joining import concatenate
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.indexing import views
from functrans.trace.tracer import Tracer

__all__ = ["c_", "fromiter", "mgrid", "ogrid", "r_"]


def _is_traced(key: Any) -> bool:
    if isinstance(key, tuple):
        return any(map(_is_traced, key))
    if isinstance(key, slice):
        return any(isinstance(x, Tracer) for x in (key.start, key.stop, key.step))
    return holds_tracer(key) or holds_device((key,), {})


class _Indexed:
    """An object of NumPy's that is called by an index, which may be traced."""

    def __init__(self, numpys: Any) -> None:
        self._numpys = numpys
        self.__doc__ = numpys.__doc__

    def __getitem__(self, key: Any) -> Any:
        return self._of_traced(key) if _is_traced(key) else self._numpys[key]

    def _of_traced(self, key: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return repr(self._numpys)


class _Concatenator(_Indexed):
    """``np.r_`` and ``np.c_``, with parts that may be traced."""

    def _of_traced(self, key: Any) -> Any:
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self._numpys.axis, self._numpys.ndmin, self._numpys.trans1d
        if isinstance(parts[0], str):
            numbers = parts.pop(0)
            if numbers in ("r", "c"):
                refuse(f"np.r_[{numbers!r}, ...]", "it makes a np.matrix")
            given = [int(n) for n in numbers.split(",")]
            axis, ndmin, trans1d = given + [axis, ndmin, trans1d][len(given) :]
        placed = [_placed(part, ndmin, trans1d) for part in parts]
        dtype = common_dtype(*(key for _, key in placed))
        return concatenate([to_dtype(array(x), dtype) for x, _ in placed], axis)


def _placed(part: Any, ndmin: int, trans1d: int) -> tuple[Any, Any]:
    """A part with the number of axes of the result, and its contribution to the common dtype."""
    if isinstance(part, slice):
        x = _row(part)
        row = views.reshape(x, (*(1,) * (ndmin - 1), x.shape[0]))
        return (row if trans1d == -1 else views.swapaxes(row, -1, trans1d)), x
    given = operand(part)
    x = array(given)
    missing = max(0, ndmin - x.ndim)
    full = views.reshape(x, (*(1,) * missing, *x.shape))
    if trans1d != -1 and 0 < x.ndim < ndmin:
        first = trans1d + missing + 1 if trans1d < 0 else trans1d
        axes = list(range(ndmin))
        full = views.transpose(full, axes[:first] + axes[missing:] + axes[first:missing])
    return full, given


def _row(part: slice) -> Any:
    """The numbers of a slice; a step of ``5j`` means five evenly spaced numbers."""
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    if isinstance(step, complex):
        return linspace(start, part.stop, int(abs(step)))
    return arange(start, part.stop, step)


class _Grid(_Indexed):
    """``np.mgrid`` and ``np.ogrid``, for known bounds."""

    def _of_traced(self, key: Any) -> Any:
        refuse(
            f"np.{'ogrid' if self._numpys.sparse else 'mgrid'} between traced bounds",
            "write np.meshgrid(np.linspace(a, b, n), ..., indexing='ij')",
        )


r_: Any = _Concatenator(np.r_)
c_: Any = _Concatenator(np.c_)
mgrid: Any = _Grid(np.mgrid)
ogrid: Any = _Grid(np.ogrid)


def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1, *, like: Any = None) -> Any:
    """A vector of the elements of an iterable, some of which may be traced.

    Examples
    --------
    >>> from functrans import grad
    >>> from functrans import numpy as np
    >>> grad(lambda x: np.sum(np.fromiter((x * i for i in range(3)), float)))(2.0)
    np.float64(3.0)
    """
    found: list[Any] = []
    for x in iter:
        if len(found) == count:
            break
        found.append(x)
    if not holds_tracer(found):
        return np.fromiter(found, dtype, count)
    if len(found) < count:
        raise ValueError(f"an iterator of {count} elements is expected, found {len(found)}")
    return to_dtype(array(found), dtype)
