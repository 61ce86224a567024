"""NumPy's protocols: tables from NumPy's functions to the library's operations.

The modules that define the operations fill the tables; they are imported on first use of one of
their operations. This module only looks operations up.
"""

from __future__ import annotations

import inspect
from collections import UserList, deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from functrans.errors import UnsupportedAttributeError, UnsupportedNumPyError
from functrans.lazily import Catalogue
from functrans.spelling import nearest
from functrans.trace.alternatives import instead_of
from functrans.trace.dtypes import dtype_of
from functrans.trace.notes import NUMPYS, add_place
from functrans.trace.source import here

Implementation = TypeVar("Implementation", bound=Callable[..., Any])

ufuncs: Catalogue[str, Callable[..., Any]] = Catalogue()
"""The operation of each ufunc, by name, so that SciPy's ufuncs need not be imported."""

ufunc_methods: Catalogue[tuple[str, str], Callable[..., Any]] = Catalogue()
"""The operations of ufunc methods like ``np.add.reduce``, by both names."""

functions: Catalogue[Any, Callable[..., Any]] = Catalogue()
"""The operation of each NumPy function that dispatches by ``__array_function__``."""

operators: Catalogue[str, Callable[..., Any]] = Catalogue()
"""The implementation of operators that differ from the primitive of the same name."""

methods: Catalogue[str, Callable[..., Any]] = Catalogue()
"""The methods of a tracer, as functions of the tracer and the method's arguments."""

attributes: Catalogue[str, Callable[[Any], Any]] = Catalogue()
"""The computed attributes of a tracer, such as ``T``."""

replacements: dict[Any, dict[str, Any]] = {}
"""The replacements of NumPy functions that a traced function calls by their full name."""

numbers: dict[type, Any] = {}
"""The replacements of ``float``, ``np.float64``, ... in packages that convert traced values."""

late: dict[str, Callable[[], None]] = {}
"""Functions that fill the table above, by the name of a module that the user may import."""

imported_when_read: dict[Any, tuple[str, ...]] = {}
"""The submodules with such functions that a NumPy module imports lazily."""


_OF_OTHERS = "; instead: functrans.from_numba(f, types), with a derivative by functrans.custom_jvp"
"""What to call in place of a ufunc that is neither NumPy's nor ours."""


SEQUENCES = (list, tuple, deque, UserList)
"""The classes of sequences that may hold traced values where NumPy takes an array."""


def implements(*numpy_functions: Any) -> Callable[[Implementation], Implementation]:
    """Register the decorated function as the implementation of NumPy functions for tracers."""

    def enter(implementation: Implementation) -> Implementation:
        for function in numpy_functions:
            functions[function] = implementation
        return implementation

    return enter


def apply_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Apply ``ufunc(...)`` or ``ufunc.method(...)`` to operands with tracers."""
    name = ufunc.__name__
    try:
        if method == "__call__":
            # the method clip of plain arrays calls a private ufunc
            operation = ufuncs.get(name) or methods.get(name)
            if operation is not None:
                for x in inputs:
                    kind = type(x)
                    if not (kind is float or kind is int or hasattr(kind, "__array_ufunc__")):
                        inputs = tuple(_array_of(x) for x in inputs)
                        break
                if name in _SCIPYS_TOO and ufunc is not getattr(np, name):
                    inputs = tuple(_widened(x, ufunc) for x in inputs)
                if kwargs:
                    return _apply_with_keywords(ufunc, operation, inputs, kwargs)
                return strengthened(operation(*inputs))
        else:
            operation = ufunc_methods.get((name, method)) or ufunc_methods.get(("*", method))
            if operation is not None:
                return operation(ufunc, *inputs, **kwargs)
    except NUMPYS as error:
        add_place(error, name_of_ufunc(ufunc, method), inputs)
        raise
    full = name_of_ufunc(ufunc, method)
    instead = instead_of(name) or ("" if full.startswith("np.") else _OF_OTHERS)
    raise UnsupportedNumPyError(f"{full} is not supported on traced values{here()}{instead}")


def name_of_ufunc(ufunc: np.ufunc, method: str) -> str:
    """The name of a ufunc in messages, or of a method of one: ``"np.add.reduce"``."""
    name = ufunc.__name__
    package = "np." if getattr(np, name, None) is ufunc else ""  # SciPy's have no module attribute
    return f"{package}{name}" + ("" if method == "__call__" else f".{method}")


_SCIPYS_TOO = frozenset(("cbrt", "exp2", "expm1", "log1p"))
"""Ufuncs of NumPy of which SciPy has its own, which compute narrow dtypes in wider ones."""


def _widened(x: Any, scipys: np.ufunc) -> Any:
    if not hasattr(x, "dtype") or x.dtype.itemsize >= 4:
        return x
    return operators["astype"](x, scipys.resolve_dtypes((x.dtype, None))[0])


def _array_of(x: Any) -> Any:
    return operators["asarray"](x) if is_sequence(type(x)) else x


def is_sequence(kind: type) -> bool:
    """Whether NumPy makes an array of the elements of a class's instances."""
    return (
        hasattr(kind, "__getitem__")
        and hasattr(kind, "__len__")
        and not any(hasattr(kind, other) for other in ("keys", "__array__", "__array_ufunc__"))
        and not issubclass(kind, (str, bytes))
    )


def strengthened(result: Any) -> Any:
    """A strong result: a ufunc returns a strong dtype even for Python numbers."""
    if hasattr(result, "_variable"):
        return operators["strengthen"](result) if result._variable.aval.weak else result
    return tuple(map(strengthened, result)) if isinstance(result, tuple) else result


_DEFAULTS = {"casting": "same_kind", "order": "K", "subok": True, "signature": None, "axes": None}
"""The default values of ufunc keywords that have no effect on traced values."""


_OF_VECTORS = {"vecdot": ("axis", "keepdims")}
"""The keywords of generalised ufuncs, by the ufunc's name."""


def _apply_with_keywords(
    ufunc: np.ufunc, operation: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    kwargs = {k: v for k, v in kwargs.items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    own = {k: kwargs.pop(k) for k in _OF_VECTORS.get(ufunc.__name__, ()) if k in kwargs}
    outs = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    casting = kwargs.get("casting", "same_kind")
    if casting in _STRICTER and dtype is None:
        results = outs if isinstance(outs, tuple) else (outs,) * ufunc.nout
        into = [None if x is None else x.dtype for x in results]
        ufunc.resolve_dtypes((*_dtypes(inputs), *into), casting=kwargs.pop("casting"))
    elif casting == "unsafe":
        del kwargs["casting"]
    if kwargs:
        raise UnsupportedNumPyError(
            f"np.{ufunc.__name__}(..., {next(iter(kwargs))}=...) is not supported on traced values"
            f"{here()}: leave the keyword out"
        )
    if dtype is not None:
        inputs = _converted(ufunc, inputs, dtype_of(dtype), casting)
    result = strengthened(operation(*inputs, **own))
    return operators["store"](ufunc.__name__, result, outs, where, casting)


def _converted(
    ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: np.dtype[Any], casting: Any
) -> tuple[Any, ...]:
    """Operands, cast to those of the loop that gives results of a dtype; NumPy refuses others."""
    loop = ufunc.resolve_dtypes(
        (*_dtypes(inputs), *(None,) * ufunc.nout),
        signature=(*(None,) * ufunc.nin, *(dtype,) * ufunc.nout),
        casting=casting,
    )
    return tuple(operators["astype"](x, d) for x, d in zip(inputs, loop, strict=False))


def _dtypes(inputs: tuple[Any, ...]) -> list[Any]:
    return [x.dtype if hasattr(x, "dtype") else _WEAK.get(type(x)) for x in inputs]


_STRICTER = ("no", "equiv", "safe")
"""Rules of casting that refuse more than the default, and change no result."""

_WEAK = {bool: np.dtype(bool), int: int, float: float, complex: complex}


def apply_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a NumPy function to arguments that include tracers."""
    implementation = functions.get(func)
    if implementation is None:
        raise UnsupportedNumPyError(
            f"{name_of(func)} is not supported on traced values{here()}" + instead_of(func.__name__)
        )
    try:
        return implementation(*args, **kwargs)
    except NUMPYS as error:
        add_place(error, name_of(func), args)
        raise


def name_of(func: Any) -> str:
    """The name of a NumPy function in messages."""
    module = getattr(func, "__module__", "numpy").replace("numpy", "np", 1)
    return f"{module}.{func.__name__}"


class BoundMethod(partial[Any]):
    """A method bound to a tracer, with the signature of the remaining parameters."""

    @property
    def __signature__(self) -> inspect.Signature:
        written = inspect.signature(self.args[1])
        return written.replace(parameters=list(written.parameters.values())[1:])


def attribute(tracer: Any, name: str) -> Any:
    """A method or computed attribute of a tracer."""
    method = methods.get(name)
    if method is not None:
        return BoundMethod(_call_method, name, method, tracer)
    computed = attributes.get(name)
    if computed is not None:
        return computed(tracer)
    if name.startswith("__"):
        raise AttributeError(name)
    if hasattr(np.ndarray, name):
        raise UnsupportedAttributeError(
            f"ndarray.{name} is not supported on traced values{here()}" + instead_of(name)
        )
    if callable(getattr(np, name, None)):
        meant = f"; instead: np.{name}(x)"
    else:
        close = nearest(name, {**methods, **attributes})
        meant = instead_of(name) or (f"; did you mean {close}?" if close else "")
    raise AttributeError(f"an array has no attribute {name!r}{meant}")


def _call_method(name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return method(*args, **kwargs)
    except NUMPYS as error:
        add_place(error, f"x.{name}", args)
        raise
