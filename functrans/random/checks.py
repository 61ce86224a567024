"""Validation of arguments in this namespace: keys, shapes, dtypes and parameters."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from functrans.api.compile import jit
from functrans.caches import cached
from functrans.errors import AxisSizeError, DtypeError, ShapeError
from functrans.ir.on_device import OnDevice
from functrans.ir.types import Shape, describe, is_float
from functrans.numpy.arrays import shape_of
from functrans.ops.arrays.promotion import cast, strong_dtype
from functrans.ops.arrays.structural import broadcast_to
from functrans.records import NamedTuple
from functrans.trace.dtypes import dtype_of
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

KEY = np.dtype(np.uint32)

Function = TypeVar("Function", bound=Callable[..., Any])


def sampler(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function at its first call, for each shape and dtype, and keyword-only argument.

    Random numbers are then equal to the bit inside and outside of compiled functions, and under
    `vmap`.
    """

    @wraps(function)
    def draw(*args: Any, **static: Any) -> Any:
        return _compiled(function)(*args, **static)

    return draw


@cached(256)
def _compiled(function: Callable[..., Any]) -> Any:
    static = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY or parameter.name in ("shape", "dtype")
    ]
    return jit(function, static_argnames=static)


def checked_key(key: Any, what: str) -> Any:
    """A single key; raises `DtypeError` for other values, `ShapeError` for several keys."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        raise DtypeError(
            f"{what} takes a key{here()}, found the number {key}: make a key of "
            f"it, random.key({key})"
        )
    if not isinstance(key, (np.ndarray, Tracer, OnDevice)) or key.dtype != KEY:
        raise DtypeError(
            f"{what} takes a key{here()}, which is a uint32 array of shape (2,), "
            f"found {_described(key)}: make one by random.key(seed), or split one"
        )
    if key.shape == (2,):
        return key
    if len(key.shape) > 1 and key.shape[-1] == 2:
        raise ShapeError(
            f"{what} takes one key{here()}, found an array of keys of shape "
            f"{key.shape[:-1]}: use vmap, or one of them, keys[0]"
        )
    raise ShapeError(
        f"{what} takes a key{here()}, which is a uint32 array of shape (2,), "
        f"found one of shape {key.shape}: make one by random.key(seed), or split one"
    )


def _described(x: Any) -> str:
    return str(x._aval) if isinstance(x, Tracer) else describe(x)


def checked_shape(shape: Any, what: str) -> Shape:
    """The shape of the result, given as a number or a sequence."""
    if isinstance(shape, Tracer) or any(isinstance(n, Tracer) for n in _entries(shape)):
        raise ShapeError(
            f"{what} takes a shape that is known when it is traced{here()}, found "
            "a traced one: use static_argnums"
        )
    try:
        sizes = shape_of(shape)
    except (AttributeError, TypeError):
        raise ShapeError(
            f"{what} takes a shape{here()}, found {describe(shape)}: write a tuple of integers"
        ) from None
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{what} takes a shape{here()}, and sizes are not negative: found {sizes}")
    return sizes


def check_enough(wanted: int, count: int, replace: bool, what: str, of: str) -> None:
    """Raise unless that many can be drawn of ``count`` elements."""
    if wanted > (math.inf if replace and count else count):
        raise AxisSizeError(
            f"{what} was asked for {wanted} of {count} {of}{here()}: "
            + ("there is nothing to choose from" if count == 0 else "write replace=True, or fewer")
        )


def _entries(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, (list, tuple)) else ()


class _Kind(NamedTuple):
    """Dtypes that a result may have."""

    called: str
    letters: str
    least_bytes: int
    example: str


FLOAT = _Kind("float32 or float64", "f", 4, "float64")
ANY_FLOAT = _Kind("floats", "f", 2, "float64")
INTEGER = _Kind("an integer dtype", "iu", 1, "int64")
UNSIGNED = _Kind("an unsigned integer dtype", "u", 1, "uint64")
SIGNED = _Kind("a signed integer dtype or a float one", "if", 1, "int64")
COUNT = _Kind("an integer dtype or a float one", "iuf", 1, "float64")


def checked_dtype(dtype: Any, what: str, kind: _Kind = FLOAT) -> np.dtype[Any]:
    """The dtype of the result."""
    found = dtype_of(dtype)
    letter = "f" if is_float(found) else found.kind
    if letter in kind.letters and found.itemsize >= kind.least_bytes:
        return found
    raise DtypeError(
        f"{what} gives {kind.called}{here()}, and was asked for {found}: write "
        f"dtype=np.{kind.example}, or convert the result by astype"
    )


def joint_shape(shape: Any, what: str, *parameters: Any, less: int = 0) -> Shape:
    """The requested shape, or the shape to which the parameters broadcast.

    The last ``less`` axes of each parameter are not broadcast.
    """
    own = [_shape(p)[: len(_shape(p)) - less] for p in parameters]
    try:
        common = np.broadcast_shapes(*own)
        if shape is None:
            return common
        asked = checked_shape(shape, what)
        fits = np.broadcast_shapes(asked, common) == asked
    except ValueError as error:
        if isinstance(error, ShapeError):
            raise
        fits, asked = False, shape
    if not fits:
        shapes = " and ".join(map(str, own))
        raise ShapeError(
            f"the parameters of {what} have shapes {shapes}{here()}, which do not "
            f"broadcast to {asked}"
        )
    return asked


def _shape(x: Any) -> Shape:
    return x.shape if isinstance(x, Tracer) else np.shape(x)


def parameter(x: Any, dtype: np.dtype[Any], shape: Shape | None = None) -> Any:
    """A parameter, converted to the dtype of the result, and broadcast to its shape if given."""
    x = x if isinstance(x, (Tracer, np.ndarray, np.generic, OnDevice)) else np.asarray(x)
    if x.dtype.kind in "cOSU":
        advice = ": pass x.real" if x.dtype.kind == "c" else ""
        raise DtypeError(
            f"the parameters of a distribution are real numbers{here()}, found {x.dtype}{advice}"
        )
    x = cast(x, dtype)
    return x if shape is None else broadcast_to(x, shape=shape)


def float_dtype_of(*parameters: Any) -> np.dtype[Any]:
    """The dtype of a result, promoted from its parameters; integers count as float64."""
    found = np.result_type(*(strong_dtype(p) for p in parameters))
    return found if found.kind == "f" else np.dtype(np.float64)


def distribution(kind: _Kind = FLOAT) -> Callable[[Function], Function]:
    """Define a distribution by a function of a key, parameters, a shape and a dtype.

    The function that is returned has the same signature. It checks its arguments, and calls a
    `sampler` with the shape to which the parameters broadcast. Its docstring gets the entries of
    the key, the shape and the dtype.
    """

    def define(function: Function) -> Function:
        what = f"random.{function.__name__}"
        draw = sampler(function)
        defaults = function.__defaults__ or ()
        most = function.__code__.co_argcount
        least = most - len(defaults)

        @wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            if kwargs or not least <= len(args) <= most:
                args = _positional(function, args, kwargs, what)
            key, *parameters, shape, dtype = (*args, *defaults[len(args) - least :])
            key, dtype = checked_key(key, what), checked_dtype(dtype, what, kind)
            shape = (
                joint_shape(shape, what, *parameters) if parameters else checked_shape(shape, what)
            )
            return draw(key, *parameters, shape=shape, dtype=dtype)

        public.__doc__ = _with_common_entries(function.__doc__, most > 3, kind)
        found: Any = public
        return found

    return define


_signature = cached(64)(inspect.signature)


def _positional(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], what: str
) -> tuple[Any, ...]:
    try:
        bound = _signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    bound.apply_defaults()
    return bound.args


def _with_common_entries(doc: str | None, has_parameters: bool, kind: _Kind) -> str | None:
    if doc is None:  # python -OO
        return None
    # since Python 3.13, docstrings that are literals come without their indentation
    head, line, rest = inspect.cleandoc(doc).partition("\n----------")
    entries, _, rest = rest.partition("\n\n")
    entries, _, about = entries.partition("\ndtype : dtype\n")
    shape = f", optional{_BY_DEFAULT}" if has_parameters else ""
    key = "key : array of shape (2,), uint32"
    common = f"shape : tuple of int{shape}\ndtype : dtype\n{about or f'    {kind.called}.'}"
    return f"{head}{line}\n{key}{entries}\n{common}\n\n{rest}"


_BY_DEFAULT = "\n    By default that to which the parameters broadcast; they broadcast to it."
