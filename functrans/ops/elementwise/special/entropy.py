"""Entropies, logarithmic losses, and the transforms of Box and Cox."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.elementwise.choice import (
    absolute,
    masked,
    maximum,
    minimum,
    or_one,
    select,
    sign,
)
from functrans.ops.elementwise.compare import equal, greater, less, less_equal
from functrans.ops.elementwise.exponential import exp, expit, log, log1p
from functrans.ops.elementwise.power import log_of_base, power, power_less_one, sqrt
from functrans.ops.elementwise.special.relative import exprel_derivative, log1prel_derivative
from functrans.ops.elementwise.special.scipy import computed, ratio, real, special
from functrans.ops.samples import reals

log_expit: Primitive = special(
    "log_expit", reals(-3, 3), lambda x: expit(-x), scalar=lambda x: -vecmath.softplus(-x),
    steep=False,
)  # fmt: skip

xlogy: Primitive = special(
    "xlogy", [reals(-3, 3), reals(0.1, 10)],
    lambda x, y: log(y),
    lambda x, y: ratio(x, y),
    scalar=vecmath.xlogy,
)  # fmt: skip


def _xlog1py(x: Scalar, y: Scalar) -> Scalar:
    is_zero = scalar.eq(x, 0) & scalar.eq(y, y)
    return scalar.where(is_zero, 0, x * vecmath.log1p(y))


xlog1py: Primitive = special(
    "xlog1py", [reals(-3, 3), reals(-0.9, 10)],
    lambda x, y: log1p(y),
    lambda x, y: ratio(x, 1 + y),
    scalar=_xlog1py,
)  # fmt: skip

# -- entropies: outside of their domain, where no NaN is, they are constant and infinite -----------


def _entr(x: Scalar) -> Scalar:
    inside = scalar.where(scalar.eq(x, 0), 0, -x * vecmath.log(x))
    return scalar.where(x < 0, -float("inf"), inside)


entr: Primitive = special(
    "entr", reals(0.1, 3), lambda x: masked(~less(x, 0), -log(maximum(x, 0)) - 1),
    scalar=_entr,
)  # fmt: skip


def _log_ratio(x: Any, y: Any) -> Any:
    """``log(x / y)``, with no cancellation where they are close."""
    inside = ~(less_equal(x, 0) | less_equal(y, 0))
    near = rel_entr(x, y) / select(inside, x, 1)
    at_zero = equal(x, 0) & ~less_equal(y, 0)
    return select(inside, near, select(at_zero, -float("inf"), 0))


def _quotient(x: Any, y: Any) -> Any:
    inside = _inside(x, y)
    return masked(inside, x / select(inside, y, 1))


def _inside(x: Any, y: Any) -> Any:
    return ~(less(x, 0) | less_equal(y, 0))


def _excess(x: Any, y: Any) -> Any:
    """``(y - x) / y``; with x far from y as ``1 - x / y``, whose slope does not cancel."""
    y = select(_inside(x, y), y, 1)
    return select(less(absolute(y - x), 0.5 * y), (y - x) / y, 1 - x / y)


_POSITIVE = [reals(0.1, 3), reals(0.1, 3)]

rel_entr: Primitive = special(
    "rel_entr", _POSITIVE,
    lambda x, y: masked(_inside(x, y), _log_ratio(x, y) + 1),
    lambda x, y: -_quotient(x, y),
    scalar=vecmath.rel_entr,
)  # fmt: skip

kl_div: Primitive = special(
    "kl_div", _POSITIVE,
    _log_ratio,
    lambda x, y: masked(_inside(x, y), _excess(x, y)),
    scalar=vecmath.kl_div,
)  # fmt: skip

# -- robust losses ---------------------------------------------------------------------------------


def _huber(delta: Scalar, r: Scalar) -> Scalar:
    a = abs(r)
    line = delta * (a - 0.5 * delta)
    value = scalar.where(a <= delta, 0.5 * r * r, line)
    return scalar.where(delta < 0, float("inf"), value)


huber: Primitive = special(
    "huber", [reals(1, 2), reals(-3, 3)],
    lambda delta, r: masked(~less(delta, 0), maximum(absolute(r) - delta, 0)),
    lambda delta, r: masked(~less(delta, 0), maximum(minimum(r, delta), -delta)),
    scalar=_huber,
)  # fmt: skip


def _by_the_greater(delta: Any, r: Any) -> tuple[Any, Any, Any]:
    """Whether ``abs(r) > delta``, the quotient ``q`` by the greater, and ``sqrt(1 + q**2)``.

    In the quotient by the greater, nothing overflows, and second derivatives do not cancel.
    """
    far = greater(absolute(r), delta)
    quotient = select(far, delta, r) / or_one(select(far, absolute(r), delta))
    return far, quotient, sqrt(1 + quotient * quotient)


def _pseudo_huber_by_width(delta: Any, r: Any) -> Any:
    """``delta (s - 1)**2 / s`` for ``s = sqrt(1 + (r / delta)**2)``."""
    far, quotient, root = _by_the_greater(delta, r)
    excess, total = quotient * quotient / (root + 1), quotient + root
    near = delta * (excess * (excess / root))
    return select(far, absolute(r) / (root * total * total), near)


def _pseudo_huber_by_residual(delta: Any, r: Any) -> Any:
    """``r / sqrt(1 + (r / delta)**2)``."""
    far, _, root = _by_the_greater(delta, r)
    return select(far, sign(r) * delta, r) / root


pseudo_huber: Primitive = special(
    "pseudo_huber", [reals(1, 2), reals(-3, 3)],
    lambda delta, r: masked(~less_equal(delta, 0), _pseudo_huber_by_width(delta, r)),
    lambda delta, r: masked(~less_equal(delta, 0), _pseudo_huber_by_residual(delta, r)),
    scalar=vecmath.pseudo_huber,
)  # fmt: skip

# -- relative exponentials and logarithms ----------------------------------------------------------

exprel_n: Primitive = computed(
    "exprel_n", exprel_derivative, reals(-3, 3), lambda x, *, n: exprel_n(x, n=n + 1),
    scalar=vecmath.exprel_derivative, params=[{"n": 1}],
)  # fmt: skip

log1prel_n: Primitive = computed(
    "log1prel_n", log1prel_derivative, reals(-0.9, 3), lambda x, *, n: log1prel_n(x, n=n + 1),
    scalar=vecmath.log1prel_derivative, promotion=real("log1prel_n", "spence"), params=[{"n": 1}],
)  # fmt: skip

exprel: Primitive = special(
    "exprel", reals(-3, 3), lambda x: exprel_n(x, n=1), scalar=vecmath.exprel
)


def _slope_of_spence(x: Any) -> Any:
    """``log(x) / (1 - x)``; near 0, ``1 - x`` would have too few digits."""
    small = less(x, 0.5)
    inner = select(small, x, 0.5)
    return select(small, log(inner) / (1 - inner), -log1prel_n(select(small, 1.0, x) - 1, n=0))


spence: Primitive = special("spence", reals(0.1, 5), _slope_of_spence)

# -- Box and Cox -----------------------------------------------------------------------------------


def _by_lambda(log_x: Any, lmbda: Any) -> Any:
    # where the power of x is 0 the transform is -1 / lmbda
    at_end = equal(lmbda * log_x, -np.inf)
    log_x = select(at_end, 0, log_x)
    inverse = 1 / select(at_end, lmbda, 1)
    return select(at_end, inverse * inverse, log_x * log_x * exprel_n(lmbda * log_x, n=1))


boxcox: Primitive = special(
    "boxcox", [reals(0.1, 5), reals(-2, 2)],
    lambda x, lmbda: power(x, lmbda - 1),
    lambda x, lmbda: _by_lambda(log(x), lmbda),
    scalar=vecmath.boxcox,
)  # fmt: skip

boxcox1p: Primitive = special(
    "boxcox1p", [reals(-0.9, 5), reals(-2, 2)],
    lambda x, lmbda: exp(xlog1py(lmbda - 1, x)),
    lambda x, lmbda: _by_lambda(log1p(x), lmbda),
    scalar=vecmath.boxcox1p,
)  # fmt: skip

inv_boxcox: Primitive = special(
    "inv_boxcox", [reals(0.1, 2), reals(0.1, 2)],
    lambda y, lmbda, out: out / (1 + lmbda * y),
    lambda y, lmbda, out: out * (y * y) * log1prel_n(lmbda * y, n=1),
    scalar=vecmath.inv_boxcox,
)  # fmt: skip

inv_boxcox1p: Primitive = special(
    "inv_boxcox1p", [reals(0.1, 2), reals(0.1, 2)],
    lambda y, lmbda, out: (out + 1) / (1 + lmbda * y),
    lambda y, lmbda, out: (out + 1) * (y * y) * log1prel_n(lmbda * y, n=1),
    scalar=vecmath.inv_boxcox1p,
)  # fmt: skip

powm1: Primitive = special(
    "powm1", [reals(0.1, 5), reals(-2, 2)],
    lambda x, y: y * power_less_one(x, y),
    lambda x, y: power(x, y) * log_of_base(x, y),
    scalar=vecmath.powm1,
)  # fmt: skip
