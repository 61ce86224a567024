"""Fourier transforms as calls of a library (`functrans.run.cuda.libraries.fourier`)."""

from __future__ import annotations

from math import prod

import numpy as np

from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import Address, Call
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import start_of

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
    given += [start_of(x), start_of(y)]
    if sort == "c2c":
        symbol = COMPLEX[x.dtype] + "fft"
        given.insert(0, b"I" if params["inverse"] else b"F")
    else:
        symbol = REAL[x.dtype] + ("rfft" if sort == "r2c" else "irfft")
    at.call((Call(symbol, tuple(given), (x,), (y,)),))
