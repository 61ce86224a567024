"""Compiled Fourier transforms of complex numbers with separate real and imaginary arrays.

The compiler replaces complex transforms by these (`functrans.ops.fft.compiled.parts`). The inverse
transform is the same one with real and imaginary parts exchanged in operand and result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import primitive
from functrans.ops.samples import cases

LARGEST_PRIME = 23
"""The largest prime length of a butterfly, of quadratic cost: beyond it a convolution is faster."""

LONGEST = 1 << 22
"""The most points of a compiled transform; NumPy computes longer ones."""


def factors(n: int) -> list[int]:
    """The prime factors of a number, in ascending order."""
    found, p = [], 2
    while n > 1:
        if p * p > n:
            p = n
        if n % p:
            p += 1
        else:
            found.append(p)
            n //= p
    return found


def is_made(points: int) -> bool:
    """Whether butterflies can compute a transform of this number of points."""
    return 1 <= points <= LONGEST and max(factors(points), default=1) <= LARGEST_PRIME


def padded(points: int) -> int:
    """The length of the transforms for Bluestein's convolution of a number of points.

    The least sufficient one without prime factors above 5, and, if it is long, of whole vectors.
    """
    whole = 16 if points > 64 else 1
    found = -(-(2 * points - 1) // whole)
    while max(factors(found), default=1) > 5:
        found += 1
    return found * whole


def has_form(points: int) -> bool:
    """Whether a transform of a number of points, or the transforms that it needs, are supported."""
    return is_made(points) or (1 <= points and padded(points) <= LONGEST)


def _infer(re: Aval, im: Aval, *, axis: int, scale: float) -> tuple[Aval, Aval]:
    if not re.same_array_type(im) or re.dtype not in (np.float32, np.float64):
        raise DtypeError(f"real and imaginary parts are floats, and alike, not {re} and {im}")
    if not (0 <= axis < re.ndim and is_made(re.shape[axis])):
        raise ShapeError(f"there is no such transform of {re} along axis {axis}")
    return re.update(), re.update()


def _numpy(re: Any, im: Any, *, axis: int, scale: float) -> tuple[Any, Any]:
    found = np.fft.fft(re + np.asarray(1j, np.result_type(re, np.complex64)) * im, axis=axis)
    found *= scale
    return found.real.copy(), found.imag.copy()


def _operations(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    """The estimated operations of the butterflies, and of the twiddle factors."""
    aval, axis = eqn.inputs[0].aval, eqn.params["axis"]
    points: int = aval.shape[axis]
    return 4 * aval.size * points.bit_length() + 64 * points


split_fft_p: Primitive = primitive(
    "split_fft",
    infer=_infer,
    numpy=_numpy,
    jvp=not_differentiable("the compiler makes it, when all derivatives are made"),
    several=True,
    emit=Emit(lazy("functrans.ops.fft.compiled.ways:emit"), operations=_operations),
    samples=cases(
        ((12,), (12,), {"axis": 0, "scale": 1.0}), ((13,), (13,), {"axis": 0, "scale": 0.5}),
        ((20, 3), (20, 3), {"axis": 0, "scale": 1.0}), ((0, 9), (0, 9), {"axis": 1, "scale": 1.0}),
        ((9, 16), (9, 16), {"axis": 1, "scale": 1.0}),
    ),
)  # fmt: skip
