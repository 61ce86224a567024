"""``x.flat``: reading and assigning the elements of an array by flat index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from functrans.trace import protocols
from functrans.trace.assignable import Assignable, become_traced, loses, plain


class Flat:
    """The elements of an array in C order, as `numpy.flatiter`.

    Examples
    --------
    >>> from functrans import grad
    >>> from functrans import numpy as np
    >>> def f(x):
    ...     a = np.outer(x, x)
    ...     a.flat[::3] = x
    ...     return np.sum(a)
    >>> grad(f)(np.array([1.0, 2.0]))
    array([5., 3.])
    """

    def __init__(self, base: Any) -> None:
        self.base = base

    def __getitem__(self, index: Any) -> Any:
        return self._vector()[index]

    def __setitem__(self, index: Any, values: Any) -> None:
        base = self.base
        if type(base) is Assignable:
            if not (loses(values) or loses(index)):
                plain(base).flat[index] = values
                return
            become_traced(base)
        vector = base.flatten()
        vector[index] = values
        base[...] = vector.reshape(base.shape)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._vector())

    def __len__(self) -> int:
        return self.base.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._vector(), dtype)

    def copy(self) -> Any:
        """The elements as a vector."""
        return self.base.flatten()

    def _vector(self) -> Any:
        return plain(self.base).flatten()


protocols.attributes["flat"] = Flat
