"""Choosing between numbers: select, the larger, the smaller, the absolute value, the sign.

What the derivative is at a tie is a choice, written down in docs/derivatives-at-the-edges.md: equal
operands of a maximum or minimum share the derivative equally, and abs and sign have derivative 0 at 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir import scalar
from functrans.ir.primitive import ZERO_DERIVATIVE
from functrans.ops.compare import equal, greater
from functrans.ops.masked import Masked
from functrans.ops.pointwise import elementwise
from functrans.ops.promotion import DtypeKey, common
from functrans.ops.samples import booleans, reals


def _choice_promotion(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    return (np.dtype(np.bool_), *common(keys[1:]))


select = elementwise(
    "select", numpy=lambda mask, x, y: np.where(mask, x, y)[()], scalar=scalar.where,
    linear=((1, 2),), promotion=_choice_promotion,
    transpose=[
        None,
        lambda ct, mask, x, y: Masked(mask, ct, masked),
        lambda ct, mask, x, y: Masked(~mask, ct, masked),
    ],
    samples=[booleans(), reals(-3, 3), reals(-3, 3)],
)  # fmt: skip


def masked(mask: Any, x: Any) -> Any:
    """``x`` where the mask holds, else exactly 0, whatever ``x`` is there."""
    return select(mask, x, x.dtype.type(0))


def share(wins: Any, ties: Any, tangent: Any) -> Any:
    """The tangent of an operand that wins, half of it where it ties, 0 where it loses."""
    return masked(wins | ties, select(ties, tangent * 0.5, tangent))


maximum = elementwise(
    "maximum", numpy=np.maximum, scalar=scalar.maximum,
    jvp=[
        lambda x, y, out, dx: share(greater(x, y), equal(x, y), dx),
        lambda x, y, out, dy: share(greater(y, x), equal(x, y), dy),
    ],
    samples=[reals(-3, 3), reals(-3, 3)],
)  # fmt: skip

minimum = elementwise(
    "minimum", numpy=np.minimum, scalar=scalar.minimum,
    jvp=[
        lambda x, y, out, dx: share(greater(y, x), equal(x, y), dx),
        lambda x, y, out, dy: share(greater(x, y), equal(x, y), dy),
    ],
    samples=[reals(-3, 3), reals(-3, 3)],
)  # fmt: skip

sign = elementwise(
    "sign", numpy=np.sign,
    scalar=lambda x: scalar.where(x > 0, scalar.const(1, x.dtype), scalar.where(x < 0, scalar.const(-1, x.dtype), x)),
    jvp=ZERO_DERIVATIVE,
    samples=reals(0.5, 3),
)  # fmt: skip

absolute = elementwise(
    "absolute", numpy=np.absolute, scalar=abs,
    jvp=lambda x, out, dx: dx * sign(x),
    samples=reals(-3, -0.5),
)  # fmt: skip
