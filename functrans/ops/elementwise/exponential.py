"""Exponentials, logarithms and the logistic function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.lazily import lazy
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.logic import isinf
from functrans.ops.elementwise.pointwise import analytic, elementwise
from functrans.ops.samples import reals

LN2 = math.log(2)
LN10 = math.log(10)

exp = analytic(np.exp, vecmath.exp, lambda x, out, dx: dx * out, reals(-3, 3))
exp2 = analytic(np.exp2, vecmath.exp2, lambda x, out, dx: dx * (out * LN2), reals(-3, 3))
# not out + 1, which is 0 where out rounds to -1
expm1 = analytic(np.expm1, vecmath.expm1, lambda x, out, dx: dx * exp(x), reals(-3, 3))
log = analytic(np.log, vecmath.log, lambda x, out, dx: dx / x, reals(0.1, 10), steep=True)
log2 = analytic(
    np.log2, vecmath.log2, lambda x, out, dx: dx / (x * LN2), reals(0.1, 10), steep=True
)
log10 = analytic(
    np.log10, vecmath.log10, lambda x, out, dx: dx * (1 / LN10) / x, reals(0.1, 10), steep=True
)
log1p = analytic(
    np.log1p, vecmath.log1p, lambda x, out, dx: dx / (1 + x), reals(-0.9, 10), steep=True
)

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
