"""Unscaled Fourier transforms by a library, of complex numbers with interleaved parts.

For targets with such a library, these replace the transforms of `functrans.ops.fft.fourier`
(`functrans.optimise.grid.library_transforms`), after all derivatives have been taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import not_differentiable
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.arrays.shape import with_extent
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import primitive
from functrans.ops.elementwise.complex_numbers import interleaved, joined
from functrans.ops.fft.fourier import half
from functrans.ops.samples import cases

Sort = Literal["c2c", "r2c", "c2r"]
"""Complex to complex, real to complex, or complex to real, with the first half of the spectrum."""


def _infer(x: Aval, *, sort: Sort, axis: int, points: int, inverse: bool) -> Aval:
    if sort not in get_args(Sort):
        raise ShapeError(f"a transform is one of {get_args(Sort)}, not {sort!r}")
    given = half(points) if sort == "c2r" else points
    shape = x.shape if sort == "r2c" else x.shape[:-1]
    in_pairs = sort == "r2c" or x.shape[-1:] == (2,)
    if x.dtype not in (np.float32, np.float64) or not in_pairs:
        raise DtypeError(f"a transform is of floats, complex ones in pairs, not of {x}")
    if not 0 <= axis < len(shape) or points < 1 or shape[axis] != given:
        raise ShapeError(f"there is no transform of {points} points along axis {axis} of {x}")
    made = with_extent(shape, axis, half(points) if sort == "r2c" else points)
    return x.update(shape=made if sort == "c2r" else (*made, 2))


def _numpy(x: Any, *, sort: Sort, axis: int, points: int, inverse: bool) -> Any:
    norm: Any = "forward" if inverse or sort == "c2r" else "backward"
    if sort == "c2r":
        return np.fft.irfft(joined(x), points, axis=axis, norm=norm)
    if sort == "r2c":
        return interleaved(np.fft.rfft(x, axis=axis, norm=norm))
    transform = np.fft.ifft if inverse else np.fft.fft
    return interleaved(transform(joined(x), axis=axis, norm=norm))


def _operations(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    return 0  # a library's operations are not counted


def _how(sort: Sort, axis: int, points: int, inverse: bool = False) -> dict[str, Any]:
    return {"sort": sort, "axis": axis, "points": points, "inverse": inverse}


library_fft_p = primitive(
    "library_fft",
    infer=_infer,
    numpy=_numpy,
    jvp=not_differentiable("the compiler makes it, when all derivatives are made"),
    emit=Emit(
        lazy("functrans.ops.fft.compiled.grid.library:emit"),
        applies=lambda eqn, target: target.libraries,
        operations=_operations,
    ),
    samples=cases(
        ((3, 4, 2), _how("c2c", 1, 4)), ((5, 3, 2), _how("c2c", 0, 5, True)),
        ((3, 4), _how("r2c", 1, 4)), ((5, 2), _how("r2c", 0, 5)),
        ((2, 3, 2), _how("c2r", 1, 4)), ((3, 2, 2), _how("c2r", 0, 5)),
    ),
)  # fmt: skip
