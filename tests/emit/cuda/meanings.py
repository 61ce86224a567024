"""Reference semantics of device functions, in Python on NumPy's scalars, for the emulator.

They use NumPy's own functions, and share no code with the device functions. Integers wrap; callers
suppress the warnings by `np.errstate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.emit.cuda.names import SIZED, TABLE
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
        # (if the exact result is zero, the plain sum has the right sign)
        return plain if exact[0] == 0 else kind(_rounded(*exact, kind))


def _ratio(x: Any, y: Any, z: Any) -> tuple[int, int]:
    (a, b), (c, d), (e, f) = (float(each).as_integer_ratio() for each in (x, y, z))
    return a * c * f + e * b * d, b * d * f


def _rounded(above: int, below: int, kind: Any) -> float:
    """The float of a type that is nearest to a fraction whose denominator is a power of two."""
    about = np.finfo(kind)
    sign, above = (-1 if above < 0 else 1), abs(above)
    exponent = above.bit_length() - below.bit_length()  # the exponent of the value, or one more
    exponent -= above << max(-exponent, 0) < below << max(exponent, 0)
    unit = max(exponent, int(about.minexp)) - int(about.nmant)  # the exponent of the last digit
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
    """Arithmetic right shift: the sign bit is replicated."""
    bits = 8 * x.dtype.itemsize
    return x.dtype.type(int(x) >> (int(y) if 0 <= y < bits else bits))


def logical_shift_right(x: Any, y: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    pattern = int(x) & (2**bits - 1)
    return _wrapped(pattern >> int(y), x) if 0 <= y < bits else x.dtype.type(0)


def rotate_left(x: Any, y: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    pattern, amount = int(x) & (2**bits - 1), int(y) % bits
    return _wrapped(pattern << amount | pattern >> (bits - amount), x)


def _wrapped(value: int, like: Any) -> Any:
    size = like.dtype.itemsize
    return np.frombuffer((value & (256**size - 1)).to_bytes(size, "little"), like.dtype)[0]


def integer(dtype: Any) -> Meaning:
    """A float as an integer; the least integer if it is out of range."""
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


def as_tf32(x: Any) -> Any:
    """The nearest float32 with 10 bits of mantissa; ties are rounded away from zero."""
    if np.isnan(x):
        return x
    return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def square_root(x: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.sqrt(x)


def bits_as(dtype: Any) -> Meaning:
    return lambda x: x.view(dtype)


# -- memory: operations on a buffer of the emulator --------------------------------------------


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
    "add": lambda x, y: x + y,  # (NumPy adds truth values as a logical or)
    "mul": lambda x, y: x * y,
    "min": smaller,
    "max": larger,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}
_OF_HALVES = {"min": first_smaller, "max": first_larger}


def atomic(op: str) -> Meaning:
    """Combine an element with a value; bool is stored as uint8, and a half float as uint16."""

    def code(memory: Any, position: Any, value: Any) -> None:
        def combined(old: Any) -> Any:
            if value.dtype == np.bool_:
                return np.uint8(_COMBINED[op](np.bool_(old), value))
            if old.dtype == value.dtype:
                return _COMBINED[op](old, value)
            return half_bits((_COMBINED | _OF_HALVES)[op](half(old), value))

        memory.update(position, combined)

    return code


# -- shuffles: what each thread of a warp receives, given the operands of all threads ------------


def shuffle(values: Sequence[Any], lanes: Sequence[Any]) -> list[Any]:
    """From the thread with the given index."""
    return [values[int(n)] for n in lanes]


def shuffle_down(values: Sequence[Any], counts: Sequence[Any]) -> list[Any]:
    """From the thread ``count`` places above; a thread without one keeps its own value."""
    last = len(values) - 1
    return [values[i + int(n) if i + int(n) <= last else i] for i, n in enumerate(counts)]


def shuffle_xor(values: Sequence[Any], counts: Sequence[Any]) -> list[Any]:
    """From the thread whose index differs in the given bits."""
    return [values[i ^ int(n)] for i, n in enumerate(counts)]


# -- tensor cores: what each thread of a warp receives, given the operands of all threads --------


def matrices(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Four matrices of 8 rows, each provided by a thread; two elements of row i go to each of four.

    (PTX ISA, `ldmatrix`: thread ``4 i + j`` gets the elements ``2 j`` and ``2 j + 1``.)
    """
    found = np.array(rows, np.uint16).reshape(4, 8, 8)
    return _in_words(found)


def matrices_transposed(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The same for columns."""
    return _in_words(np.array(rows, np.uint16).reshape(4, 8, 8).transpose(0, 2, 1))


def _in_words(found: Any) -> list[tuple[Any, ...]]:
    wide = found.astype(np.uint32)
    return [
        tuple(each[i, 2 * j] | each[i, 2 * j + 1] << np.uint32(16) for each in wide)
        for i in range(8)
        for j in range(4)
    ]


def mma_float16(*registers: Sequence[Any]) -> list[tuple[Any, ...]]:
    return _mma_of_halves(registers, lambda words: words.view(np.float16).astype(np.float64))


def mma_bfloat16(*registers: Sequence[Any]) -> list[tuple[Any, ...]]:
    def numbers(words: Any) -> Any:
        upper = words.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return upper.view(np.float32).astype(np.float64)

    return _mma_of_halves(registers, numbers)


def _mma_of_halves(registers: Sequence[Any], numbers: Meaning) -> list[tuple[Any, ...]]:
    """PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type".

    Of the elements ``a0`` to ``a7`` and ``b0`` to ``b3`` of a thread, the row of ``ai`` is its
    group, but 8 further down for ``i`` in 2, 3, 6 and 7; the column is ``2 (lane % 4) + (i & 1)``,
    8 more from ``a4`` on. Of ``bi`` the row is ``2 (lane % 4) + (i & 1)``, 8 more from ``b2`` on.
    """
    a, b = np.empty((16, 16)), np.empty((16, 8))
    for lane in range(32):
        group, within = lane >> 2, lane % 4
        own_a = numbers(np.array([each[lane] for each in registers[4:8]], np.uint32))
        own_b = numbers(np.array([each[lane] for each in registers[8:]], np.uint32))
        for i, x in enumerate(own_a):
            row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
            a[row, 2 * within + (i & 1) + (8 if i >= 4 else 0)] = x
        for i, x in enumerate(own_b):
            b[2 * within + (i & 1) + (8 if i >= 2 else 0), group] = x
    return _with_sums(registers[:4], a @ b)


def mma_float32(*registers: Sequence[Any]) -> list[tuple[Any, ...]]:
    """PTX ISA, "Matrix fragments for mma.m16n8k8", of ``.tf32``.

    The row of ``a0`` and ``a2`` is the group, that of ``a1`` and ``a3`` is 8 further down; the
    column is ``lane % 4``, 4 more from ``a2`` on. The row of ``b0`` is ``lane % 4``, that of ``b1``
    4 more. Bits that the machine ignores are cleared.
    """
    a, b = np.empty((16, 8)), np.empty((8, 8))
    for lane in range(32):
        group, within = lane >> 2, lane % 4
        own = np.array([each[lane] for each in registers[4:]], np.float32)
        x = (own.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        for i in range(4):
            a[group + 8 * (i in (1, 3)), within + 4 * (i >= 2)] = x[i]
        for i in range(2):
            b[within + 4 * i, group] = x[4 + i]
    return _with_sums(registers[:4], a @ b)


def mma_float64(*registers: Sequence[Any]) -> list[tuple[Any, ...]]:
    """PTX ISA, "Matrix fragments for mma.m16n8k4", of ``.f64``.

    The row of ``a0`` is the group, that of ``a1`` is 8 further down; the column is ``lane % 4``.
    The row of ``b0`` is ``lane % 4``. (Two products of "mma.m8n8k4" have ``a0`` and ``a1``.) The
    machine's additions are fused with the multiplications, in an order that is not specified.
    """
    a, b = np.empty((16, 4)), np.empty((4, 8))
    for lane in range(32):
        group, within = lane >> 2, lane % 4
        a[group, within], a[group + 8, within], b[within, group] = (
            each[lane] for each in registers[4:]
        )
    return _with_sums(registers[:4], a @ b)


def _with_sums(sums: Sequence[Any], products: Any) -> list[tuple[Any, ...]]:
    """The four sums of each thread: ``c0`` and ``c1`` are in a row, ``c2`` and ``c3`` 8 below."""
    return [
        tuple(
            sums[i][lane].dtype.type(
                np.float64(sums[i][lane])
                + products[(lane >> 2) + (0 if i < 2 else 8), 2 * (lane % 4) + (i & 1)]
            )
            for i in range(4)
        )
        for lane in range(32)
    ]


_WIDTHS = (2, 4, 8, 16)

MEANINGS: dict[str, Meaning] = {
    "where": where,
    "min": smaller,
    "max": larger,
    "half_min": first_smaller,
    "half_max": first_larger,
    "checked": checked,
    "required": required,
    "fma": fma,
    "sqrt": square_root,
    "copysign": copysign,
    "ratio": lambda x, y: x / y,
    "idiv": division,
    "irem": remainder,
    "shl": shift_left,
    "shr": shift_right,
    "lshr": logical_shift_right,
    "rotl": rotate_left,
    "as_int64": integer(np.int64),
    "as_int32": integer(np.int32),
    "as_uint64": as_uint64,
    "half": half,
    "half_bits": half_bits,
    "as_half": rounded_to_half,
    "as_tf32": as_tf32,
    "half_of_double": rounded_to_half,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "fast_exp": np.exp,
    **{f"bits_as_{name}": bits_as(np.dtype(name)) for name in SIZED},
    "read": read,
    **{f"load{n}": load(n) for n in _WIDTHS},
    **{f"read{n}": load_constant(n) for n in _WIDTHS},
    **{f"store{n}": store(n) for n in _WIDTHS},
    **{f"atomic_{op}": atomic(op) for op in _COMBINED},
}
"""The functions of `functrans.emit.cuda.names` that do not concern the running thread."""

EXCHANGES = {
    "shuffle": shuffle,
    "shuffle_down": shuffle_down,
    "shuffle_xor": shuffle_xor,
    "mma_float16": mma_float16,
    "mma_bfloat16": mma_bfloat16,
    "mma_float32": mma_float32,
    "mma_float64": mma_float64,
    "mma_float64_by_rows": mma_float64,
}
"""Functions from the operands of all threads of a warp to the results of each."""

MATRICES = {"matrices": matrices, "matrices_transposed": matrices_transposed}
"""The same, for operands that are addresses of rows of 8 elements."""


def meanings(thread: Any) -> dict[str, Any]:
    """All functions by their names; the other ones are methods of the emulator's thread."""
    return {name: MEANINGS.get(name) or getattr(thread, name) for name in TABLE}
