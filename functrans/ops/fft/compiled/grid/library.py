"""Fourier transforms as calls of a library (`functrans.run.cuda.libraries.fourier`)."""

from __future__ import annotations

from math import prod

import numpy as np

from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import Address, Buffer, Call
from functrans.ops.compiled.emission import Emission

COMPLEX = {np.dtype(np.float32): "c", np.dtype(np.float64): "z"}
REAL = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


def emit(at: Emission) -> None:
    """One call for all lines."""
    x, y, params = at.operand(0), at.result(), at.eqn.params
    sort, axis, points = params["sort"], params["axis"], params["points"]
    if 0 in y.extents:
        return
    shape = x.extents if sort == "r2c" else x.extents[:-1]
    sizes = (prod(shape[:axis]), points, prod(shape[axis + 1 :]))
    given: list[Address | Scalar | bytes] = [const(size, INDEX) for size in sizes]
    given += [_start(x), _start(y)]
    if sort == "c2c":
        symbol = COMPLEX[x.dtype] + "fft"
        given.insert(0, b"I" if params["inverse"] else b"F")
    else:
        symbol = REAL[x.dtype] + ("rfft" if sort == "r2c" else "irfft")
    at.call((Call(symbol, tuple(given), (x,), (y,)),))


def _start(memory: Buffer) -> Address:
    return Address(memory, (ZERO,) * len(memory.shape))
