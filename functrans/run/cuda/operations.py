"""NumPy's protocols on device arrays: operators, ufuncs, functions, methods, indexing."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functrans import config
from functrans.ops.indexing.at import AtIndex
from functrans.run.cuda import answers, indices
from functrans.run.cuda.array import DeviceArray, fetched
from functrans.run.cuda.driver import driver
from functrans.run.cuda.eager import (
    Operand,
    call,
    inline,
    key_of_ufunc,
    on_host,
    refuse_to_change,
    with_operands,
)
from functrans.trace import protocols
from functrans.trace.tracer import Tracer
from functrans.tree import core as tree

_CONSTANT_NUMBERS = frozenset({np.power, np.float_power})
"""Ufuncs whose Python numbers are constants: ``x**2`` is a product, and few exponents occur."""

_INTEGERS = range(-(2**63), 2**63)

_LOOK = {np.array2string, np.array_repr, np.array_str, np.save, np.savez, np.savez_compressed}
_LOOK |= {np.savetxt, np.copyto}
"""Functions that print or store numbers, which receive host copies."""


# ---- ufuncs and functions ------------------------------------------------------------------------


def _ufunc(of: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    quick = None
    if method == "__call__" and not kwargs and of not in _CONSTANT_NUMBERS:
        quick = key_of_ufunc(of, inputs)
        if quick is not None and (found := inline(quick, inputs)) is not None:
            return found
    name = protocols.name_of_ufunc(of, method)
    if any(x is not None for x in kwargs.get("out", ())):
        raise refuse_to_change(f"{name}(..., out=...)", f"write y = {name}(...)")
    kwargs = {key: x for key, x in kwargs.items() if key != "out"}
    if method == "at":
        raise refuse_to_change(
            f"{name}(x, i, v)", "write x = x.at[i].add(v), or another of x.at[i]"
        )
    known = protocols.ufuncs if method == "__call__" else protocols.ufunc_methods
    keys = {of.__name__} if method == "__call__" else {(of.__name__, method), ("*", method)}
    inputs = tuple(_array_of(x) for x in inputs)

    def apply(*args: Any, **kwargs: Any) -> Any:
        return protocols.apply_ufunc(of, method, args, kwargs)

    if known.keys().isdisjoint(keys) and of.__name__ not in protocols.methods:
        return _without_tracing(getattr(of, method), inputs, kwargs, name)
    if method == "__call__" and of not in _CONSTANT_NUMBERS:
        dtypes = [x.dtype for x in inputs if hasattr(x, "dtype")]
        inputs = tuple(_operand(x, dtypes) for x in inputs)
    return call(apply, inputs, kwargs, key=(of, method), name=name, inline_key=quick)


def _array_of(x: Any) -> Any:
    """A list of numbers as a NumPy array; one with device arrays is joined on the device."""
    if not isinstance(x, (list, tuple)):
        return x
    if any(isinstance(leaf, (DeviceArray, Tracer)) for leaf in tree.leaves(x)):
        return x
    return np.asarray(x)


def _operand(x: Any, dtypes: Sequence[np.dtype[Any]]) -> Any:
    """A number as an operand of the program, or as a constant if its value determines its type."""
    if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, float, complex, np.number)):
        return x
    if isinstance(x, int):
        integers = [dtype for dtype in dtypes if dtype.kind in "iu"]
        bounds = np.iinfo(np.result_type(*dtypes)) if integers == dtypes and dtypes else None
        fits = x in _INTEGERS and (bounds is None or bounds.min <= x <= bounds.max)
        return Operand(x) if fits else x
    return Operand(x)


def _function(of: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = protocols.name_of(of)
    if kwargs.get("out") is not None:
        raise refuse_to_change(f"{name}(..., out=...)", f"write y = {name}(...)")
    if of in _LOOK and not (of is np.copyto and isinstance(args[0], DeviceArray)):
        return of(*fetched(args), **kwargs)

    def apply(*args: Any, **kwargs: Any) -> Any:
        return protocols.apply_function(of, args, kwargs)

    if of not in protocols.functions:
        return _without_tracing(of, args, kwargs, name)
    return call(apply, *with_operands(args, kwargs), key=of, name=name)


def _without_tracing(
    of: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> Any:
    """Execute an untraceable operation on the host, if that is allowed."""
    if config.cuda_fallback != "host":
        raise answers.unsupported(name)
    leaves, structure = tree.flatten((args, kwargs))
    here = driver(next(x.device for x in leaves if isinstance(x, DeviceArray)))
    return on_host(of, leaves, structure, here, name)


# ---- methods and attributes ----------------------------------------------------------------------


def _method(name: str) -> Callable[..., Any]:
    def method(self: DeviceArray, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            raise refuse_to_change(f"x.{name}(..., out=...)", f"write y = x.{name}(...)")
        return call(
            _apply_method(name),
            *with_operands((self, *args), kwargs),
            key=("method", name),
            name=f"x.{name}",
        )

    method.__name__ = name
    return method


def _apply_method(name: str) -> Callable[..., Any]:
    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x, name)(*args, **kwargs)

    return apply


def _attribute(name: str) -> Callable[[DeviceArray], Any]:
    def computed(self: DeviceArray) -> Any:
        return call(lambda x: getattr(x, name), (self,), key=("attribute", name), name=f"x.{name}")

    return computed


# ---- indexing ------------------------------------------------------------------------------------


def _getitem(x: DeviceArray, index: Any) -> Any:
    items = indices.entries(index)
    if indices.is_basic(items):
        window = indices.window(items, x.shape)
        if window.is_together:
            return x.part(window.offset * x.itemsize, window.shape)
        starts = tuple(map(Operand, window.starts))
        key = ("window", window.ranges, window.shape)
        return call(indices.reader(window), (x, starts), key=key, name="x[...]")
    return call(operator.getitem, (x, indices.known(items, x.shape)), name="x[...]")


def _iterate(x: DeviceArray) -> Iterator[DeviceArray]:
    return (x[i] for i in range(x.shape[0]))


def _setitem(x: DeviceArray, index: Any, value: Any) -> None:
    raise refuse_to_change("x[i] = v", "write x = x.at[i].set(v)")


class _At:
    """``x.at``, to be indexed."""

    __slots__ = ("_x",)

    def __init__(self, x: DeviceArray) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> _AtIndex:
        return _AtIndex(self._x, index)


class _AtIndex:
    """``x.at[index]``: each method gives a new array, as `functrans.numpy.at` has them."""

    __slots__ = ("_items", "_x")

    def __init__(self, x: DeviceArray, index: Any) -> None:
        self._x = x
        self._items = indices.known(indices.entries(index), x.shape)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _OF_AT:
            raise AttributeError(f"x.at[i] has no {name!r}: it has {', '.join(_OF_AT)}")

        def method(*args: Any, **kwargs: Any) -> Any:
            def apply(x: Any, items: Any, args: Any, kwargs: Any) -> Any:
                return getattr(protocols.attributes["at"](x)[items], name)(*args, **kwargs)

            args, kwargs = with_operands(args, kwargs)
            return call(
                apply,
                (self._x, self._items, args, kwargs),
                key=("at", name),
                name=f"x.at[i].{name}",
            )

        return method


_OF_AT = tuple(name for name in vars(AtIndex) if not name.startswith("_"))


# ---- the tables ----------------------------------------------------------------------------------

answers.ufunc.append(_ufunc)
answers.function.append(_function)
answers.operators.update({"__getitem__": _getitem, "__setitem__": _setitem, "__iter__": _iterate})
answers.methods.update(
    {name: _method(name) for name in protocols.methods if not hasattr(DeviceArray, name)}
)
answers.attributes.update(
    {name: _attribute(name) for name in protocols.attributes if not hasattr(DeviceArray, name)}
)
answers.attributes["at"] = _At
answers.attributes["flat"] = lambda x: x.ravel()
answers.attributes["base"] = lambda x: None
