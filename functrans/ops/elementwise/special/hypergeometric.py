"""Hypergeometric functions and Wright's: derivatives are the function at shifted parameters.

References
----------
NIST Digital Library of Mathematical Functions, 13.3, 15.5, 16.3.
"""

from __future__ import annotations

from functrans.ir.primitive import Primitive
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.exponential import exp
from functrans.ops.elementwise.special.scipy import NO_CLOSED_FORM, special, times
from functrans.ops.samples import reals

_PARAMETER = reals(0.5, 3)

hyp0f1: Primitive = special(
    "hyp0f1", [_PARAMETER, reals(-3, 3)], NO_CLOSED_FORM, lambda v, z: hyp0f1(v + 1, z) / v
)

hyp1f1: Primitive = special(
    "hyp1f1", [_PARAMETER, _PARAMETER, reals(-3, 3)], NO_CLOSED_FORM, NO_CLOSED_FORM,
    # SciPy's is infinite for an order 0 beside a negative integer, instead of 1
    lambda a, b, x: times(a / b, select(equal(a, -1), 1, hyp1f1(a + 1, b + 1, x))),
)  # fmt: skip

hyperu: Primitive = special(
    "hyperu", [_PARAMETER, _PARAMETER, reals(0.5, 3)], NO_CLOSED_FORM, NO_CLOSED_FORM,
    lambda a, b, x: times(-a, hyperu(a + 1, b + 1, x)),
)  # fmt: skip

hyp2f1: Primitive = special(
    "hyp2f1", [_PARAMETER, _PARAMETER, reals(2, 4), reals(-0.8, 0.8)], NO_CLOSED_FORM,
    NO_CLOSED_FORM, NO_CLOSED_FORM,
    lambda a, b, c, z: times(a * b / c, hyp2f1(a + 1, b + 1, c + 1, z)),
)  # fmt: skip

wright_bessel: Primitive = special(
    "wright_bessel", [reals(0.5, 2), reals(0.5, 2), reals(0.5, 3)], NO_CLOSED_FORM, NO_CLOSED_FORM,
    lambda a, b, x: wright_bessel(a, a + b, x),
)  # fmt: skip

log_wright_bessel: Primitive = special(
    "log_wright_bessel", [reals(0.5, 2), reals(0.5, 2), reals(0.5, 3)], NO_CLOSED_FORM,
    NO_CLOSED_FORM, lambda a, b, x, out: exp(log_wright_bessel(a, a + b, x) - out),
)  # fmt: skip
