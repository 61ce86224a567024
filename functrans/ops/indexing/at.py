"""Functional updates ``x.at[index].set(v)``: new arrays with some elements changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.ir.on_device import OnDevice
from functrans.ops.arrays.promotion import dtype_key
from functrans.ops.arrays.shape import asarray, fitted, holds_tracer
from functrans.ops.arrays.structural import astype
from functrans.ops.elementwise.arithmetic import add, divide, multiply, negative
from functrans.ops.elementwise.choice import maximum, minimum
from functrans.ops.elementwise.power import power
from functrans.ops.indexing.gather import scatter_add, scatter_max, scatter_min, scatter_multiply
from functrans.ops.indexing.index import (
    Plan,
    Scatter,
    has_unique,
    plan_of,
    read,
    setitem,
    split_windows,
    write,
    written_back,
)
from functrans.ops.indexing.positions import index_shape
from functrans.ops.indexing.windows import Window, read_window
from functrans.trace import protocols
from functrans.trace.tracer import Tracer


class At:
    """``x.at``, to be indexed."""

    __slots__ = ("_x",)

    def __init__(self, x: Any) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._x, *split_windows(self._x.shape, index))


class AtIndex:
    """``x.at[index]``: each method gives a new array.

    Where an element is indexed more than once, `add`, `subtract`, `multiply`, `divide`, `min` and
    `max` combine it with every value, as NumPy's ``ufunc.at`` does, and `set` keeps the last value.
    ``unique=True`` promises that none is: the derivatives of `set` are then cheaper, and `multiply`
    and `divide` can be differentiated with respect to the value.
    """

    __slots__ = ("_index", "_whole", "_windows", "_x")

    def __init__(self, x: Any, windows: Sequence[Window], index: Any) -> None:
        self._whole = x
        self._windows = windows
        self._index = index
        for window in windows:
            x = read_window(x, window)
        self._x = x

    def _placed(self, new: Any) -> Any:
        """The whole array with the new elements."""
        return written_back(self._whole, self._windows, lambda x: new)

    def get(self) -> Any:
        """The elements, as a copy."""
        return read(self._x, plan_of(self._x.shape, self._index))

    def set(self, value: Any, *, unique: bool = False) -> Any:
        """The elements replaced."""
        if not unique:
            return self._placed(setitem(self._x, self._index, value))
        plan = plan_of(self._x.shape, self._index)
        fit = self._fitted(astype(asarray(value), self._x.dtype), plan)
        return self._placed(write(self._x, plan, fit, unique=True))

    def add(self, value: Any, *, unique: bool = False) -> Any:
        """``value`` added to the elements."""
        return self._combine(value, add, scatter_add, unique)

    def subtract(self, value: Any, *, unique: bool = False) -> Any:
        """``value`` subtracted from the elements."""
        return self._combine(negative(asarray(value)), add, scatter_add, unique)

    def multiply(self, value: Any, *, unique: bool = False) -> Any:
        """The elements multiplied by ``value``."""
        return self._combine(value, multiply, scatter_multiply, unique)

    def divide(self, value: Any, *, unique: bool = False) -> Any:
        """The elements divided by ``value``."""
        plan = plan_of(self._x.shape, self._index)
        if unique or not plan.arrays or has_unique(plan):
            return self.apply(lambda x: divide(x, value))
        return self._combine(divide(1.0, asarray(value)), multiply, scatter_multiply, unique)

    def min(self, value: Any, *, unique: bool = False) -> Any:
        """The smaller of each element and ``value``."""
        return self._combine(value, minimum, scatter_min, unique)

    def max(self, value: Any, *, unique: bool = False) -> Any:
        """The larger of each element and ``value``."""
        return self._combine(value, maximum, scatter_max, unique)

    def power(self, value: Any, *, unique: bool = False) -> Any:
        """The elements to the power of ``value``; none may be indexed twice."""
        plan = plan_of(self._x.shape, self._index)
        if not (unique or not plan.arrays or has_unique(plan)):
            raise ValueError(
                "x.at[i].power(v) needs to know that i has no index twice: if it has none, write "
                "x.at[i].power(v, unique=True)"
            )
        return self.apply(lambda x: power(x, value))

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """The elements replaced by ``function(elements)``."""
        return self.set(function(self.get()))

    def _combine(
        self, value: Any, operation: Callable[[Any, Any], Any], scatter: Scatter, unique: bool
    ) -> Any:
        x = self._x
        plan = plan_of(x.shape, self._index)
        value = _same_kind(value, x.dtype)
        if index_shape(plan.arrays) == ():
            new = operation(read(x, plan), self._fitted(value, plan))
            return self._placed(write(x, plan, new))
        return self._placed(write(x, plan, self._fitted(value, plan), scatter, unique))

    def _fitted(self, value: Any, plan: Plan) -> Any:
        return fitted(value, plan.result_shape, holds_tracer([self._x, *plan.arrays]))


def _same_kind(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert like ``ufunc.at``, but never a float to an integer; integers wrap around."""
    if not isinstance(value, (bool, int, float, complex)):
        value = asarray(value)
    own = np.dtype(dtype_key(value))
    if not np.can_cast(own, dtype, "same_kind") and not {own.kind, dtype.kind} <= set("iu"):
        raise TypeError(
            f"cannot combine values of dtype {own} into an array of dtype {dtype}: convert one of "
            "them by .astype"
        )
    return astype(value, dtype)


def at(x: Any) -> At:
    """Functional updates of elements: ``x.at`` for tracers, and for plain NumPy arrays.

    Parameters
    ----------
    x : array

    Returns
    -------
    At
        ``at(x)[index]`` has the methods ``set``, ``add``, ``subtract``, ``multiply``, ``divide``,
        ``power``, ``min``, ``max``, ``apply`` (each gives a new array) and ``get``. Where an
        element is indexed more than once, values are combined with it one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> at(np.zeros(3))[[0, 0, 2]].add(1.0)
    array([2., 0., 1.])
    """
    if isinstance(x, OnDevice):
        found: At = x.at  # type: ignore[attr-defined]  # which traces it as a whole
        return found
    return At(x if isinstance(x, Tracer) else np.asarray(x))


protocols.attributes["at"] = At
