"""Library calls for contractions on a GPU, one for all matrices of a stack."""

from __future__ import annotations

from math import prod

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.types import is_bfloat16
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import const
from functrans.loop.statements import Call
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import start_of
from functrans.ops.linalg.compiled.blas import (
    DOUBLE,
    SINGLE,
    counts,
    int32,
    matrices,
    sides,
    spacing,
)

HALF = np.dtype(np.float16)

ROUTINES = {
    (DOUBLE, DOUBLE): "dgemm_batch_strided",
    (SINGLE, SINGLE): "sgemm_batch_strided",
    (HALF, HALF): "hgemm_batch_strided",
    (HALF, SINGLE): "shgemm_batch_strided",
}
"""Routines by the dtypes of operands and result; mixed ones have the names of OpenBLAS."""


def fits(eqn: Eqn) -> bool:
    """Whether the library has a routine for the dtypes and the stack of a contraction."""
    return _routine(eqn) is not None and _strides(eqn) is not None


def _routine(eqn: Eqn) -> str | None:
    given, made = eqn.inputs[0].aval.dtype, eqn.outputs[0].aval.dtype
    if is_bfloat16(given):
        return "sbgemm_batch_strided" if made == SINGLE else None
    return ROUTINES.get((given, made))


def _strides(eqn: Eqn) -> tuple[int, int] | None:
    """The strides between the matrices of a stack in both operands; None if not constant."""
    x, y = (
        spacing(operand.aval.shape, axes.batch)
        for operand, axes in zip(eqn.inputs, sides(eqn), strict=True)
    )
    return None if x is None or y is None else (x, y)


def emit(at: Emission) -> None:
    """A contraction as one call, for all matrices of a stack."""
    eqn = at.eqn
    x, y, target = at.operand(0), at.operand(1), at.result()
    left, right = matrices(eqn)
    apart, routine = _strides(eqn), _routine(eqn)
    assert apart is not None and routine is not None
    rows, columns, summed = counts(eqn)
    # half floats are scaled by float32
    scalar = DOUBLE if target.dtype == DOUBLE else SINGLE
    arguments = (
        right.flag,
        left.flag,
        int32(columns),
        int32(rows),
        int32(summed),
        const(1, scalar),
        start_of(y),
        int32(right.leading),
        const(apart[1], INDEX),
        start_of(x),
        int32(left.leading),
        const(apart[0], INDEX),
        const(0, scalar),
        start_of(target),
        int32(columns),
        const(rows * columns, INDEX),
        int32(prod(eqn.inputs[0].aval.shape[i] for i in sides(eqn)[0].batch)),
    )
    at.call((Call(routine, arguments, (x, y), (target,)),), pulled=True)
