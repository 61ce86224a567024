"""Fourier transforms of numbers whose real and imaginary parts are apart: the compiler's own.

Complex transforms become these when a program is compiled (`functrans.ops.fft.compiled.parts`).
The inverse transform is the same with real and imaginary parts exchanged, on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Primitive, not_differentiable
from functrans.ir.types import Aval
from functrans.ops.arrays.structural import place
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import lazy, primitive
from functrans.ops.samples import cases


def _infer(re: Aval, im: Aval, *, axis: int, scale: float) -> tuple[Aval, Aval]:
    if re.shape != im.shape or re.dtype != im.dtype or re.dtype.kind != "f":
        raise DtypeError(f"real and imaginary parts are alike, not {re} and {im}")
    return re.update(), re.update()


def _numpy(re: Any, im: Any, *, axis: int, scale: float) -> tuple[Any, Any]:
    found = np.fft.fft(re + np.asarray(1j, np.result_type(re, np.complex64)) * im, axis=axis)
    found *= scale
    return found.real.copy(), found.imag.copy()


def _batch(operands: Any, mapped: Any, *, axis: int, scale: float) -> Any:
    sizes = (x.shape[at] for x, at in zip(operands, mapped, strict=True) if at is not None)
    size = next(sizes)
    moved = (place(x, at, 0, size) for x, at in zip(operands, mapped, strict=True))
    return split_fft_p(*moved, axis=axis + 1, scale=scale), (0, 0)


def _operations(eqn: Eqn, of_graph: Callable[[Graph], int]) -> int:
    """Those of the butterflies, and of the table of turns."""
    aval, axis = eqn.inputs[0].aval, eqn.params["axis"]
    points: int = aval.shape[axis]
    return 4 * aval.size * points.bit_length() + 64 * points


split_fft_p: Primitive = primitive(
    "split_fft",
    infer=_infer,
    numpy=_numpy,
    jvp=not_differentiable("the compiler makes it, when all derivatives are made"),
    batch=_batch,
    several=True,
    emit=Emit(lazy("functrans.ops.fft.compiled.ways:emit"), operations=_operations),
    samples=cases(
        *(
            ((shape, shape, {"axis": axis, "scale": scale}))
            for shape, axis, scale in (
                ((12,), 0, 1.0), ((100,), 0, 0.1), ((64, 3), 0, 1.0), ((2, 97), 1, 1.0),
                ((9, 16), 1, 0.25), ((2, 30, 17), 1, 1.0), ((0, 4), 1, 1.0), ((128,), 0, 1.0),
                ((4096,), 0, 1.0),
            )
        ),
    ),
)  # fmt: skip
