"""What the names mean, as Python functions of NumPy's scalars: for the emulator of kernels.

They are written with NumPy's own functions, and share nothing with the device code. Integers wrap
without a warning where `np.errstate` says so, which is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.loop.failures import OUT_OF_BOUNDS

Meaning = Callable[..., Any]

_FIRST = np.int64(0)


def where(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


def smaller(x: Any, y: Any) -> Any:
    return x if x < y or x != x else y


def larger(x: Any, y: Any) -> Any:
    return x if x > y or x != x else y


def first_smaller(x: Any, y: Any) -> Any:
    return x if x <= y or x != x else y


def first_larger(x: Any, y: Any) -> Any:
    return x if x >= y or x != x else y


def checked(position: Any, extent: Any, flag: Any) -> Any:
    if 0 <= position < extent:
        return position
    flag[_FIRST] = np.int64(OUT_OF_BOUNDS)
    return position.dtype.type(0)


def required(condition: Any, value: Any, status: Any, flag: Any) -> Any:
    if not condition:
        flag[_FIRST] = status
    return value


def fma(x: Any, y: Any, z: Any) -> Any:
    """`x * y + z`, rounded once: exactly in rational numbers."""
    kind = x.dtype.type
    with np.errstate(all="ignore"):
        plain = x * y + z
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            return plain
        exact = _ratio(x, y, z)
        # (of an exact zero, the plain sum has the sign right)
        return plain if exact[0] == 0 else kind(_rounded(*exact, kind))


def _ratio(x: Any, y: Any, z: Any) -> tuple[int, int]:
    (a, b), (c, d), (e, f) = (float(each).as_integer_ratio() for each in (x, y, z))
    return a * c * f + e * b * d, b * d * f


def _rounded(above: int, below: int, kind: Any) -> float:
    """A fraction, whose denominator is a power of two, as the nearest float of a kind."""
    about = np.finfo(kind)
    sign, above = (-1 if above < 0 else 1), abs(above)
    exponent = above.bit_length() - below.bit_length()  # that of the value, or one more
    exponent -= above << max(-exponent, 0) < below << max(exponent, 0)
    unit = max(exponent, int(about.minexp)) - int(about.nmant)  # of the last place
    scaled, rest_of = (above << -unit, below) if unit < 0 else (above, below << unit)
    whole, rest = divmod(scaled, rest_of)
    if 2 * rest > rest_of or (2 * rest == rest_of and whole & 1):
        whole += 1
    too_large = whole.bit_length() + unit > int(about.maxexp)
    return sign * (math.inf if too_large else math.ldexp(whole, unit))


def copysign(x: Any, y: Any) -> Any:
    return np.copysign(x, y)


def division(x: Any, y: Any) -> Any:
    quotient = abs(int(x)) // abs(int(y))
    return _wrapped(-quotient if (x < 0) != (y < 0) else quotient, x)


def remainder(x: Any, y: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.fmod(x, y)


def shift_left(x: Any, y: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    return _wrapped(int(x) << int(y), x) if 0 <= y < bits else x.dtype.type(0)


def shift_right(x: Any, y: Any) -> Any:
    """Arithmetic: the sign comes in from the left."""
    bits = 8 * x.dtype.itemsize
    return x.dtype.type(int(x) >> (int(y) if 0 <= y < bits else bits))


def logical_shift_right(x: Any, y: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    pattern = int(x) & (2**bits - 1)
    return _wrapped(pattern >> int(y), x) if 0 <= y < bits else x.dtype.type(0)


def _wrapped(value: int, like: Any) -> Any:
    size = like.dtype.itemsize
    return np.frombuffer((value & (256**size - 1)).to_bytes(size, "little"), like.dtype)[0]


def integer(dtype: Any) -> Meaning:
    """A float as an integer; the least one where there is none."""
    about = np.iinfo(dtype)

    def truncated(x: Any) -> Any:
        fits = np.isfinite(x) and about.min <= int(x) <= about.max
        return dtype(int(x) if fits else about.min)

    return truncated


def as_uint64(x: Any) -> Any:
    top = x.dtype.type(2.0**63)
    with np.errstate(all="ignore"):
        number = integer(np.int64)(x - top if x >= top else x)
    return np.uint64(number.view(np.uint64) ^ np.uint64((1 << 63) if x >= top else 0))


def half(bits: Any) -> Any:
    return np.float32(bits.view(np.float16))


def half_bits(x: Any) -> Any:
    with np.errstate(over="ignore", under="ignore"):
        return np.float16(x).view(np.uint16)


def rounded_to_half(x: Any) -> Any:
    return half(half_bits(x))


def square_root(x: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.sqrt(x)


def bits_as(dtype: Any) -> Meaning:
    return lambda x: x.view(dtype)


# -- memory: what a buffer of the emulator does ------------------------------------------------


def read(memory: Any, position: Any) -> Any:
    return memory.constant(position)


def load(count: int) -> Meaning:
    def code(memory: Any, position: Any) -> Any:
        memory.aligned(position, count)
        return tuple(memory[position + np.int64(i)] for i in range(count))

    return code


def load_constant(count: int) -> Meaning:
    def code(memory: Any, position: Any) -> Any:
        memory.aligned(position, count)
        return tuple(memory.constant(position + np.int64(i)) for i in range(count))

    return code


def store(count: int) -> Meaning:
    def code(memory: Any, position: Any, *values: Any) -> None:
        memory.aligned(position, count)
        for i, value in enumerate(values):
            memory[position + np.int64(i)] = value

    return code


_COMBINED: dict[str, Meaning] = {
    "add": lambda x, y: x + y,  # (the sum of truth values is NumPy's: whether one is true)
    "mul": lambda x, y: x * y,
    "min": smaller,
    "max": larger,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}
_OF_HALVES = {"min": first_smaller, "max": first_larger}


def atomic(op: str) -> Meaning:
    """Combine an element with a value; bool lies as uint8, and a half float as uint16."""

    def code(memory: Any, position: Any, value: Any) -> None:
        def combined(old: Any) -> Any:
            if value.dtype == np.bool_:
                return np.uint8(_COMBINED[op](np.bool_(old), value))
            if old.dtype == value.dtype:
                return _COMBINED[op](old, value)
            return half_bits((_COMBINED | _OF_HALVES)[op](half(old), value))

        memory.update(position, combined)

    return code


# -- shuffles: of what all threads of a warp give, what each of them gets ------------------------


def shuffle(values: Sequence[Any], lanes: Sequence[Any]) -> list[Any]:
    """From the thread with a number."""
    return [values[int(n)] for n in lanes]


def shuffle_down(values: Sequence[Any], counts: Sequence[Any]) -> list[Any]:
    """From the thread so many places above; past the last one a thread keeps its own."""
    last = len(values) - 1
    return [values[i + int(n) if i + int(n) <= last else i] for i, n in enumerate(counts)]


def shuffle_xor(values: Sequence[Any], counts: Sequence[Any]) -> list[Any]:
    """From the thread whose number has those bits flipped."""
    return [values[i ^ int(n)] for i, n in enumerate(counts)]
