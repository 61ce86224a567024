"""Helper functions of printed source that are written in Python, for Numba to compile.

Some call others of the table `functrans.emit.names`, which are defined first.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, name-defined"
# ruff: noqa: F821

import numpy as np

from functrans.loop.failures import OUT_OF_BOUNDS


def where(condition, x, y):
    return x if condition else y


def smaller(x, y):
    return x if x < y or x != x else y


def larger(x, y):
    return x if x > y or x != x else y


def first_smaller(x, y):
    return x if x <= y or x != x else y


def first_larger(x, y):
    return x if x >= y or x != x else y


def checked(position, extent, flag):
    if 0 <= position < extent:
        return position
    flag[0] = OUT_OF_BOUNDS
    return 0


def required(condition, value, status, flag):
    if not condition:
        flag[0] = status
    return value


def as_uint64(x):
    top = 2.0**63
    large = np.uint64(as_int64(x - top)) ^ np.uint64(1 << 63)
    return large if x >= top else np.uint64(as_int64(x))


def half(bits):
    bits = np.uint32(bits)
    sign = np.uint32((bits & np.uint32(0x8000)) << np.uint32(16))
    magnitude = np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13))
    if magnitude >= 0x0F800000:  # infinity and NaN
        return bits_as_float32(np.uint32(sign | magnitude | np.uint32(0x7F800000)))
    # the exponent biases differ; exact, also for subnormal numbers
    number = bits_as_float32(magnitude) * np.float32(2.0**112)
    return bits_as_float32(np.uint32(sign | bits_as_uint32(number)))


def half_bits(x):
    bits = bits_as_uint32(x)
    sign = np.uint32((bits >> np.uint32(16)) & np.uint32(0x8000))
    magnitude = np.uint32(bits & np.uint32(0x7FFFFFFF))
    if magnitude >= 0x47800000:  # from 2**16 on: infinity, or NaN
        payload = np.uint32((magnitude >> np.uint32(13)) & np.uint32(0x3FF))
        rest = np.uint32(0x7E00 | payload) if magnitude > 0x7F800000 else np.uint32(0x7C00)
    elif magnitude < 0x38800000:  # subnormal: the last bit of the result has the value 2**-24
        total = bits_as_uint32(np.float32(bits_as_float32(magnitude) + np.float32(0.5)))
        rest = np.uint32(total - np.uint32(0x3F000000))
    else:  # to the nearest; ties to even
        odd = np.uint32((magnitude >> np.uint32(13)) & np.uint32(1))
        rounded = np.uint32(magnitude + np.uint32(0xFFF) + odd - np.uint32(0x38000000))
        rest = np.uint32(rounded >> np.uint32(13))
    return np.uint16(sign | rest)


def as_half(x):
    return half(half_bits(x))


def half_of_double(x):
    # round to odd: the last bit is set if the value is inexact, so that rounding again is correct
    near = np.float32(x)
    back = np.float64(near)
    if back == x or x != x:
        return as_half(near)
    word = bits_as_uint32(near)
    if abs(back) > abs(x):
        word = np.uint32(word - np.uint32(1))
    return as_half(bits_as_float32(np.uint32(word | np.uint32(1))))
