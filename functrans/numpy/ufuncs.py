"""Methods of ufuncs (``reduce``, ``accumulate``, ``outer``, ``at``...), ``out=`` and ``where=``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import TracerConversionError
from functrans.ir.types import broadcast_shape
from functrans.numpy import arrays, reductions, without_nan
from functrans.numpy.arrays import INDEX, array, asked, astype, axes_of, constant
from functrans.numpy.define import refuse
from functrans.numpy.inplace import check_assignable
from functrans.numpy.special import logsumexp
from functrans.ops.arrays.shape import read_along
from functrans.ops.arrays.structural import (
    broadcast_to,
    drop_axes,
    expand_axes,
    full_p,
    reduce_sum,
    reshape,
)
from functrans.ops.elementwise.choice import select
from functrans.ops.indexing.at import At
from functrans.ops.indexing.index import has_unique, plan_of
from functrans.ops.reductions import cumulative
from functrans.ops.reductions.reduce import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_xor,
)
from functrans.trace import protocols
from functrans.trace.assignable import Assignable, become_traced
from functrans.trace.source import here
from functrans.trace.tracer import Tracer
from functrans.trace.views import assign, cast

# -- out and where ---------------------------------------------------------------------------------


def store(name: str, result: Any, outs: Any, where: Any, casting: str = "same_kind") -> Any:
    """The result of a call with ``out=`` or ``where=``, after assigning in place.

    Parameters
    ----------
    name : str
        The ufunc's name.
    result : array or tuple of them
        The result without these keywords.
    outs : tuple or None
        An array, or None, for each result.
    where : array or True
        The elements at which results are stored.
    casting : str
        Whether a result may have a dtype that NumPy would not cast: "unsafe".
    """
    if isinstance(result, tuple):
        outs = outs or (None,) * len(result)
        pairs = zip(result, outs, strict=True)
        return tuple(store(name, x, (out,), where, casting) for x, out in pairs)
    out = outs[0] if outs else None
    if out is None:
        if where is True:
            return result
        refuse(
            f"{_written(name)}(..., where=...) without out=",
            "its other elements would be whatever is in memory; write np.where(condition, f(x), 0)",
        )
    if type(out) is Assignable:
        become_traced(out)
    if not isinstance(out, Tracer):
        raise TracerConversionError(
            f"{_written(name)} is to store a traced result in an ndarray{here()}, "
            "which would lose its derivative.\n"
            "Write `a = a + x` instead of `a += x` or out=a, or make the array traced before: "
            "a = functrans.numpy.array(a)."
        )
    result = constant(result)  # the operands are plain
    if casting == "unsafe":
        result = astype(result, out.dtype)
    if where is not True:
        result = cast(result, out.dtype, f"{_written(name)} with out=")
        result = select(reductions.mask(where), result, out)
    broadcasts = "." not in name or name.rpartition(".")[2] in _ELEMENTWISE
    if broadcasts and broadcast_shape(result.shape, out.shape) == out.shape:
        result = broadcast_to(result, shape=out.shape)
    assign(out, result, f"{_written(name)} with out=")
    return out


_ELEMENTWISE = frozenset("clip fix isneginf isposinf outer".split())
"""Functions and methods besides ufuncs whose results are broadcast to a larger ``out=``."""


def _written(name: str) -> str:
    return name if "." in name else f"np.{name}"


protocols.operators["store"] = store

# -- reduce ----------------------------------------------------------------------------------------


def _logsumexp(x: Any, *, axes: Any) -> Any:
    return astype(logsumexp(x, axes) if x.ndim else x, x.dtype)


_REDUCE: dict[str, Callable[..., Any]] = {
    "add": reduce_sum,
    "multiply": reduce_prod,
    "maximum": reduce_max,
    "minimum": reduce_min,
    "fmax": without_nan.largest,
    "fmin": without_nan.smallest,
    "logical_and": reduce_and,
    "logical_or": reduce_or,
    "bitwise_and": reduce_and,
    "bitwise_or": reduce_or,
    "bitwise_xor": reduce_xor,
    "logaddexp": _logsumexp,
}


_ASSOCIATIVE = frozenset((*_REDUCE, "hypot", "logaddexp2", "logical_xor", "gcd", "lcm"))
"""Associative ufuncs, which are reduced and accumulated in segments."""


def _combined(ufunc: np.ufunc, x: Any, *, axes: Any) -> Any:
    """The reduction by an associative, commutative ufunc: halves are combined repeatedly."""
    combine = protocols.ufuncs[ufunc.__name__]
    if not axes and ufunc.identity is not None:  # NumPy starts with the identity here, too
        x = combine(full_p(shape=x.shape, value=ufunc.identity, dtype=x.dtype), x)
    for i in axes:
        if x.shape[i] < 2 and ufunc.identity is not None:
            shape = (*x.shape[:i], 1, *x.shape[i + 1 :])
            first = full_p(shape=shape, value=ufunc.identity, dtype=x.dtype)
            # NumPy starts with the identity: `np.hypot.reduce([-2.0])` is 2.0
            x = combine(first, x) if x.shape[i] else first
        x = _by_halves(combine, x, i)
    return reshape(x, shape=drop_axes(x.shape, axes))


def _by_halves(combine: Callable[[Any, Any], Any], x: Any, axis: int) -> Any:
    left_over = []
    while x.shape[axis] > 1:
        half, odd = divmod(x.shape[axis], 2)
        if odd:
            left_over.append(read_along(x, axis, 2 * half, 1))
        x = combine(read_along(x, axis, 0, half), read_along(x, axis, half, half))
    return functools.reduce(combine, left_over, x)


def _running_results(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    first = protocols.ufuncs[ufunc.__name__]

    def combine(before: Any, now: Any) -> Any:
        return (first(before[0], now[0]),)

    return cumulative.running(combine, (x,), axis, False)[0]


def _dtype_for(ufunc: np.ufunc, dtype: Any, out: Any, x: Any) -> Any:
    """The dtype to ask NumPy for: that of ``out``, in which it adds up or multiplies."""
    accumulates = dtype is None and ufunc in (np.add, np.multiply)
    return arrays.accumulated_in(out, x) if accumulates else dtype


def _reduce(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, **keywords: Any
) -> Any:
    name = ufunc.__name__
    if name not in _ASSOCIATIVE:
        refuse(f"np.{name}.reduce", f"only {', '.join(sorted(_ASSOCIATIVE))} are reduced")
    x = array(x)
    dtype = _dtype_for(ufunc, dtype, out, x)
    x = astype(x, asked(ufunc.reduce, x, axis, dtype=dtype, **keywords).dtype)
    op = _REDUCE.get(name) or functools.partial(_combined, ufunc)
    result = reductions.folded(ufunc, op, protocols.ufuncs[name], x, axis, **keywords)
    return store(f"np.{name}.reduce", result, out, True)


_ACCUMULATE: dict[str, Callable[..., Any]] = {
    "add": cumulative.cumsum,
    "multiply": cumulative.cumprod,
    "maximum": cumulative.cummax,
    "minimum": cumulative.cummin,
    "bitwise_and": cumulative.cumand,
    "bitwise_or": cumulative.cumor,
    "bitwise_xor": cumulative.cumxor,
    "logical_and": cumulative.cumand,
    "logical_or": cumulative.cumor,
    "logical_xor": cumulative.cumxor,
}


def _accumulate(ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    name = ufunc.__name__
    if name not in _ASSOCIATIVE:
        refuse(f"np.{name}.accumulate", f"only {', '.join(sorted(_ASSOCIATIVE))} are accumulated")
    x = array(x)
    dtype = _dtype_for(ufunc, dtype, out, x)
    x = astype(x, asked(ufunc.accumulate, x, axis, dtype=dtype).dtype)
    (axis,) = axes_of(axis, x.ndim)
    op = _ACCUMULATE.get(name)
    result = op(x, axis=axis, reverse=False) if op else _running_results(ufunc, x, axis)
    return store(f"np.{name}.accumulate", result, out, True)


# -- outer, at and reduceat ------------------------------------------------------------------------


def _outer(ufunc: np.ufunc, x: Any, y: Any, **keywords: Any) -> Any:
    x, y = array(x), array(y)
    apart = expand_axes(x, tuple(range(x.ndim, x.ndim + y.ndim)))
    return protocols.apply_ufunc(ufunc, "__call__", (apart, y), keywords)


_AT = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide",
    "maximum": "max", "minimum": "min", "power": "power",
}  # fmt: skip


def _at(ufunc: np.ufunc, x: Any, index: Any, *values: Any) -> None:
    name = ufunc.__name__
    check_assignable(x, f"np.{name}.at")
    once = ufunc.nin == 1 or name == "power"
    if once and not has_unique(plan_of(x.shape, index)):
        refuse(f"np.{name}.at with an index that may be there twice", "name each index once")
    if name in _AT:
        result = getattr(At(x)[index], _AT[name])(*values)
    elif ufunc.nin == 1:
        result = At(x)[index].apply(ufunc)
    else:
        refuse(f"np.{name}.at", f"only {', '.join(_AT)} are")
    assign(x, result, f"np.{name}.at")


_MOST_RUNS = 16
"""More runs of equal segments than this are summed by a scatter, since code grows with them."""


def _reduceat(
    ufunc: np.ufunc, x: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None
) -> Any:
    name = ufunc.__name__
    if name not in _ACCUMULATE:
        refuse(f"np.{name}.reduceat", f"only {', '.join(_ACCUMULATE)} are: reduce each slice")
    x = array(x)
    dtype = _dtype_for(ufunc, dtype, out, x)
    none = np.zeros(0, INDEX)
    x = astype(x, asked(ufunc.reduceat, x, axis, indices=none, dtype=dtype).dtype)
    (axis,) = axes_of(axis, x.ndim)
    rows = np.moveaxis(x, axis, 0)
    starts = np.asarray(indices, None if np.size(indices) else INDEX)
    try:
        ufunc.reduceat(np.zeros(len(rows), int), starts)  # which refuses what NumPy does
    except IndexError as error:  # it would seem to be the library's own
        raise IndexError(*error.args) from None
    starts = starts.astype(INDEX)
    # a segment ends where the next one starts, but has one element if that is not after it
    ends = np.maximum(starts + 1, np.append(starts[1:], len(rows)))
    # runs of segments of one length that follow each other are reduced as the rows of a matrix
    lengths = ends - starts
    breaks = (lengths[1:] != lengths[:-1]) | (ends[:-1] != starts[1:])
    runs = np.split(np.arange(len(starts)), np.flatnonzero(breaks) + 1)
    if name == "add" and len(runs) > _MOST_RUNS:
        elements = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
        segments = np.repeat(np.arange(len(starts)), lengths)
        sums = np.zeros((len(starts), *rows.shape[1:]), rows.dtype)
        result = At(array(sums))[segments].add(rows[np.concatenate(elements)])
    elif not len(starts):
        result = rows[:0]
    else:
        blocks = [
            rows[starts[run[0]] : ends[run[-1]]].reshape(
                len(run), int(lengths[run[0]]), *rows.shape[1:]
            )
            for run in runs
        ]
        parts = [_reduce(ufunc, block, axis=1, dtype=x.dtype) for block in blocks]
        result = np.concatenate(parts)
    return store(f"np.{name}.reduceat", np.moveaxis(result, 0, axis), out, True)


protocols.ufunc_methods.update(
    {
        ("*", "reduce"): _reduce,
        ("*", "accumulate"): _accumulate,
        ("*", "outer"): _outer,
        ("*", "at"): _at,
        ("*", "reduceat"): _reduceat,
    }
)
