"""Reference arithmetic: definitions, on whole arrays, of operations that NumPy does not have."""

from __future__ import annotations

from typing import Any

import numpy as np


def shift_right_logical(x: Any, n: Any) -> Any:
    """A shift that fills with zeros."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return (x.view(unsigned) >> n.view(unsigned)).view(x.dtype)


def rotate_left(x: Any, n: Any) -> Any:
    """A rotation by ``n`` modulo the number of bits."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    bits, mask = x.view(unsigned), unsigned.type(8 * x.dtype.itemsize - 1)
    amount = n.view(unsigned) & mask
    # by 0, both shifts are by 0
    return ((bits << amount) | (bits >> (-amount & mask))).view(x.dtype)


def divide_integers(x: Any, y: Any) -> Any:
    """Truncating division, as in machine code."""
    floored = x // y
    return (floored + ((floored * y != x) & ((x < 0) ^ (y < 0)))).astype(x.dtype)


def _two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """The rounded sum and its exact error (Knuth, TAOCP 2, 4.2.2)."""
    total = x + y
    y_part = total - x
    return total, (x - (total - y_part)) + (y - y_part)


def _sum_rounded_to_odd(x: Any, y: Any) -> Any:
    """``x + y``, rounded to odd: an inexact sum becomes the neighbour with an odd last bit.

    Rounding the result again, to fewer bits, gives the same as rounding once.
    """
    total, error = _two_sum(x, y)
    bits = np.asarray(total).view(np.int64)
    adjust = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away_from_zero = (error > 0) == (total > 0)
    return np.where(adjust, bits + np.where(away_from_zero, 1, -1), bits).view(np.float64)


def _two_product(x: Any, y: Any) -> tuple[Any, Any]:
    """The rounded product and its exact error (Dekker 1971)."""
    product = x * y
    x_high, y_high = (v * 134217729.0 - (v * 134217729.0 - v) for v in (x, y))
    x_low, y_low = x - x_high, y - y_high
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, error


def fma_rounded(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` with one rounding, except that a subnormal float64 result is rounded twice.

    After Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (2008).
    """
    x, y, z = np.broadcast_arrays(x, y, z)
    if x.dtype != np.float64:
        wide_x, wide_y, wide_z = (v.astype(np.float64) for v in (x, y, z))
        return _sum_rounded_to_odd(wide_x * wide_y, wide_z).astype(x.dtype)
    (x_part, x_exponent), (y_part, y_exponent) = np.frexp(x), np.frexp(y)
    (z_part, z_exponent), exponent = np.frexp(z), x_exponent + y_exponent
    # z in units of the product; a far smaller z still decides the direction in which an exact
    # product is rounded
    shift = z_exponent - exponent
    high, low = _two_product(x_part, y_part)
    middle, lowest = _two_sum(np.ldexp(z_part, np.clip(shift, -300, 300)), low)
    top, rest = _two_sum(high, middle)
    result = np.ldexp(top + _sum_rounded_to_odd(lowest, rest), exponent)
    finite = np.isfinite(x) & np.isfinite(y)
    result = np.where((shift > 200) & (z != 0) | ~np.isfinite(z), z, result)
    return np.where(finite & (x != 0) & (y != 0), result, x * y + z)
