"""Solutions of second-order differential equations, which give all higher derivatives.

Mathieu's functions, spheroidal wave functions and parabolic cylinder functions. SciPy computes a
function together with its first derivative; the second derivative is a combination of both.

References
----------
NIST Digital Library of Mathematical Functions, 12.2, 28.2, 28.20, 30.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.ir.primitive import NotDifferentiable, Primitive, not_differentiable
from functrans.ops.elementwise.hyperbolic import cosh
from functrans.ops.elementwise.special.integrals import DEGREE, cosdg
from functrans.ops.elementwise.special.scipy import ordered, part, parts
from functrans.ops.samples import Domain, reals, whole

PARAMETER = not_differentiable(
    "only the derivative in the last operand is known; hold the parameters fixed"
)


def _solution(
    name: str,
    domains: Sequence[Domain],
    # gives the second derivative, from the operands, the value and the first derivative
    curvature: Callable[..., Any],
    unit: float = 1.0,  # the derivative of the equation's variable with respect to the last operand
) -> tuple[Primitive, Primitive]:
    """A function and its derivative, given its differential equation."""
    fixed = [PARAMETER] * (len(domains) - 1)

    def to_slope(*operands_out_dot: Any) -> Any:
        *operands, _, dot = operands_out_dot
        return dot * (unit * slope(*operands))

    def to_curvature(*operands_out_dot: Any) -> Any:
        *operands, out, dot = operands_out_dot
        return dot * (unit * curvature(*operands, value(*operands), out))

    value = part(name, name, 0, domains, [*fixed, to_slope])
    slope = part(f"{name}_slope", name, 1, domains, [*fixed, to_curvature])
    parts(name, value, slope)
    return value, slope


GIVEN = not_differentiable(
    "its separation constant is given; call the function that computes it from c"
)

INCONSISTENT = not_differentiable("SciPy's derivative is not that of its values where n - m is odd")

# -- parabolic cylinder functions ------------------------------------------------------------------

_WEBER = [reals(0.5, 3), reals(-2, 2)]

_solution("pbdv", _WEBER, lambda v, x, y, slope: (0.25 * (x * x) - v - 0.5) * y)
_solution("pbvv", _WEBER, lambda v, x, y, slope: (0.25 * (x * x) - v - 0.5) * y)
_solution("pbwa", _WEBER, lambda a, x, y, slope: (a - 0.25 * (x * x)) * y)

# -- Mathieu ---------------------------------------------------------------------------------------

_CHARACTERISTIC = [whole(1, 4), reals(0.5, 3)]

mathieu_a: Primitive = ordered("mathieu_a", _CHARACTERISTIC, PARAMETER)
mathieu_b: Primitive = ordered("mathieu_b", _CHARACTERISTIC, PARAMETER)


def _angular(characteristic: Primitive) -> Callable[..., Any]:
    return lambda m, q, x, y, slope: (2 * q * cosdg(2 * x) - characteristic(m, q)) * y


def _radial(characteristic: Primitive) -> Callable[..., Any]:
    return lambda m, q, x, y, slope: (characteristic(m, q) - 2 * q * cosh(2 * x)) * y


_solution("mathieu_cem", [*_CHARACTERISTIC, reals(0, 180)], _angular(mathieu_a), DEGREE)
_solution("mathieu_sem", [*_CHARACTERISTIC, reals(0, 180)], _angular(mathieu_b), DEGREE)
for _kind in "12":
    _solution(f"mathieu_modcem{_kind}", [*_CHARACTERISTIC, reals(0.1, 2)], _radial(mathieu_a))
    _solution(f"mathieu_modsem{_kind}", [*_CHARACTERISTIC, reals(0.1, 2)], _radial(mathieu_b))

# -- spheroidal wave functions ---------------------------------------------------------------------

_MODE = [whole(0, 2), whole(2, 4), reals(0.5, 2)]

pro_cv: Primitive = ordered("pro_cv", _MODE, PARAMETER, counts=(0, 1))
obl_cv: Primitive = ordered("obl_cv", _MODE, PARAMETER, counts=(0, 1))


def _prolate(m: Any, c: Any, separation: Any, x: Any, y: Any, slope: Any) -> Any:
    rest = (1 - x) * (1 + x)
    return (2 * x * slope - (separation - c * c * (x * x) - m * m / rest) * y) / rest


def _oblate(m: Any, c: Any, separation: Any, x: Any, y: Any, slope: Any) -> Any:
    rest = (1 - x) * (1 + x)
    return (2 * x * slope - (separation + c * c * (x * x) - m * m / rest) * y) / rest


def _oblate_radial(m: Any, c: Any, separation: Any, x: Any, y: Any, slope: Any) -> Any:
    rest = 1 + x * x
    return ((separation - c * c * (x * x) - m * m / rest) * y - 2 * x * slope) / rest


def _refused(name: str, domains: Sequence[Domain], reason: NotDifferentiable) -> None:
    """A function and its slope without derivatives."""
    parts(
        name, part(name, name, 0, domains, reason), part(f"{name}_slope", name, 1, domains, reason)
    )


def _spheroidal(name: str, x: Domain, equation: Callable[..., Any], separation: Primitive) -> None:
    """A function of ``c``, and its form with the separation constant as an operand.

    The latter has no derivative, since it solves the equation only for the correct constant.
    """
    domains = [*_MODE, x]
    _solution(
        name, domains,
        lambda m, n, c, x, y, slope: equation(m, c, separation(m, n, c), x, y, slope),
    )  # fmt: skip
    _refused(f"{name}_cv", [*_MODE, reals(6, 7), x], GIVEN)


_spheroidal("pro_ang1", reals(-0.9, 0.9), _prolate, pro_cv)
_spheroidal("pro_rad1", reals(1.5, 3), _prolate, pro_cv)
_spheroidal("pro_rad2", reals(1.5, 3), _prolate, pro_cv)
_spheroidal("obl_ang1", reals(-0.9, 0.9), _oblate, obl_cv)
_spheroidal("obl_rad1", reals(0.5, 3), _oblate_radial, obl_cv)
_refused("obl_rad2", [*_MODE, reals(0.5, 3)], INCONSISTENT)
_refused("obl_rad2_cv", [*_MODE, reals(6, 7), reals(0.5, 3)], GIVEN)
