"""Exponentials, logarithms and the logistic function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.lazily import lazy
from functrans.ops.define import on_parts
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.logic import isinf
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import reals

LN2 = math.log(2)
LN10 = math.log(10)

exp = elementwise(
    "exp", numpy=np.exp, scalar=vecmath.exp,
    jvp=lambda x, out, dx: dx * out,
    parts=on_parts("complex_functions:exp"),
    samples=reals(-3, 3),
)  # fmt: skip

exp2 = elementwise(
    "exp2", numpy=np.exp2, scalar=vecmath.exp2,
    jvp=lambda x, out, dx: dx * (out * LN2),
    parts=on_parts("complex_functions:exp2"),
    samples=reals(-3, 3),
)  # fmt: skip

expm1 = elementwise(
    "expm1", numpy=np.expm1, scalar=vecmath.expm1,
    # not out + 1, which is 0 where out rounds to -1
    jvp=lambda x, out, dx: dx * exp(x),
    parts=on_parts("complex_functions:expm1"),
    samples=reals(-3, 3),
)  # fmt: skip

log = elementwise(
    "log", numpy=np.log, scalar=vecmath.log,
    jvp=lambda x, out, dx: dx / x,
    parts=on_parts("complex_functions:log"),
    steep=True, samples=reals(0.1, 10),
)  # fmt: skip

log2 = elementwise(
    "log2", numpy=np.log2, scalar=vecmath.log2,
    jvp=lambda x, out, dx: dx / (x * LN2),
    parts=on_parts("complex_functions:log2"),
    steep=True, samples=reals(0.1, 10),
)  # fmt: skip

log10 = elementwise(
    "log10", numpy=np.log10, scalar=vecmath.log10,
    jvp=lambda x, out, dx: dx / (x * LN10),
    parts=on_parts("complex_functions:log10"),
    steep=True, samples=reals(0.1, 10),
)  # fmt: skip

log1p = elementwise(
    "log1p", numpy=np.log1p, scalar=vecmath.log1p,
    jvp=lambda x, out, dx: dx / (1 + x),
    parts=on_parts("complex_functions:log1p"),
    steep=True, samples=reals(-0.9, 10),
)  # fmt: skip

expit: Primitive = elementwise(
    "expit", numpy=lazy("scipy.special:expit"), scalar=vecmath.sigmoid,
    # not out * (1 - out), which is 0 where out rounds to 1
    jvp=lambda x, out, dx: dx * (out * expit(-x)),
    samples=reals(-3, 3),
)  # fmt: skip

logit = elementwise(
    "logit", numpy=lazy("scipy.special:logit"), scalar=vecmath.logit,
    jvp=lambda x, out, dx: dx / (x * (1 - x)),
    steep=True, samples=reals(0.1, 0.9),
)  # fmt: skip


def _difference(x: Any, y: Any) -> Any:
    """``x - y``, and 0 if both are the same infinity."""
    return select(equal(x, y) & isinf(x), 0, x - y)


logaddexp = elementwise(
    "logaddexp", numpy=np.logaddexp, scalar=vecmath.logaddexp,
    jvp=[
        lambda x, y, out, dx: dx * expit(_difference(x, y)),
        lambda x, y, out, dy: dy * expit(_difference(y, x)),
    ],
    samples=[reals(-3, 3), reals(-3, 3)],
)  # fmt: skip

logaddexp2 = elementwise(
    "logaddexp2", numpy=np.logaddexp2, scalar=vecmath.logaddexp2,
    jvp=[
        lambda x, y, out, dx: dx * expit(_difference(x, y) * LN2),
        lambda x, y, out, dy: dy * expit(_difference(y, x) * LN2),
    ],
    samples=[reals(-3, 3), reals(-3, 3)],
)  # fmt: skip
