"""The type of a value in a graph: its shape, its dtype, and whether the dtype is weak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functrans.caches import cached
from functrans.errors import DtypeError
from functrans.ir.on_device import OnDevice

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Shape = tuple[int, ...]

GROWS = -1
"""The extent of a stack whose length is determined at run time."""

_SHORT_NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip


_INSTEAD = {
    "c": "use np.complex128",
    "f": "use np.float64",
    "M": "count the time in numbers",
    "m": "count the time in numbers",
    "V": "make each field an array of its own",
}


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is bfloat16, which the package `ml_dtypes` defines.

    It is recognised by its name, so that the package need not be imported.
    """
    return dtype.kind == "V" and dtype.type.__name__ == "bfloat16"


def is_supported(dtype: np.dtype[Any]) -> bool:
    """Whether a graph may have arrays of a dtype: bool, numbers of at most 64 bits, complex."""
    if dtype.kind in "biufc":
        return dtype.itemsize <= (16 if dtype.kind == "c" else 8) and dtype.isbuiltin != 2
    return is_bfloat16(dtype)


def instead_of(dtype: np.dtype[Any]) -> str:
    """Advice in messages about an unsupported dtype."""
    if dtype.isbuiltin == 2:
        return "convert it to np.float32"
    return _INSTEAD.get(dtype.kind, "turn it into numbers outside of the traced function")


def unsupported(value: Any) -> str:
    """The message about an array or number of an unsupported dtype."""
    if value.dtype == object and value.size and isinstance(value.flat[0], np.ndarray):
        return (
            f"{describe(value)}, an array of arrays: pad them to one length; if they are residuals "
            "of loops in a pullback, call it within the vmap that makes it, or give the loops "
            "max_steps"
        )
    return f"{describe(value)}, whose dtype is not supported: {instead_of(value.dtype)}"


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if not is_supported(dtype):
        raise DtypeError(
            f"expected a bool, integer, float or complex dtype, found {dtype}: {instead_of(dtype)}"
        )
    return dtype if dtype.isnative else dtype.newbyteorder("=")


_WEAK: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}


class Aval:
    """An abstract value: the shape and dtype of an array, without its elements.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype-like
    weak : bool
        Whether the value represents a Python scalar, which adopts the dtype of the array that it
        is combined with (NEP 50).

    Examples
    --------
    >>> Aval((2, 3), "float32")
    f32[2,3]
    >>> Aval((), float, weak=True).ndim
    0
    """

    __slots__ = ("_hash", "dtype", "promotes_as", "shape", "weak")

    shape: Shape
    dtype: np.dtype[Any]
    weak: bool
    promotes_as: np.dtype[Any] | type
    """Its operand for promotion: its dtype, or the class of Python's numbers if it is weak."""

    def __init__(self, shape: Shape, dtype: DTypeLike, weak: bool = False) -> None:
        self.shape = shape
        self.dtype = _native(np.dtype(dtype))
        self.weak = weak
        self.promotes_as = _WEAK.get(self.dtype.kind, self.dtype) if weak else self.dtype
        self._hash = hash((shape, self.dtype, weak))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Aval)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak == other.weak
        )

    def __repr__(self) -> str:
        name = _SHORT_NAMES.get(self.dtype.name, self.dtype.name)
        return f"{name}{'*' if self.weak else ''}[{','.join(map(str, self.shape))}]"

    def same_array_type(self, other: Aval) -> bool:
        """Whether shape and dtype agree, weak or not."""
        return self.shape == other.shape and self.dtype == other.dtype

    def update(self, *, shape: Shape | None = None, dtype: DTypeLike | None = None) -> Aval:
        """A strong aval like this one, with another shape or dtype."""
        return Aval(self.shape if shape is None else shape, self.dtype if dtype is None else dtype)


@cached(4096)
def interned(shape: Shape, dtype: np.dtype[Any], weak: bool = False) -> Aval:
    """One `Aval` object per type, so that comparing types is mostly comparing identities."""
    return Aval(shape, dtype, weak)


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape that shapes broadcast to; unlike `numpy.broadcast_shapes`, with any number of axes.

    Raises `ValueError` if they do not broadcast.
    """
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for i, extent in enumerate(shape, ndim - len(shape)):
            if extent != 1 and result[i] not in (1, extent):
                raise ValueError(
                    "shape mismatch: objects cannot be broadcast to a single shape: "
                    f"{', '.join(map(str, shapes))}"
                )
            result[i] = result[i] if extent == 1 else extent
    return tuple(result)


_PYTHON_SCALARS = {
    bool: Aval((), np.bool_, weak=True),
    int: Aval((), np.int64, weak=True),
    float: Aval((), np.float64, weak=True),
    complex: Aval((), np.complex128, weak=True),
}


def aval_of(value: Any) -> Aval:
    """The aval of a NumPy array or scalar, or of a Python number.

    Raises `TypeError` if the value is not a number or an array of bool, integer, float or complex
    dtype.
    """
    weak = _PYTHON_SCALARS.get(type(value))
    if weak is not None:
        return weak
    if isinstance(value, (np.ndarray, np.generic, OnDevice)) and is_supported(value.dtype):
        return interned(value.shape, value.dtype)
    raise TypeError(f"not an array of bool, integer, float or complex dtype: {describe(value)}")


def describe(value: Any) -> str:
    """The description of a value in error messages: an array by its type, others by class."""
    if isinstance(value, np.ndarray):
        return f"{type(value).__name__} {value.dtype}[{','.join(map(str, value.shape))}]"
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} of type {type(value).__name__}"


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is differentiable: float or complex."""
    return dtype.kind in "fc" or is_bfloat16(dtype)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a real floating-point one."""
    return dtype.kind == "f" or is_bfloat16(dtype)


def fraction_bits(dtype: np.dtype[Any]) -> int:
    """The number of mantissa bits of a float, without the leading one."""
    return 7 if is_bfloat16(dtype) else np.finfo(dtype).nmant


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is complex."""
    return dtype.kind == "c"


_PARTS: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
_PAIRS: dict[np.dtype[Any], np.dtype[Any]] = {part: pair for pair, part in _PARTS.items()}


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the real and imaginary part; a real dtype itself."""
    return _PARTS.get(dtype, dtype)


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype to which NumPy promotes a dtype."""
    if is_complex(dtype):
        return dtype
    return _PAIRS.get(dtype) or np.result_type(dtype, np.complex64)


def may_change(array: Any) -> bool:
    """Whether an array may change: it, or an array that it is a view of, is writable."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        if array.base is None:
            return not array.flags.owndata
        array = array.base
    return not isinstance(array, bytes)


def interleaved(x: Any, dtype: np.dtype[Any]) -> Any:
    """A complex array or number as a real array of interleaved parts, if possible a view."""
    return np.asarray(x, dtype, order="C")[..., None].view(real_dtype(dtype))


def joined(x: Any, dtype: np.dtype[Any]) -> Any:
    """The inverse of `interleaved`."""
    return np.asarray(x, order="C").view(dtype)[..., 0]
