"""The methods and attributes that ndarray has, for tracers: NumPy's functions of the array.

Those that give views (``T``, ``reshape``, ``ravel``...) are defined with the operations themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import MutationError
from functrans.lazily import Lazy, Made, lazy
from functrans.numpy.arrays import accumulated_in, astype, check_castable, duplicate, flat
from functrans.numpy.define import refuse
from functrans.numpy.tables import HOME
from functrans.ops.arrays.numbers import as_number
from functrans.ops.indexing.views import is_array
from functrans.trace import protocols
from functrans.trace.source import here
from functrans.trace.tracer import Tracer
from functrans.trace.views import assign

Method = Callable[..., Any]


def _ours(name: str) -> Lazy:
    return lazy(f"{HOME[name]}:{name}")


def _with_out(function: Lazy) -> Made:
    """A function as a method with a parameter ``out``."""
    return Made(lambda: _storing(function.name, function.resolve()))


def _storing(name: str, function: Method) -> Method:
    def method(self: Tracer, *args: Any, out: Any = None, **keywords: Any) -> Any:
        result = function(self, *args, **keywords)
        if out is None:
            return result
        return protocols.operators["store"](f"x.{name}", result, (out,), True)

    return method


def _reduction(name: str, positional: str) -> Made:
    """A reduction as a method with positional parameters, of which one is ``out``."""
    return Made(lambda: _reducing(_ours(name).resolve(), positional.split()))


def _reducing(function: Method, names: list[str]) -> Method:
    def method(self: Tracer, *args: Any, **keywords: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(
                f"x.{function.__name__}() takes at most {len(names)} positional arguments "
                f"({len(args)} given)"
            )
        keywords.update(zip(names, args, strict=False))
        out = keywords.pop("out", None)
        given = {
            name: value
            for name, value in keywords.items()
            if value is not None or name in ("initial", "where")
        }
        if out is not None and function.__name__ in ("sum", "prod", "cumsum", "cumprod"):
            given.setdefault("dtype", accumulated_in(out, self))
        result = function(self, **given)
        if out is None:
            return result
        return protocols.operators["store"](f"x.{function.__name__}", result, (out,), True)

    return method


def _astype(
    self: Tracer, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
    copy: bool = True,
) -> Any:  # fmt: skip
    dtype = np.dtype(dtype)  # None is NumPy's default
    check_castable(self, dtype, casting)
    result = astype(self, dtype)
    if copy and result is self:
        result = duplicate(result)
    if not result.ndim and result is not self:
        result._is_contiguous = is_array(self)
    return result


def _sort(self: Tracer, axis: int = -1, kind: Any = None, order: Any = None) -> None:
    if order is not None:
        refuse("x.sort(order=...)", "leave the keyword out")
    assign(self, _sorted(self, axis), "sort")


def _partition(self: Tracer, kth: Any, axis: int = -1, kind: Any = None) -> None:
    assign(self, _partitioned(self, kth, axis), "partition")


def _resize(self: Tracer, *args: Any, **keywords: Any) -> Any:
    raise MutationError(
        f"x.resize(){here()}: an array cannot change its shape in place.\n"
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


def _choose(self: Tracer, *choices: Any, **keywords: Any) -> Any:
    """Unlike those of ``np.choose``, choices may be arguments of their own."""
    return _chosen(self, choices[0] if len(choices) == 1 else choices, **keywords)


def _compress(self: Tracer, condition: Any, axis: Any = None, out: Any = None) -> Any:
    taken = _compressed(condition, self, axis)
    return taken if out is None else protocols.operators["store"]("x.compress", taken, (out,), True)


_sorted, _partitioned, _compressed, _chosen = map(
    _ours, ("sort", "partition", "compress", "choose")
)
_conjugate = lazy("functrans.numpy.elementwise:conjugate")


_REDUCTIONS = {
    "sum prod": "axis dtype out keepdims initial where",
    "mean any all": "axis dtype out keepdims",
    "var std": "axis dtype out ddof keepdims",
    "cumsum cumprod": "axis dtype out",
    "max min": "axis out keepdims initial where",
    "argmax argmin": "axis out",
}
"""The positional parameters of reductions as methods."""

_METHODS: dict[str, Method | Made] = {
    **{
        name: _reduction(name, positional)
        for names, positional in _REDUCTIONS.items()
        for name in names.split()
    },
    **{name: _with_out(_ours(name)) for name in "clip dot round take trace".split()},
    **{
        name: Made(_ours(name).resolve)
        for name in "argpartition argsort nonzero put repeat searchsorted".split()
    },
    **dict.fromkeys(("conj", "conjugate"), Made(_conjugate.resolve)),
    "astype": _astype,
    "byteswap": lambda self, *args: refuse("x.byteswap()", "a traced value has no bytes"),
    "choose": _choose,
    "compress": _compress,
    "fill": lambda self, value: self.__setitem__(..., value),
    "item": _item,
    "partition": _partition,
    "resize": _resize,
    "sort": _sort,
}


def enter(name: str) -> None:
    """Register the method of a name, if there is one."""
    method = _METHODS.get(name)
    if method is not None:
        protocols.methods[name] = method.make() if isinstance(method, Made) else method


def enter_all() -> None:
    """Register all methods."""
    for name in _METHODS:
        enter(name)


protocols.attributes.update(
    {
        "base": lambda self: None if self._as_view is None else self._as_view.base,
        "device": lambda self: "cpu",
        # those of a copy, for SciPy's source, which copies what is not contiguous; they depend on
        # which extents are 0 and 1
        "flags": lambda self: np.empty([min(extent, 2) for extent in self.shape]).flags,
    }
)
