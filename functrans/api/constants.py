"""Constants of programs: captured arrays, compared with copies before each call."""

from __future__ import annotations

from math import gcd
from typing import Any, Literal

import numpy as np

from functrans.run.call import guards
from functrans.run.call.guards import Instruction

SMALL = 4096
"""The most bytes of a captured array that is a constant, until it changes."""

_BLOCK = 1 << 17  # small enough to stay in the cache


def _as_array(x: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(x)
    except ValueError:  # NumPy has no dtype for a buffer of pointers
        return np.frombuffer(x, np.uint8)


def _type_of(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Shape, memory order and dtype; a structured dtype as text, since its fields can be renamed.

    ``x.ravel("K")`` and ``x.flags`` of arrays with the same elements differ with the memory order.
    """
    strides = None if array.flags.c_contiguous else array.strides
    return array.shape, strides, array.dtype if array.dtype.names is None else repr(array.dtype)


class Copy:
    """A copy of an array; ``key`` represents its contents in a signature."""

    def __init__(self, array: Any) -> None:
        array = _as_array(array)
        self.nbytes: int = array.nbytes
        self.type = _type_of(array)
        self.order: Literal["C", "F"] = "F" if array.flags.f_contiguous else "C"
        small = array.nbytes <= SMALL or array.dtype.hasobject
        self.bytes = array.tobytes(self.order) if small else None
        self.bits = None if small else self._bits_of(array).copy()
        self.key: Any = self if self.bytes is None else (*self.type, self.bytes)

    def same(self, array: Any) -> bool:
        """Whether an array has the same type and the same bits."""
        array = _as_array(array)
        if _type_of(array) != self.type:
            return False
        if self.bytes is not None:
            return bool(array.tobytes(self.order) == self.bytes)
        assert self.bits is not None
        bits = self._bits_of(array)
        starts = range(0, bits.size, _BLOCK)
        return all(np.array_equal(bits[i : i + _BLOCK], self.bits[i : i + _BLOCK]) for i in starts)

    def guard(self, array: Any) -> tuple[Instruction, Any] | None:
        """The instruction of `guards.constant` for the array."""
        if type(array) is not np.ndarray or array.dtype.names is not None:
            return None
        if _type_of(array) != self.type:
            return None
        if self.order == "F" and array.ndim > 1:
            return None
        kept: Any = self.bits if self.bytes is None else np.frombuffer(self.bytes, np.uint8)
        return guards.constant(array, kept)

    def _bits_of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        flat = array.ravel(self.order)
        return flat.view(f"u{gcd(flat.itemsize, 8)}")
