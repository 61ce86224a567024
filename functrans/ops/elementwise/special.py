"""Special functions of statistics, computed by SciPy, which is imported when one is first used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.errors import DtypeError
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, is_complex
from functrans.ops.define import lazy, primitive
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.exponential import exp, expit, log
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import cases, reals

# -- the normal distribution -----------------------------------------------------------------------

erf = elementwise(
    "erf", numpy=lazy("scipy.special:erf"), scalar=vecmath.erf,
    jvp=lambda x, out, dx: dx * (2 / math.sqrt(math.pi) * exp(-x * x)),
    samples=reals(-3, 3),
)  # fmt: skip

erfc = elementwise(
    "erfc", numpy=lazy("scipy.special:erfc"), scalar=vecmath.erfc,
    jvp=lambda x, out, dx: dx * (-2 / math.sqrt(math.pi) * exp(-x * x)),
    samples=reals(-3, 3),
)  # fmt: skip

erfinv = elementwise(
    "erfinv", numpy=lazy("scipy.special:erfinv"),
    jvp=lambda x, out, dx: dx * (math.sqrt(math.pi) / 2 * exp(out * out)),
    steep=True, samples=reals(-0.9, 0.9),
)  # fmt: skip

ndtr = elementwise(
    "ndtr", numpy=lazy("scipy.special:ndtr"),
    scalar=lambda x: 0.5 * vecmath.erfc(x * -math.sqrt(0.5)),
    jvp=lambda x, out, dx: dx * (1 / math.sqrt(2 * math.pi) * exp(-0.5 * x * x)),
    samples=reals(-3, 3),
)  # fmt: skip

log_expit = elementwise(
    "log_expit", numpy=lazy("scipy.special:log_expit"), scalar=lambda x: -vecmath.softplus(-x),
    jvp=lambda x, out, dx: dx * expit(-x),
    samples=reals(-3, 3),
)  # fmt: skip

# -- the gamma function ----------------------------------------------------------------------------

gammaln = elementwise(
    "gammaln", numpy=lazy("scipy.special:gammaln"), scalar=vecmath.lgamma,
    jvp=lambda x, out, dx: dx * digamma(x),
    steep=True, samples=reals(0.5, 5),
)  # fmt: skip

digamma: Primitive = elementwise(
    "digamma", numpy=lazy("scipy.special:psi"), scalar=vecmath.digamma,
    jvp=lambda x, out, dx: dx * polygamma(x, n=1),
    steep=True, samples=reals(0.5, 5),
)  # fmt: skip

_polygamma = lazy("scipy.special:polygamma")


def _infer_polygamma(x: Aval, *, n: int) -> Aval:
    if is_complex(x.dtype):
        raise DtypeError(f"polygamma, the derivative of digamma, is not defined for {x.dtype}")
    return x.update()


polygamma: Primitive = primitive(
    "polygamma",
    infer=_infer_polygamma,
    numpy=lambda x, *, n: np.asarray(_polygamma(n, x), x.dtype)[()],
    jvp=lambda primals, tangents, outs, *, n: tangents[0] * polygamma(primals[0], n=n + 1),
    batch=lambda operands, axes, *, n: (polygamma(operands[0], n=n), axes[0]),
    elementwise=True,
    samples=cases(((reals(0.5, 5), (3,)), {"n": 1}), ((reals(0.5, 5), ()), {"n": 2})),
)  # fmt: skip

# -- entropy ---------------------------------------------------------------------------------------


def _ratio(x: Any, y: Any) -> Any:
    """``x / y``, and 0 for 0 / 0."""
    return x / select(equal(x, 0) & equal(y, 0), 1, y)


xlogy = elementwise(
    "xlogy", numpy=lazy("scipy.special:xlogy"), scalar=vecmath.xlogy,
    jvp=[
        lambda x, y, out, dx: dx * log(y),
        lambda x, y, out, dy: dy * _ratio(x, y),
    ],
    steep=True, samples=[reals(-3, 3), reals(0.1, 10)],
)  # fmt: skip
