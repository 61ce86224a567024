"""Pairwise products of complex numbers along axes, on real and imaginary parts, in vectors."""

from __future__ import annotations

from functrans.ops.arrays.structural import drop_axes, full_p, zeros
from functrans.ops.compiled.pairs import Pair
from functrans.ops.elementwise.compiled.complex_arithmetic import multiply
from functrans.ops.reductions.reduce import Axes, Parts, combined_by_halves


def _times(x: Parts, y: Parts) -> Pair:
    return multiply(Pair(*x), Pair(*y))


def product(x: Pair, *, axes: Axes) -> Pair:
    if x.re.size:
        return Pair(*combined_by_halves(_times, x, axes))
    shape = drop_axes(x.re.shape, axes)
    return Pair(full_p(shape=shape, value=1, dtype=x.dtype), zeros(shape, x.dtype))
