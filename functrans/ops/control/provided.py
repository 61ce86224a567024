"""Run-time assertions: a value with a condition; the whole call fails if the condition is false.

Compiled code stores a status and continues, and its caller raises. So functions can raise errors
that depend on values in compiled programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.loop import nodes
from functrans.loop.failures import FAILURES, NO_SOLUTION
from functrans.loop.scalar import Scalar
from functrans.ops.arrays.structural import place
from functrans.ops.define import primitive
from functrans.ops.samples import cases


def _infer(condition: Aval, x: Aval, *, message: str) -> Aval:
    if condition.dtype != np.bool_ or condition.shape != x.shape[: condition.ndim]:
        raise ShapeError(f"provided takes truths for the first axes of {x}, not {condition}")
    return x.update()


def _provided(condition: Any, x: Any, *, message: str) -> Any:
    if not np.all(condition):
        raise FAILURES[NO_SOLUTION].exception(message)
    return x


def _batch(operands: Sequence[Any], axes: Sequence[int | None], *, message: str) -> tuple[Any, int]:
    (condition, x), (condition_axis, x_axis) = operands, axes
    size = x.shape[x_axis] if x_axis is not None else condition.shape[condition_axis]
    if condition.ndim:
        condition = place(condition, condition_axis, 0, size)
    return provided(condition, place(x, x_axis, 0, size), message=message), 0


def _pull(read: Any, index: Sequence[Scalar], condition: Aval, x: Aval, *, message: str) -> Scalar:
    return nodes.required(read(0, index[: condition.ndim]), read(1, index), NO_SOLUTION)


provided: Primitive = primitive(
    "provided",
    infer=_infer,
    numpy=_provided,
    linear=((1,),),
    transpose=[
        None, lambda ct, condition, x, *, message: provided(condition, ct, message=message)
    ],
    batch=_batch,
    pull=_pull,
    samples=cases(
        (np.array(True), (3,), {"message": "there is none"}),
        (np.ones(2, bool), (2, 3), {"message": "there is none"}),
        (np.ones((0, 2), bool), (0, 2), {"message": "there is none"}),
    ),
)  # fmt: skip
"""``x``; the call raises RuntimeError with the message unless all conditions are true.

There is a single condition, or one for each position along the first axes of ``x``.
"""
