"""Running sums, products and extremes along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import LINEAR, Primitive
from functrans.ops.define import primitive
from functrans.ops.samples import cases, integers


def _cumulative(name: str, ufunc: np.ufunc, **slots: Any) -> Primitive:
    """A primitive of ``axis`` and ``reverse``: whether it runs from the end to the beginning."""

    def accumulate(x: Any, *, axis: int, reverse: bool) -> Any:
        if reverse:
            return np.flip(ufunc.accumulate(np.flip(x, axis), axis=axis, dtype=x.dtype), axis)
        return ufunc.accumulate(x, axis=axis, dtype=x.dtype)

    def batch(operands: Any, mapped: Any, *, axis: int, reverse: bool) -> Any:
        shifted = axis + (axis >= mapped[0])
        return op(operands[0], axis=shifted, reverse=reverse), mapped[0]

    op = primitive(
        name,
        infer=lambda x, *, axis, reverse: x.update(),
        numpy=accumulate,
        batch=batch,
        samples=cases(
            ((3,), {"axis": 0, "reverse": False}), ((2, 5), {"axis": 1, "reverse": False}),
            ((4, 2), {"axis": 0, "reverse": True}), ((2, 0, 3), {"axis": 1, "reverse": False}),
            ((1, 2), {"axis": 0, "reverse": False}),
            ((integers(-3, 3), (5,)), {"axis": 0, "reverse": True}),
        ),
        **slots,
    )  # fmt: skip
    return op


cumsum: Primitive = _cumulative(
    "cumsum", np.add,
    linear=LINEAR,
    transpose=[lambda ct, x, *, axis, reverse: cumsum(ct, axis=axis, reverse=not reverse)],
)  # fmt: skip
