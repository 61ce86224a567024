"""Threefry-2x32 with 20 rounds: a block cipher that turns keys and counters into random bits.

References
----------
J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(2011), section 4.3: Threefry-N x W, its rotations and the parity constant of its key schedule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.primitive import ZERO_DERIVATIVE
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.arrays.promotion import DtypeKey
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import Domain

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20

WORD, BLOCK = np.dtype(np.uint32), np.dtype(np.uint64)


def _cipher(key: tuple[Any, Any], counter: tuple[Any, Any], rotated: Any) -> tuple[Any, Any]:
    """The two output words for a key and a counter, in arithmetic modulo 2**32."""
    keys = (*key, key[0] ^ key[1] ^ PARITY)
    first, second = counter[0] + keys[0], counter[1] + keys[1]
    for i in range(ROUNDS):
        first = first + second
        second = rotated(second, ROTATIONS[i % 8]) ^ first
        done, rest = divmod(i + 1, 4)
        if rest == 0:
            first = first + keys[done % 3]
            second = second + (keys[(done + 1) % 3] + done)
    return first, second


def _rotated(x: Any, bits: int) -> Any:
    return (x << bits) | (x >> (32 - bits))


def _evaluated(*operands: Any) -> tuple[Any, Any]:
    wide = [np.asarray(x, WORD) for x in operands]
    with np.errstate(over="ignore"):
        return _cipher((wide[0], wide[1]), (wide[2], wide[3]), _rotated)


def _evaluate(*operands: Any) -> Any:
    first, second = _evaluated(*operands)
    return ((np.asarray(first, BLOCK) << 32) | second)[()]


def _evaluate_folded(*operands: Any) -> Any:
    first, second = _evaluated(*operands)
    return (first ^ second)[()]


def _as_scalars(*operands: Scalar) -> tuple[Scalar, Scalar]:
    key, low_key, counter, low_counter = operands
    return _cipher((key, low_key), (counter, low_counter), scalar.rotl)


def _scalar(*operands: Scalar) -> Scalar:
    first, second = _as_scalars(*operands)
    return (scalar.convert(first, BLOCK) << 32) | scalar.convert(second, BLOCK)


def _scalar_folded(*operands: Scalar) -> Scalar:
    first, second = _as_scalars(*operands)
    return first ^ second


def _of_words(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    if any(np.dtype(key) != WORD for key in keys):
        found = ", ".join(str(np.dtype(key)) for key in keys)
        raise DtypeError(f"threefry2x32 is defined for uint32 words, and found {found}")
    return (WORD,) * len(keys)


_words = Domain(lambda rng, shape: rng.integers(0, 2**32, shape, dtype=WORD))

threefry = elementwise(
    "threefry2x32", numpy=_evaluate, scalar=_scalar,
    jvp=ZERO_DERIVATIVE,
    promotion=_of_words, result="uint64", samples=[_words] * 4,
)  # fmt: skip
"""64 random bits for each key (two words) and counter (two words), the high word first."""

folded_threefry = elementwise(
    "folded_threefry2x32", numpy=_evaluate_folded, scalar=_scalar_folded,
    jvp=ZERO_DERIVATIVE,
    promotion=_of_words, result="uint32", samples=[_words] * 4,
)  # fmt: skip
"""32 random bits, the two words combined, without 64-bit numbers, which would halve vectors."""
