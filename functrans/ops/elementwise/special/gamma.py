"""The gamma function, its logarithm, its derivatives, and quotients of it.

References
----------
NIST Digital Library of Mathematical Functions, chapter 5; 25.11 for the zeta function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ir.types import is_complex
from functrans.lazily import Lazy, lazy
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.arrays.promotion import DtypeKey, Promotion
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal, less
from functrans.ops.elementwise.exponential import exp
from functrans.ops.elementwise.pointwise import promotion_of
from functrans.ops.elementwise.special.polygammas import (
    digamma_of,
    log_gamma_difference,
    polygamma_difference,
    polygamma_of,
    zeta_derivative,
)
from functrans.ops.elementwise.special.scipy import computed, real, special, times
from functrans.ops.elementwise.trigonometric import cos, sin
from functrans.ops.samples import reals
from functrans.trace import protocols

# -- the gamma function ----------------------------------------------------------------------------

gammaln: Primitive = special("gammaln", reals(0.5, 5), lambda x: digamma(x), scalar=vecmath.lgamma)


def _loggamma(x: Scalar) -> Scalar:
    return scalar.where(x < 0, float("nan"), vecmath.lgamma(x))


loggamma: Primitive = special("loggamma", reals(0.5, 5), lambda x: digamma(x), scalar=_loggamma)

gammasgn: Primitive = special("gammasgn", reals(0.5, 5), ZERO_DERIVATIVE, scalar=vecmath.gammasgn)

gamma: Primitive = special(
    "gamma", reals(0.5, 5), lambda x, out: out * digamma(x), scalar=vecmath.gamma
)


def _slope_of_rgamma(x: Any, out: Any) -> Any:
    """The derivative of 1 / gamma; by reflection for negative x, where the logarithm has poles."""
    if is_complex(x.dtype):
        return -out * digamma(x)
    left = less(x, 0.5)
    mirrored = select(left, 1 - x, 1)
    turn = math.pi * (x - 2 * np.floor(0.5 * x))
    reflected = gamma(mirrored) * (cos(turn) - sin(turn) / math.pi * digamma(mirrored))
    return select(left, reflected, -times(out, digamma(select(left, 1, x))))


rgamma: Primitive = special("rgamma", reals(-3, 3), _slope_of_rgamma, scalar=vecmath.rgamma)

digamma: Primitive = computed(
    "digamma", digamma_of, reals(0.5, 5), lambda x: polygamma(x, n=1), scalar=vecmath.digamma,
    promotion=promotion_of(lazy("scipy.special:psi")),
)  # fmt: skip
protocols.ufuncs["psi"] = digamma

_zeta = lazy("scipy.special:zeta")


polygamma: Primitive = computed(
    "polygamma", polygamma_of, reals(0.5, 5), lambda x, *, n: polygamma(x, n=n + 1),
    scalar=vecmath.polygamma, promotion=real("polygamma", "digamma"), params=[{"n": 1}],
)  # fmt: skip

# -- quotients -------------------------------------------------------------------------------------

difference_of_polygammas: Primitive = computed(
    "polygamma_difference", polygamma_difference, [reals(0.5, 5), reals(0.5, 5)],
    lambda x, step, *, n: difference_of_polygammas(x, step, n=n + 1),
    lambda x, step, *, n: polygamma(x + step, n=n + 1),
    scalar=vecmath.polygamma_difference, params=[{"n": 0}],
)  # fmt: skip


def _at_pole(x: Any) -> Any:
    """Whether the gamma function has a pole there."""
    return less(x, 1) & equal(np.floor(x), x)


def sine_of_turns(x: Any) -> Any:
    """``sin(pi x)``, with all digits of the distance from a whole number."""
    whole = np.rint(x)
    sign = 1 - 2 * (whole - 2 * np.floor(0.5 * whole))
    return sign * sin(math.pi * (x - whole))


def rise(x: Any, step: Any) -> Any:
    """``digamma(x + step) - digamma(x)``, with no cancellation where the step is small.

    On the left it is computed by reflection: near poles, the difference would cancel as well. At 1,
    the reflected function has a pole.
    """
    end = x + step
    low = less(x, 0.5) & less(end, 0.5) & (less(x, 0) | less(end, 0) | _at_pole(x))
    sines = sine_of_turns(x) * sine_of_turns(end)
    between_poles = equal(sines, 0) & equal(np.floor(step), step)
    sines = select(low & ~between_poles, sines, 1)
    turn = select(low, math.pi * sine_of_turns(step) / sines, 0)
    start, size = select(low, 1 - x, x), select(low, -step, step)
    return difference_of_polygammas(start, size, n=0) + turn


gammaln_difference: Primitive = computed(
    "gammaln_difference", log_gamma_difference, [reals(0.5, 5), reals(0.5, 5)],
    rise,
    lambda x, step: digamma(x + step),
    scalar=vecmath.lgamma_difference,
)  # fmt: skip
"""``gammaln(x + step) - gammaln(x)``, with no cancellation where the step is small."""

_POSITIVE = [reals(0.5, 5), reals(0.5, 5)]

beta: Primitive = special(
    "beta", _POSITIVE,
    lambda a, b, out: -out * rise(a, b),
    lambda a, b, out: -out * rise(b, a),
    scalar=vecmath.beta,
)  # fmt: skip

betaln: Primitive = special(
    "betaln", _POSITIVE, lambda a, b: -rise(a, b), lambda a, b: -rise(b, a), scalar=vecmath.betaln
)


def _reciprocal(x: Any) -> tuple[Any, Any]:
    """``1 / gamma(x)`` and its slope."""
    value = rgamma(x)
    return value, _slope_of_rgamma(x, value)


def _slope_of_poch(z: Any, m: Any, out: Any) -> Any:
    end = z + m
    root = _at_pole(z) & ~_at_pole(end)
    rest, slope = _reciprocal(z)
    at_root = gamma(end) * (slope + digamma(end) * rest)
    return select(root, at_root, out * rise(select(root, 1, z), select(root, 1, m)))


def _slope_of_binom_by_n(n: Any, k: Any, out: Any) -> Any:
    root = _at_pole(k + 1) | _at_pole(n - k + 1)
    rest, slope = _reciprocal(n - k + 1)
    at_root = gamma(n + 1) * rgamma(k + 1) * (slope + digamma(n + 1) * rest)
    return select(root, at_root, out * rise(select(root, 1, n - k + 1), select(root, 1, k)))


def _slope_of_binom_by_k(n: Any, k: Any, out: Any) -> Any:
    root = _at_pole(k + 1) | _at_pole(n - k + 1)
    (below, slope), (rest, slope_of_rest) = _reciprocal(k + 1), _reciprocal(n - k + 1)
    at_root = gamma(n + 1) * (slope * rest - below * slope_of_rest)
    return select(root, at_root, out * rise(select(root, 1, k + 1), select(root, 1, n - 2 * k)))


poch: Primitive = special(
    "poch", _POSITIVE,
    _slope_of_poch,
    lambda z, m, out: out * digamma(z + m),
)  # fmt: skip

binom: Primitive = special(
    "binom", [reals(4, 6), reals(0.5, 3)],
    _slope_of_binom_by_n,
    _slope_of_binom_by_k,
)  # fmt: skip

# -- the zeta function -----------------------------------------------------------------------------


def _by_offset(s: Any, q: Any, n: int) -> Any:
    product = s * hurwitz_slope(s + 1, q, n=n)
    return product + n * hurwitz_slope(s + 1, q, n=n - 1) if n else product


hurwitz_slope: Primitive = computed(
    "zeta_derivative", zeta_derivative, [reals(1.5, 5), reals(0.5, 5)],
    lambda s, q, *, n: hurwitz_slope(s, q, n=n + 1),
    lambda s, q, *, n: -_by_offset(s, q, n),  # the n-th derivative of -s zeta(s + 1, q)
    params=[{"n": 1}],
)  # fmt: skip


def _in_loop_of(ufunc: Lazy) -> Promotion:
    """Real operands in the dtypes of the ufunc that SciPy's function calls."""
    refusing, asked = real("zeta"), promotion_of(ufunc)

    def promotion(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
        refusing(keys)
        return asked(keys)

    return promotion


zeta: Primitive = computed(
    "zeta", lazy("scipy.special:zeta"), [reals(1.5, 5), reals(0.5, 5)],
    lambda s, q: hurwitz_slope(s, q, n=1),
    lambda s, q: -s * zeta(s + 1, q),
    promotion=_in_loop_of(lazy("scipy.special._ufuncs:_zeta")),
)  # fmt: skip


def _slope_of_zeta(s: Any) -> Any:
    """Zeta's derivative; by the functional equation (NIST 25.4.1) below -1, where sums cancel."""
    low = less(s, -1)
    direct = hurwitz_slope(select(low, 2, s), 1.0, n=1)
    s = select(low, s, -2)
    value, slope = zeta(1 - s, 1.0), hurwitz_slope(1 - s, 1.0, n=1)
    angle = 0.5 * math.pi * s
    by_sine = (math.log(2 * math.pi) - digamma(1 - s)) * value - slope
    # as a logarithm, since the gamma function overflows before the product
    factor = 2 * exp((s - 1) * math.log(2 * math.pi) + gammaln(1 - s))
    reflected = factor * (sin(angle) * by_sine + 0.5 * math.pi * cos(angle) * value)
    return select(low, reflected, direct)


riemann_zeta: Primitive = computed(
    "riemann_zeta", lambda s: _zeta(s), reals(1.5, 5), _slope_of_zeta,
    promotion=_in_loop_of(lazy("scipy.special._ufuncs:_riemann_zeta")),
)  # fmt: skip

zetac: Primitive = special("zetac", reals(1.5, 5), _slope_of_zeta)

# SciPy's functions are Python around ufuncs of these names
protocols.ufuncs["_zeta"] = zeta
protocols.ufuncs["_riemann_zeta"] = riemann_zeta
