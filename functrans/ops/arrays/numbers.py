"""Conversion to Python's numbers: of an int combined with a float, or of an array's element.

`cast` gives a strong dtype, to which weak operands are converted. These conversions keep the result
weak: ``1.0 + 0.01 * i`` times a float32 array is float32.
"""

from __future__ import annotations

import numpy as np

from functrans.ir.primitive import LINEAR, Primitive
from functrans.ir.types import Aval
from functrans.loop import scalar
from functrans.ops.arrays.structural import cast, transpose_cast
from functrans.ops.define import on_parts, primitive
from functrans.ops.samples import cases, integers

as_number: Primitive = primitive(
    "as_number",
    infer=lambda x, *, dtype: Aval(x.shape, dtype),
    makes_numbers=True,
    numpy=cast.numpy,
    linear=LINEAR,
    transpose=[transpose_cast],
    batch=lambda operands, axes, *, dtype: (as_number(operands[0], dtype=dtype), axes[0]),
    scalar=lambda x, *, dtype: scalar.convert(x, dtype),
    parts=on_parts("complex_arithmetic:cast"),
    elementwise=True,
    samples=cases(
        ((), {"dtype": np.dtype(np.float64)}),
        ((integers(-3, 3), ()), {"dtype": np.dtype(np.float64)}),
        ((integers(-3, 3), (2,)), {"dtype": np.dtype(np.float64)}),
    ),
)  # fmt: skip
