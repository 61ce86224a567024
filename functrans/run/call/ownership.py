"""Aliasing of results: no result shares memory with an input or with another result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.ir.on_device import beside
from functrans.ops.indexing.views import copy
from functrans.trace.tracer import Tracer


def own(results: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Results that the caller may write to: none shares memory with an input or another result.

    Zero-dimensional results are NumPy scalars. If an input is on a device, so are all results.
    """
    taken: set[int] | None = None  # found for results with memory, which numbers have not
    traced: set[int] = set()
    owned: list[Any] = []
    for x in results:
        if isinstance(x, np.ndarray):
            if x.ndim == 0:
                x = x[()]
            else:
                if taken is None:
                    taken = {id(_root(y)) for y in inputs if isinstance(y, np.ndarray)}
                root = id(_root(x))
                if root in taken or not x.flags.writeable:
                    x = x.copy()
                taken.add(root)
        elif isinstance(x, Tracer):
            traced = traced or {id(y) for y in inputs}
            if id(x) in traced:
                x = copy(x)
            traced.add(id(x))
        owned.append(x)
    return beside(owned, inputs)


def _root(array: np.ndarray[Any, Any]) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
