"""Functions of `scipy.special` whose results are complex numbers, from those of real numbers.

References
----------
NIST Digital Library of Mathematical Functions, 7.2, 7.7, 10.4, 10.11, 10.61.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal, less
from functrans.ops.elementwise.complex_numbers import complex_p, conj
from functrans.ops.elementwise.special import bessel
from functrans.ops.elementwise.special.faddeeva import wofz
from functrans.ops.elementwise.special.gamma import sine_of_turns
from functrans.ops.elementwise.special.scipy import composed
from functrans.ops.elementwise.trigonometric import cos, sin

# -- Fresnel integrals ----------------------------------------------------------------------------


@composed("modfresnelp")
def modfresnelp(x: Any) -> tuple[Any, Any]:
    """The integral of ``exp(i t**2)`` from x to infinity, and that without its rotating phase.

    SciPy's imaginary part for negative x is not that of the integral.
    """
    along = math.sqrt(0.5) * x
    scaled = 0.5 * wofz(complex_p(along, along))
    angle = x * x + math.pi / 4
    return math.sqrt(math.pi) * complex_p(cos(angle), sin(angle)) * scaled, scaled


@composed("modfresnelm")
def modfresnelm(x: Any) -> tuple[Any, Any]:
    """The conjugates of `modfresnelp`."""
    integral, scaled = modfresnelp(x)
    return conj(integral), conj(scaled)


# -- Bessel functions ------------------------------------------------------------------------------


def _hankel(kind: int, scaled: bool) -> None:
    """``J + iY``, or with a minus; negative numbers are those above the branch cut."""
    sign = 1 if kind == 1 else -1

    @composed(f"hankel{kind}{'e' if scaled else ''}")
    def function(v: Any, z: Any) -> Any:
        negative = less(z, 0)
        size = select(negative, -z, z)
        first, second = (bessel.jv(v, size), bessel.yv(v, size))
        # SciPy gives NaN at the pole
        first = select(equal(z, 0), np.nan, first)
        value = complex_p(first, select(equal(z, 0), np.nan, sign * second))
        # multiples of exact zeros, since Y is large near 0
        sine, cosine = sine_of_turns(v), sine_of_turns(v + 0.5)
        if kind == 1:
            turned = -complex_p(cosine, -sine) * complex_p(first, -second)
        else:
            other = complex_p(cosine, sine) * complex_p(first, second)
            turned = 2 * cosine * complex_p(first, -second) + other
        value = select(negative, turned, value)
        return value * complex_p(cos(z), -sign * sin(z)) if scaled else value


for _kind, _scaled in itertools.product((1, 2), (False, True)):
    _hankel(_kind, _scaled)


@composed("kelvin")
def kelvin(x: Any) -> tuple[Any, Any, Any, Any]:
    """``ber + i bei``, ``ker + i kei`` and their slopes."""
    pairs = (("ber", "bei"), ("ker", "kei"), ("berp", "beip"), ("kerp", "keip"))
    ours: Any = [complex_p(*(getattr(bessel, name)(x) for name in pair)) for pair in pairs]
    return tuple(ours)
