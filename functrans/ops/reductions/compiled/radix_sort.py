"""Radix sort on a CPU: the keys of a long row are distributed by eight bits at a time.

The passes go from the lowest digit to the highest (least significant digit first). Each moves all
keys to the buckets of a digit, from one half of a scratch buffer to the other; a first loop has
counted the keys of all buckets. Where all keys have the same digit, as in small integers, they are
copied. A pass keeps the order of keys with equal digits. So the index that
follows a key, which breaks ties, needs no passes of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, convert, eq, minimum
from functrans.loop.statements import Assign, Buffer, If, Let, Store, load, local
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Position
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.reductions.compiled.sort_keys import Keys, Words
from functrans.records import NamedTuple

BITS = 8
"""The bits of a digit. Measured: with 11, a pass writes to more lines than the first-level cache
has, and three million keys take 1.5 times as long."""


class Memory(NamedTuple):
    """Memory for the keys of a row: a buffer for each word, and the indices before the last."""

    words: tuple[Buffer, ...]
    line: Position

    def read(self, place: Scalar) -> Words:
        return tuple(load(word, (*self.line, place)) for word in self.words)

    def write(self, place: Scalar, key: Words) -> tuple[Store, ...]:
        both = zip(self.words, key, strict=True)
        return tuple(Store(word, (*self.line, place), value) for word, value in both)


class Radix(NamedTuple):
    """The digits of keys, and a buffer that counts how many keys have each."""

    keys: Keys
    counts: Buffer

    @property
    def zero(self) -> Scalar:
        return const(0, self.counts.dtype)

    def sort(
        self, read: Callable[[Scalar], Words], memory: tuple[Memory, Memory], target: Target
    ) -> tuple[Body, Memory]:
        """Sort the keys that ``read`` gives; also returns the memory in which they are then."""
        digits, buckets = self.counts.extents
        here, there = memory
        bucket, place = index("bucket", buckets), index("place", self.keys.extent)
        zeros = tuple(const(0, word.dtype) for word in there.words)
        # initialised, since the verifier cannot derive from the counts that passes write all of it
        body = vectorised(place, there.write(place, zeros), target)
        for digit in range(digits):
            zero = Store(self.counts, (const(digit, INDEX), bucket), self.zero)
            body += vectorised(bucket, zero, target)
        key, kept = _kept(read(place))
        one = const(1, self.counts.dtype)
        counted = [Store(self.counts, self._bucket(n, key), one, "add") for n in range(digits)]
        body += nest((place,), (kept, *here.write(place, key), *counted))
        for digit in range(digits):
            moves = nest((place,), self._moved(digit, here.read(place), there))
            copies = vectorised(place, there.write(place, here.read(place)), target)
            total, first = local(self.counts.dtype, "total"), local(self.counts.dtype, "first")
            in_first = load(self.counts, self._bucket(digit, here.read(ZERO)))
            body += (Let((first, total), (in_first, self.zero)),)
            body += self._starts(digit, bucket, total)
            body += (If(eq(first, total), copies, moves),)
            here, there = there, here
        return body, here

    def _bucket(self, digit: int, key: Words) -> Position:
        """The position of the count of a key's digit."""
        below = self.keys.number_bits if len(key) == 1 else 0
        bits = (key[0] >> (below + BITS * digit)) & ((1 << BITS) - 1)
        return const(digit, INDEX), convert(bits, INDEX)

    def _starts(self, digit: int, bucket: Scalar, total: Scalar) -> Body:
        """Replace the counts of keys by the positions at which their buckets start."""
        at, count = (const(digit, INDEX), bucket), local(self.counts.dtype, "count")
        step = (
            Let((count,), (load(self.counts, at),)),
            Store(self.counts, at, total),
            Assign((total,), (total + count,)),
        )
        return nest((bucket,), step)

    def _moved(self, digit: int, key: Words, there: Memory) -> Body:
        """Move a key to the next position of its bucket."""
        key, kept = _kept(key)
        at, end = self._bucket(digit, key), local(self.counts.dtype, "end")
        place = minimum(convert(end, INDEX), self.keys.extent - 1)  # it is inside
        return (
            kept,
            Let((end,), (load(self.counts, at),)),
            *there.write(place, key),
            Store(self.counts, at, end + 1),
        )


def digits_of(keys: Keys) -> int:
    """The number of digits of a key."""
    return -(-keys.bits // BITS)


def counts_of(keys: Keys) -> tuple[np.dtype[Any], tuple[int, int]]:
    """The dtype and the shape of the buffer of counts."""
    dtype = np.uint32 if keys.extent < 1 << 32 else np.uint64
    return np.dtype(dtype), (digits_of(keys), 1 << BITS)


def _kept(key: Words) -> tuple[Words, Let]:
    """The words of a key as locals, so that they are read once."""
    words = tuple(local(word.dtype, "key") for word in key)
    return words, Let(words, key)
