"""The methods and attributes that ndarray has, for tracers: NumPy's functions of the array.

Those that give views (``T``, ``reshape``, ``ravel``...) are defined with the operations themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import MutationError
from functrans.numpy import (
    choice,
    contraction,
    elementwise,
    indexing,
    inplace,
    joining,
    reductions,
)
from functrans.numpy.arrays import array, astype, duplicate, flat
from functrans.numpy.define import refuse
from functrans.ops.arrays.numbers import as_number
from functrans.trace import protocols
from functrans.trace.source import located, user_source
from functrans.trace.tracer import Tracer
from functrans.trace.views import assign

Method = Callable[..., Any]


def _with_out(name: str, function: Method) -> Method:
    """The function as a method, which may be told where to store its result."""

    def method(self: Tracer, *args: Any, out: Any = None, **keywords: Any) -> Any:
        result = function(self, *args, **keywords)
        if out is None:
            return result
        return protocols.operators["store"](f"x.{name}", result, (out,), True)

    return method


def _reduction(function: Method, *between: str) -> Method:
    """As the function, but ``out`` stands among the positional arguments of the method."""

    def method(self: Tracer, *args: Any, **keywords: Any) -> Any:
        names = ("axis", *between, "out")
        keywords.update(zip(names, args, strict=False))
        out = keywords.pop("out", None)
        given = {name: value for name, value in keywords.items() if value is not None}
        result = function(self, **given)
        if out is None:
            return result
        return protocols.operators["store"](f"x.{function.__name__}", result, (out,), True)

    return method


def _astype(
    self: Tracer,
    dtype: Any,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> Any:
    dtype = np.dtype(dtype)  # None is NumPy's default
    if not np.can_cast(self.dtype, dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast array data from {self.dtype!r} to {dtype!r} according to the "
            f"rule {casting!r}"
        )
    result = astype(self, dtype)
    return duplicate(result) if copy and result is self else result


def _fill(self: Tracer, value: Any) -> None:
    self[...] = value


def _sort(self: Tracer, axis: int = -1, kind: Any = None, order: Any = None) -> None:
    if order is not None:
        refuse("x.sort(order=...)", "leave the keyword out")
    assign(self, indexing.sort(self, axis), "sort")


def _partition(self: Tracer, kth: Any, axis: int = -1, kind: Any = None) -> None:
    assign(self, indexing.partition(self, kth, axis), "partition")


def _byteswap(self: Tracer, *args: Any) -> Any:
    refuse("x.byteswap()", "a traced value has no bytes")


def _resize(self: Tracer, *args: Any, **keywords: Any) -> Any:
    raise MutationError(
        f"x.resize(){located(user_source())}: an array cannot change its shape in place.\n"
        "Write x = np.resize(x, shape)."
    )


def _item(self: Tracer, *args: Any) -> Any:
    places = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    if not places and self.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    if len(places) not in (0, 1, self.ndim):
        raise ValueError("incorrect number of indices for array")
    element = self[places] if len(places) == self.ndim else flat(self)[sum(places)]
    return as_number(element, dtype=np.dtype(type(np.zeros((), self.dtype).item())))


protocols.methods.update(
    {
        "sum": _reduction(reductions.sum, "dtype"),
        "prod": _reduction(reductions.prod, "dtype"),
        "mean": _reduction(reductions.mean, "dtype"),
        "var": _reduction(reductions.var, "dtype"),
        "std": _reduction(reductions.std, "dtype"),
        "cumsum": _reduction(reductions.cumsum, "dtype"),
        "cumprod": _reduction(reductions.cumprod, "dtype"),
        "max": _reduction(reductions.max),
        "min": _reduction(reductions.min),
        "any": _reduction(reductions.any),
        "all": _reduction(reductions.all),
        "argmax": _reduction(reductions.argmax),
        "argmin": _reduction(reductions.argmin),
        "astype": _astype,
        "argpartition": indexing.argpartition,
        "argsort": indexing.argsort,
        "choose": _with_out("choose", choice.choose),
        "clip": _with_out("clip", choice.clip),
        "compress": lambda self, condition, axis=None: indexing.compress(condition, self, axis),
        "conj": elementwise.conjugate,
        "conjugate": elementwise.conjugate,
        "dot": _with_out("dot", contraction.dot),
        "fill": _fill,
        "item": _item,
        "nonzero": choice.nonzero,
        "partition": _partition,
        "put": inplace.put,
        "repeat": joining.repeat,
        "resize": _resize,
        "round": _with_out("round", elementwise.round),
        "searchsorted": indexing.searchsorted,
        "sort": _sort,
        "take": _with_out("take", indexing.take),
        "trace": _with_out("trace", contraction.trace),
        "byteswap": _byteswap,
    }
)

protocols.attributes.update(
    {
        "base": lambda self: None if self._as_view is None else self._as_view.base,
        "device": lambda self: "cpu",
    }
)
protocols.operators["asarray"] = array
