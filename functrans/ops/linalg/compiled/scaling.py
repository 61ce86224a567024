"""Exact scaling of matrices by powers of two."""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, bitcast, const, maximum, minimum, ne, where
from functrans.records import NamedTuple


class Scale(NamedTuple):
    """Exact scaling of matrices to size 1, by powers of two."""

    power: Scalar  # approximately the largest absolute value of an element
    # the factor of the elements; as in LAPACK, everything becomes NaN if there is an infinity
    reciprocal: Scalar
    finite: Scalar  # whether all elements are finite

    @classmethod
    def of(cls, largest: Scalar) -> Scale:
        about = np.finfo(largest.dtype)
        integer = np.dtype(f"i{largest.dtype.itemsize}")
        fraction, bias = int(about.nmant), int(about.maxexp) - 1
        # the exponents of both are normal, with room for sums of squares
        furthest = 2.0 ** (bias - fraction - 2)
        inside = minimum(maximum(largest, 1 / furthest), furthest)
        exponent = bitcast(inside, integer) & const(-1 << fraction, integer)
        opposite = bitcast(const(2 * bias << fraction, integer) - exponent, largest.dtype)
        finite = ne(largest, np.inf)
        return cls(bitcast(exponent, largest.dtype), where(finite, opposite, np.nan), finite)
