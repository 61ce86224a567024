"""Elliptic integrals and functions, differentiated through Carlson's symmetric integrals.

Legendre's formulas for these derivatives cancel where the parameter is small. The integrands of
Carlson's integrals and of their derivatives are positive.

References
----------
NIST Digital Library of Mathematical Functions, chapter 19 and 22.13.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ops.elementwise.choice import absolute, masked, select
from functrans.ops.elementwise.compare import equal, greater, less
from functrans.ops.elementwise.power import sqrt
from functrans.ops.elementwise.rounding import rint
from functrans.ops.elementwise.special.carlson import symmetric_integral
from functrans.ops.elementwise.special.scipy import computed, part, parts, real, special
from functrans.ops.elementwise.trigonometric import cos, sin
from functrans.ops.samples import reals

# -- Carlson ---------------------------------------------------------------------------------------


def _raised(powers: tuple[int, ...], operand: int) -> tuple[int, ...]:
    return tuple(p + 2 * (i == operand) for i, p in enumerate(powers))


def _slope_of_integral(operand: int) -> Any:
    def rule(
        x: Any, y: Any, z: Any, p: Any, out: Any, dot: Any, *, powers: Any, moment: int
    ) -> Any:
        next_integral = carlson(x, y, z, p, powers=_raised(powers, operand), moment=moment)
        return dot * (-0.5 * powers[operand] * next_integral)

    return rule


_POSITIVE = [reals(0.5, 3)] * 4

carlson: Primitive = computed(
    "carlson", symmetric_integral, _POSITIVE, [_slope_of_integral(operand) for operand in range(4)],
    promotion=real("carlson", "an elliptic integral"),
    params=[{"powers": (1, 3, 1, 2), "moment": 0}],
)  # fmt: skip


def _integral(factor: float, powers: tuple[int, ...], operand: int) -> Any:
    """The rule of one operand of ``factor`` times an integral with these half powers."""

    def rule(*operands_out_dot: Any) -> Any:
        *operands, _, dot = operands_out_dot
        operands += [1.0] * (4 - len(operands))
        slope = carlson(*operands, powers=_raised(powers, operand), moment=0)
        return dot * (factor * -0.5 * powers[operand] * slope)

    return rule


def _rules(factor: float, powers: tuple[int, ...], arity: int) -> list[Any]:
    return [_integral(factor, powers, operand) for operand in range(arity)]


elliprf: Primitive = special("elliprf", _POSITIVE[:3], _rules(0.5, (1, 1, 1, 0), 3))
elliprd: Primitive = special("elliprd", _POSITIVE[:3], _rules(1.5, (1, 1, 3, 0), 3))
elliprj: Primitive = special("elliprj", _POSITIVE, _rules(1.5, (1, 1, 1, 2), 4))


def _degenerate(operand: int) -> Any:
    """The rule of `elliprc`: algebraic, but for near operands, where it would cancel."""
    close = _integral(0.5, (1, 2, 0, 0), operand)

    def rule(x: Any, y: Any, out: Any, dot: Any) -> Any:
        apart, root = less(2 * y, x) | greater(y, 2 * x), sqrt(x)
        z = select(apart, y, 2 * x + 1)
        quotient = (out - 1 / root, (root - z * out) / z)[operand] / (2 * (z - x))
        near = close(select(apart, 1, x), select(apart, 1, y), out, dot)
        return select(apart, dot * quotient, near)

    return rule


elliprc: Primitive = special("elliprc", _POSITIVE[:2], [_degenerate(0), _degenerate(1)])


def _slope_of_rg(operand: int) -> Any:
    powers = _raised((1, 1, 1, 0), operand)
    return lambda x, y, z, out, dot: dot * (0.125 * carlson(x, y, z, 1.0, powers=powers, moment=1))


elliprg: Primitive = special(
    "elliprg", _POSITIVE[:3], [_slope_of_rg(operand) for operand in range(3)]
)

# -- complete --------------------------------------------------------------------------------------

ellipkm1: Primitive = special("ellipkm1", reals(0.1, 2), lambda p: elliprd(0.0, 1.0, p) * (-1 / 6))

ellipk: Primitive = special("ellipk", reals(-2, 0.9), lambda m: elliprd(0.0, 1.0, 1 - m) * (1 / 6))

ellipe: Primitive = special("ellipe", reals(-2, 0.9), lambda m: elliprd(0.0, 1 - m, 1.0) * (-1 / 6))

# -- incomplete ------------------------------------------------------------------------------------


def _reduced(phi: Any) -> tuple[Any, Any, Any]:
    """Sine and squared cosine of the amplitude, and its number of half turns."""
    turns = rint(phi / np.pi)
    rest = phi - turns * np.pi
    sine, cosine = sin(rest), cos(rest)
    return sine, cosine * cosine, turns


def _halves(turns: Any, complete: Any) -> Any:
    """The part of whole half turns: none within the first, where ``m == 1`` makes it infinite."""
    return masked(~equal(turns, 0), 2 * turns * complete)


def _slope_of_f(phi: Any, m: Any) -> Any:
    sine, cosine2, turns = _reduced(phi)
    one = elliprd(cosine2, 1.0, 1 - m * (sine * sine))
    return (sine * sine * sine * one + _halves(turns, elliprd(0.0, 1.0, 1 - m))) / 6


def _slope_of_e(phi: Any, m: Any) -> Any:
    sine, cosine2, turns = _reduced(phi)
    one = elliprd(cosine2, 1 - m * (sine * sine), 1.0)
    return (sine * sine * sine * one + _halves(turns, elliprd(0.0, 1 - m, 1.0))) / -6


def _modular(phi: Any, m: Any) -> Any:
    return sqrt(1 - m * sin(phi) * sin(phi))


_AMPLITUDE = [reals(-1.4, 4), reals(-2, 0.9)]

ellipkinc: Primitive = special(
    "ellipkinc", _AMPLITUDE,
    [
        lambda phi, m, out, dphi: dphi / _modular(phi, m),
        lambda phi, m, out, dm: dm * _slope_of_f(phi, m),
    ],
)  # fmt: skip

ellipeinc: Primitive = special("ellipeinc", _AMPLITUDE, _modular, _slope_of_e)

# -- Jacobi's functions: all of them through the amplitude, whose sine is sn -----------------------

_ARGUMENT = [reals(-2, 2), reals(0.1, 0.9)]


def _amplitude_by_m(u: Any, m: Any) -> Any:
    return -elliptic_dn(u, m) * _slope_of_f(elliptic_amplitude(u, m), m)


elliptic_amplitude: Primitive = part(
    "elliptic_amplitude", "ellipj", 3, _ARGUMENT,
    lambda u, m: elliptic_dn(u, m),
    _amplitude_by_m,
)  # fmt: skip

elliptic_sn: Primitive = part(
    "elliptic_sn", "ellipj", 0, _ARGUMENT,
    lambda u, m: elliptic_cn(u, m) * elliptic_dn(u, m),
    lambda u, m: elliptic_cn(u, m) * _amplitude_by_m(u, m),
)  # fmt: skip

elliptic_cn: Primitive = part(
    "elliptic_cn", "ellipj", 1, _ARGUMENT,
    lambda u, m: -elliptic_sn(u, m) * elliptic_dn(u, m),
    lambda u, m: -elliptic_sn(u, m) * _amplitude_by_m(u, m),
)  # fmt: skip


def _dn_by_m(u: Any, m: Any, dn: Any) -> Any:
    sn, cn = elliptic_sn(u, m), elliptic_cn(u, m)
    return -(0.5 * sn * sn + m * sn * cn * _amplitude_by_m(u, m)) / dn


elliptic_dn: Primitive = part(
    "elliptic_dn", "ellipj", 2, _ARGUMENT,
    lambda u, m: -m * elliptic_sn(u, m) * elliptic_cn(u, m),
    lambda u, m, out: _dn_by_m(u, m, out),
)  # fmt: skip

parts("ellipj", elliptic_sn, elliptic_cn, elliptic_dn, elliptic_amplitude)

# -- the mean of Gauss -----------------------------------------------------------------------------


def _slope_of_agm(a: Any, b: Any, mean: Any) -> Any:
    """The derivative in ``b``, from the mean ``M(s, g) = pi / (2 R_F(0, s**2, g**2))``.

    ``s`` and ``g`` are the arithmetic and the geometric mean, whose squares do not underflow. ``M``
    is homogeneous, which gives the slope in ``s`` from that in ``g``.
    """
    s = 0.5 * absolute(a) + 0.5 * absolute(b)
    a, b = sqrt(absolute(a)), sqrt(absolute(b))
    g, mean = a * b / s, absolute(mean) / s
    by_g = mean * mean * g * elliprd(0.0, 1.0, g * g) * (2 / (3 * np.pi))
    slope = 0.5 * (mean - g * by_g + a / b * by_g)
    return select(equal(a, 0), 0, select(equal(b, 0), math.inf, slope))


agm: Primitive = special(
    "agm", [reals(0.5, 3), reals(0.5, 3)],
    lambda a, b, out: _slope_of_agm(b, a, out),
    lambda a, b, out: _slope_of_agm(a, b, out),
)  # fmt: skip
