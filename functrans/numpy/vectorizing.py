"""`numpy.vectorize` on traced values: by `vmap`, or by repeated calls if Python branches."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.mapping import vmap
from functrans.errors import TracerBoolError, TracerConversionError, TracerIndexError
from functrans.ir.on_device import callers, holds_device
from functrans.ir.primitive import current
from functrans.ir.types import Shape
from functrans.numpy.arrays import array, astype, duplicate
from functrans.numpy.define import refuse
from functrans.numpy.joining import stack
from functrans.numpy.tables import NUMPYS_CALL
from functrans.ops.arrays.shape import any_traced, holds_tracer
from functrans.ops.arrays.structural import broadcast_to, reshape
from functrans.ops.indexing.views import as_array
from functrans.trace.delegation import own
from functrans.tree import core as tree

__all__ = ["vectorize"]


def call_vectorized(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of calling an object that `numpy.vectorize` returned."""
    if self.pyfunc is np._NoValue:  # a decorator with arguments, which is given its function
        return own(NUMPYS_CALL)(self, *args, **kwargs)
    if not any_traced(args, kwargs):
        if holds_device(args, kwargs):
            return callers[-1](self, args, kwargs, "np.vectorize")
        if current.get() is None:
            return own(NUMPYS_CALL)(self, *args, **kwargs)
        result, reads_traced = _numpys(self, args, kwargs)
        if not reads_traced:
            return result
    places = [i for i in range(len(args)) if i not in self.excluded]
    names = [name for name in kwargs if name not in self.excluded]
    operands = [array(args[i]) for i in places] + [array(kwargs[name]) for name in names]

    def function(*values: Any) -> Any:
        given = list(args)
        for i, value in zip(places, values, strict=False):
            given[i] = value
        named = {**kwargs, **dict(zip(names, values[len(places) :], strict=True))}
        return self.pyfunc(*given, **named)

    return _mapped(function, operands, _core_ndims(self.signature, len(operands)), self.otypes)


def _numpys(self: Any, args: Any, kwargs: Any) -> tuple[Any, bool]:
    """NumPy's result for plain arguments, unless the function reads traced values (the flag)."""
    reads_traced = False

    def plain(*args: Any, **kwargs: Any) -> Any:
        nonlocal reads_traced
        result = self.pyfunc(*args, **kwargs)
        if not holds_tracer(result):
            return result
        reads_traced = True
        return tree.map(lambda x: np.zeros(np.shape(x)), result)

    numpys = np.vectorize(plain, self.otypes, None, self.excluded, self.cache, self.signature)
    return own(NUMPYS_CALL)(numpys, *args, **kwargs), reads_traced


class vectorize(np.vectorize):
    """A function of numbers, applied to all elements of arrays that are broadcast.

    It takes the arguments of `numpy.vectorize`. For traced arrays the function is called once,
    under `vmap`; if it branches in Python on known values, it is called for each element.

    Parameters
    ----------
    pyfunc : callable
    otypes : str or list of dtypes, optional
        The dtypes of the results.
    doc : str, optional
    excluded : set of str and int, optional
        Arguments that are passed on unchanged.
    cache : bool, optional
        Ignored; NumPy has it.
    signature : str, optional
        The axes of the function's arguments and results, such as ``"(n),(n)->()"``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> relu = vectorize(lambda x: x if x > 0 else 0.0)
    >>> grad(lambda x: np.sum(relu(x)))(np.array([-1.0, 2.0]))
    array([0., 1.])
    """

    __call__ = call_vectorized


def _core_ndims(signature: str | None, count: int) -> list[int]:
    """The number of axes of each operand that the function itself receives."""
    if signature is None:
        return [0] * count
    inputs = re.findall(r"\(([^()]*)\)", signature.split("->")[0])
    if len(inputs) != count:
        raise TypeError(f"{len(inputs)} arguments are expected, found {count}: {signature}")
    return [len([name for name in core.split(",") if name.strip()]) for core in inputs]


def _mapped(
    function: Callable[..., Any], operands: list[Any], cores: list[int], otypes: str | None
) -> Any:
    loop = np.broadcast_shapes(
        *(x.shape[: x.ndim - core] for x, core in zip(operands, cores, strict=True))
    )
    size = int(np.prod(loop, dtype=np.int64))
    if size == 0:
        refuse("np.vectorize of no elements", "there are none to call the function with")
    rows = [_rows(x, core, loop, size) for x, core in zip(operands, cores, strict=True)]
    try:
        results = vmap(function)(*rows)
    except (TracerBoolError, TracerIndexError, TracerConversionError):
        results = _one_by_one(function, rows, size)
    several = isinstance(results, tuple)
    parts = results if several else (results,)
    outs = [as_array(duplicate(reshape(x, shape=(*loop, *x.shape[1:])))) for x in parts]
    if otypes is not None:
        outs = [astype(x, dtype) for x, dtype in zip(outs, otypes, strict=True)]
    return tuple(outs) if several else outs[0]


def _rows(x: Any, core: int, loop: Shape, size: int) -> Any:
    own = x.shape[x.ndim - core :]
    return reshape(broadcast_to(x, shape=(*loop, *own)), shape=(size, *own))


def _one_by_one(function: Callable[..., Any], rows: list[Any], size: int) -> Any:
    """The function applied element by element; the first result determines the dtypes."""
    results = [function(*(x[i] for x in rows)) for i in range(size)]
    if not isinstance(results[0], tuple):
        return _stacked(results)
    return tuple(_stacked(list(parts)) for parts in zip(*results, strict=True))


def _stacked(parts: list[Any]) -> Any:
    dtype = array(parts[0]).dtype
    return stack([astype(array(x), dtype) for x in parts])
