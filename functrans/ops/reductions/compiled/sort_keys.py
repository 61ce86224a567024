"""Sort keys: unsigned integers in the order of the elements, which may contain their indices.

A key has all bits of its element, which is recovered from it. The bits of floats are mapped to
ordered integers (Herf, "Radix tricks", 2001), and rotated so that NaN of either sign comes last. If
elements are numbered, no two keys are equal: an element's index, in the lower bits or in a word of
its own, breaks ties, so that any sorting algorithm is stable.
"""

from __future__ import annotations

import numpy as np

from functrans.caches import cached_property
from functrans.ir.types import is_float
from functrans.loop.scalar import BOOL, Scalar, bitcast, const, convert, eq, maximum, minimum, where
from functrans.loop.target import Target
from functrans.records import dataclass

Words = tuple[Scalar, ...]
"""A key: an unsigned integer, or two, of which the second breaks ties."""

_WORD, _LONG = np.dtype(np.uint32), np.dtype(np.uint64)


@dataclass(frozen=True)
class Keys:
    """The conversion of elements to keys, and back."""

    dtype: np.dtype[np.generic]  # the dtype of the elements
    extent: int  # the number of elements that are sorted together
    numbered: bool  # whether keys contain, and are converted back to, the indices of the elements
    descending: bool = False  # whether greater elements come first; of elements of 4 or 8 bytes

    @cached_property
    def plain(self) -> np.dtype[np.generic]:
        """The dtype of a key without an index."""
        return _LONG if self.dtype.itemsize == 8 else _WORD

    @cached_property
    def bits(self) -> int:
        """The number of bits of a key without an index."""
        if self.dtype == BOOL:
            return 1
        return 32 if self.dtype == np.float16 else 8 * self.dtype.itemsize

    @cached_property
    def number_bits(self) -> int:
        """The number of bits of an element's index; all ones is the index of no element."""
        return self.extent.bit_length() if self.numbered else 0

    @cached_property
    def dtypes(self) -> tuple[np.dtype[np.generic], ...]:
        """The dtypes of the words of a key."""
        total = self.bits + self.number_bits
        if total <= 64:
            return (_WORD if total <= 32 else _LONG,)
        return (self.plain, _WORD if self.number_bits <= 32 else _LONG)

    @property
    def nbytes(self) -> int:
        return sum(dtype.itemsize for dtype in self.dtypes)

    def lanes(self, target: Target) -> int:
        """The number of keys in a vector of first words, the longer ones: a power of two."""
        return target.lanes(self.dtypes[0].itemsize)

    def last(self) -> Words:
        """A key that is not less than any other."""
        return tuple(const(-1, dtype) for dtype in self.dtypes)

    # -- of elements, and back ------------------------------------------------------------------

    def of(self, value: Scalar, number: Scalar) -> Words:
        """The key of an element and its index."""
        return self.with_number(self.plain_of(value), number)

    def plain_of(self, value: Scalar) -> Scalar:
        """The key of an element without its index."""
        key = self._of_float(value) if is_float(self.dtype) else self._of_integer(value)
        return ~key if self.descending else key

    def plain_in(self, key: Words) -> Scalar:
        """The key without the index that it contains."""
        return convert(key[0] >> self.number_bits if len(key) == 1 else key[0], self.plain)

    def with_number(self, key: Scalar, number: Scalar) -> Words:
        """The key of an element and its index, from the one without."""
        if not self.numbered:
            return (key,)
        first, *second = self.dtypes
        if second:
            return key, convert(number, *second)
        return ((convert(key, first) << self.number_bits) | convert(number, first),)

    def result(self, key: Words, dtype: np.dtype[np.generic]) -> Scalar:
        """The element or index of a key."""
        word = key[-1]
        if self.numbered:
            if len(key) == 1:
                word = word & ((1 << self.number_bits) - 1)
            return convert(word, dtype)
        word = ~word if self.descending else word
        return self._as_float(word) if is_float(self.dtype) else self._as_integer(word)

    def _of_integer(self, value: Scalar) -> Scalar:
        if self.dtype.kind != "i":
            return convert(value, self.plain)
        shifted = convert(convert(value, f"i{self.plain.itemsize}"), self.plain)
        # a narrow integer has its sign in all higher bits
        return (shifted ^ self._sign) & const((1 << self.bits) - 1, self.plain)

    def _as_integer(self, key: Scalar) -> Scalar:
        if self.dtype == BOOL:
            return key > 0
        if self.dtype.kind != "i":
            return convert(key, self.dtype)
        return convert(convert(key ^ self._sign, f"i{self.plain.itemsize}"), self.dtype)

    @cached_property
    def _sign(self) -> int:
        return 1 << (self.bits - 1)

    @cached_property
    def _infinite(self) -> int:
        """The bits of infinity."""
        wide = np.dtype(f"f{self.plain.itemsize}")
        return int(np.asarray(np.inf, wide).view(self.plain))

    def _ordered(self, bits: Scalar) -> Scalar:
        """The bits of floats as ordered integers, with -inf as 0."""
        signed = f"i{self.plain.itemsize}"
        negative = bitcast(bitcast(bits, signed) >> (8 * self.plain.itemsize - 1), self.plain)
        return (bits ^ (negative | self._sign)) - self._least

    @cached_property
    def _least(self) -> int:
        """The integer of -inf before the rotation: the number of NaN that would come before it."""
        return self._sign - 1 - self._infinite

    def _of_float(self, value: Scalar) -> Scalar:
        bits = bitcast(convert(value, f"f{self.plain.itemsize}"), self.plain)
        key = self._ordered(bits)
        if not self.numbered:
            return key
        magnitude = bits & (self._sign - 1)
        zero = self._sign - self._least
        key = where(eq(magnitude, 0), const(zero, self.plain), key)
        return where(magnitude > self._infinite, const(-1, self.plain), key)

    def _as_float(self, key: Scalar) -> Scalar:
        signed = f"i{self.plain.itemsize}"
        ordered = key + self._least
        negative = bitcast(bitcast(~ordered, signed) >> (8 * self.plain.itemsize - 1), self.plain)
        bits = ordered ^ (negative | self._sign)
        return convert(bitcast(bits, f"f{self.plain.itemsize}"), self.dtype)


def comes_before(x: Words, y: Words) -> Scalar:
    """Whether a key is less than another."""
    less = x[0] < y[0]
    for first, second in zip(x[1:], y[1:], strict=True):
        less = less | (eq(x[0], y[0]) & (first < second))
    return less


def in_order(x: Words, y: Words) -> tuple[Words, Words]:
    """Two keys, the lesser first."""
    if len(x) == 1:
        lesser = minimum(x[0], y[0])
        # comparing long keys takes several instructions; xor gives the other key in fewer
        greater = x[0] ^ y[0] ^ lesser if x[0].dtype == _LONG else maximum(x[0], y[0])
        return (lesser,), (greater,)
    swapped = comes_before(y, x)
    pairs = tuple(zip(x, y, strict=True))
    return (
        tuple(where(swapped, b, a) for a, b in pairs),
        tuple(where(swapped, a, b) for a, b in pairs),
    )


def chosen(condition: Scalar, x: Words, y: Words) -> Words:
    """Select one of two keys."""
    return tuple(where(condition, a, b) for a, b in zip(x, y, strict=True))
