"""NumPy's protocols: the table from NumPy's functions to our operations.

The tables are filled by the modules that define the operations, which are imported when somebody
asks for one of theirs; this module only looks them up.
"""

from __future__ import annotations

import inspect
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
from functrans.trace.source import located, user_source

Implementation = TypeVar("Implementation", bound=Callable[..., Any])

ufuncs: Catalogue[str, Callable[..., Any]] = Catalogue()
"""The operation for a ufunc, by the ufunc's name (SciPy's ufuncs are not imported to be listed)."""

ufunc_methods: Catalogue[tuple[str, str], Callable[..., Any]] = Catalogue()
"""The operation for ``np.add.reduce`` and the like, by both names."""

functions: Catalogue[Any, Callable[..., Any]] = Catalogue()
"""The operation for a NumPy function that goes by ``__array_function__``."""

operators: Catalogue[str, Callable[..., Any]] = Catalogue()
"""What stands behind an operator where it is more than the primitive of that name."""

methods: Catalogue[str, Callable[..., Any]] = Catalogue()
"""The methods of a tracer: functions of the tracer and the method's arguments."""

attributes: Catalogue[str, Callable[[Any], Any]] = Catalogue()
"""The computed attributes of a tracer, such as ``T``."""

replacements: dict[Any, dict[str, Any]] = {}
"""What the lines of a traced function get where they call a function of a NumPy module by name."""

replaced_methods: dict[tuple[type, str], tuple[Callable[..., Any], Callable[..., Any]]] = {}
"""NumPy's methods that do not ask their arguments, and what takes their place: theirs, and ours."""

late: dict[str, Callable[[], None]] = {}
"""What fills the two tables above for a module that the user may import, by the module's name."""

imported_when_read: dict[Any, tuple[str, ...]] = {}
"""The submodules with such functions that a NumPy module imports where it is asked for them."""


def implements(*numpy_functions: Any) -> Callable[[Implementation], Implementation]:
    """Let the decorated function answer for NumPy functions when one is given a tracer."""

    def enter(implementation: Implementation) -> Implementation:
        for function in numpy_functions:
            functions[function] = implementation
        return implementation

    return enter


def apply_ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What ``ufunc(...)`` or ``ufunc.method(...)`` means for tracers."""
    name = ufunc.__name__
    try:
        if method == "__call__":
            # a plain array's method clip is a ufunc, which only that method knows
            operation = ufuncs.get(name) or methods.get(name)
            if operation is not None:
                for x in inputs:
                    if type(x) is list or type(x) is tuple:
                        inputs = tuple(_array_of(x) for x in inputs)
                        break
                if kwargs:
                    return _apply_with_keywords(ufunc, operation, inputs, kwargs)
                return strengthened(operation(*inputs))
        else:
            operation = ufunc_methods.get((name, method)) or ufunc_methods.get(("*", method))
            if operation is not None:
                return operation(ufunc, *inputs, **kwargs)
    except NUMPYS as error:
        add_place(error, _name_of_ufunc(ufunc, method), inputs)
        raise
    full = _name_of_ufunc(ufunc, method)
    raise UnsupportedNumPyError(
        f"{full} is not supported on traced values{located(user_source())}{instead_of(name)}"
    )


def _name_of_ufunc(ufunc: np.ufunc, method: str) -> str:
    name = ufunc.__name__
    package = "np." if getattr(np, name, None) is ufunc else ""  # SciPy's have no module to name
    return f"{package}{name}" + ("" if method == "__call__" else f".{method}")


def _array_of(x: Any) -> Any:
    return operators["asarray"](x) if isinstance(x, (list, tuple)) else x


def strengthened(result: Any) -> Any:
    """A ufunc gives an array even of Python numbers, whose dtype no longer yields."""
    if isinstance(result, tuple):
        return tuple(map(strengthened, result))
    if hasattr(result, "_variable") and result._variable.aval.weak:
        return operators["strengthen"](result)
    return result


_DEFAULTS = {"casting": "same_kind", "order": "K", "subok": True, "signature": None, "axes": None}
"""What the keywords of a ufunc that have no meaning for traced values are when nothing is said."""


_OF_VECTORS = {"vecdot": ("axis", "keepdims")}
"""The keywords that ufuncs of vectors take, by the ufunc's name."""


def _apply_with_keywords(
    ufunc: np.ufunc, operation: Callable[..., Any], inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    kwargs = {k: v for k, v in kwargs.items() if k not in _DEFAULTS or v != _DEFAULTS[k]}
    own = {k: kwargs.pop(k) for k in _OF_VECTORS.get(ufunc.__name__, ()) if k in kwargs}
    outs = kwargs.pop("out", None)
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    if kwargs:
        raise UnsupportedNumPyError(
            f"np.{ufunc.__name__}(..., {next(iter(kwargs))}=...) is not supported on traced values"
            f"{located(user_source())}: leave the keyword out"
        )
    if dtype is not None:
        inputs = tuple(_converted(ufunc, x, dtype_of(dtype)) for x in inputs)
    result = strengthened(operation(*inputs, **own))
    return operators["store"](ufunc.__name__, result, outs, where)


def _converted(ufunc: np.ufunc, x: Any, dtype: np.dtype[Any]) -> Any:
    """An operand in the dtype that a ufunc is to compute in."""
    if hasattr(x, "dtype") and not np.can_cast(x.dtype, dtype, "same_kind"):
        raise TypeError(
            f"np.{ufunc.__name__}(..., dtype={dtype}){located(user_source())}: an operand is "
            f"{x.dtype}, which NumPy does not cast to {dtype}: convert it by .astype"
        )
    return operators["astype"](x, dtype)


def apply_function(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a NumPy function means for arguments with tracers among them."""
    implementation = functions.get(func)
    if implementation is None:
        raise UnsupportedNumPyError(
            f"{name_of(func)} is not supported on traced values{located(user_source())}"
            + instead_of(func.__name__)
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
    """A method of one tracer, which can be asked for the parameters that it has left."""

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
            f"ndarray.{name} is not supported on traced values{located(user_source())}"
            + instead_of(name)
        )
    close = nearest(name, {**methods, **attributes})
    meant = f"; did you mean {close}?" if close else ""
    raise AttributeError(f"an array has no attribute {name!r}{meant}")


def _call_method(name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return method(*args, **kwargs)
    except NUMPYS as error:
        add_place(error, f"x.{name}", args)
        raise
