"""The fits behind the special functions of `functrans.vecmath`, see `tests.vecmath.fits`.

Most are for float64, in which these functions are computed for float32 too.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np

from tests.vecmath.remez import Function

F64, F32 = np.float64, np.float32
FAR = 1 - mp.mpf(10) ** -10


def on_ray(function: Function, start: float, k: float) -> Function:
    """A function of ``x`` from `start` up, in ``t = (x - start - k) / (x - start + k)``."""
    return lambda t: function(start + k * (1 + t) / (1 - t))


def inverted(function: Function, least: float) -> Function:
    """A function of ``x`` from `least` up, in ``t = 2 least / x - 1``."""
    return lambda t: function(2 * least / (1 + t))


def centred(function: Function, low: float, high: float) -> Function:
    """A function between two points, in ``t`` from -1 to 1."""
    return lambda t: function((high + low) / 2 + (high - low) / 2 * t)


def of_square(function: Function) -> Function:
    """An even function of ``x``, in ``x**2``."""
    return lambda z: function(mp.sqrt(z))


def stirling_correction(x: Any) -> Any:
    """``log(gamma(x))`` less the elementary part of Stirling's formula."""
    with mp.extradps(25):
        stirling = (x - mp.mpf(1) / 2) * mp.log(x) - x + mp.log(2 * mp.pi) / 2
        return mp.loggamma(x) - stirling


def scaled_i(n: int) -> Function:
    return lambda x: mp.besseli(n, x) * mp.exp(-x) * mp.sqrt(x)


def scaled_k(n: int) -> Function:
    return lambda x: mp.besselk(n, x) * mp.exp(x) * mp.sqrt(x)


def regular_k0(x: Any) -> Any:
    return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


def regular_k1(x: Any) -> Any:
    with mp.extradps(40):
        return (mp.besselk(1, x) - 1 / x - mp.log(x / 2) * mp.besseli(1, x)) / x


def scaled_e1(x: Any) -> Any:
    return mp.e1(x) * mp.exp(x) * (x + 2)


def regular_e1(x: Any) -> Any:
    return (mp.e1(x) + mp.log(x) + mp.euler) / x


def zeros_apart(n: int) -> Function:
    """``J(x)`` by its first two factors, over ``x`` for the order 1, in ``x**2 / 32 - 1``."""

    def quotient(t: Any) -> Any:
        square = 32 * (1 + t)
        x = mp.sqrt(square)
        first, second = (mp.besseljzero(n, k) for k in (1, 2))
        return mp.besselj(n, x) / x**n / (square - first**2) / (square - second**2)

    return quotient


def regular_y(n: int) -> Function:
    """What ``Y(x)`` has besides its logarithm and its pole, in ``x**2 / 32 - 1``."""

    def value(t: Any) -> Any:
        with mp.extradps(40):
            x = mp.sqrt(32 * (1 + t))
            rest = mp.bessely(n, x) - 2 / mp.pi * mp.log(x / 2) * mp.besselj(n, x)
            return (rest + 2 / (mp.pi * x)) / x if n else rest

    return value


def modulus_part(n: int, number: int) -> Function:
    """``P`` and ``x Q`` of Hankel's expansions, in ``128 / x**2 - 1``."""

    def value(t: Any) -> Any:
        x = 8 * mp.sqrt(2 / (1 + t))
        j, y, phase = mp.besselj(n, x), mp.bessely(n, x), x - (2 * n + 1) * mp.pi / 4
        size, cos, sin = mp.sqrt(mp.pi * x / 2), mp.cos(phase), mp.sin(phase)
        return (size * (j * cos + y * sin), x * size * (y * cos - j * sin))[number]

    return value


SMALL = 1e-12

with mp.workdps(80):
    EI_ROOT = mp.findroot(mp.ei, 0.3725)


def regular_ei(x: Any) -> Any:
    return (mp.ei(x) - mp.log(x / EI_ROOT)) / (x - EI_ROOT)


def scaled_ei(inverse: Any) -> Any:
    return mp.ei(1 / inverse) * mp.exp(-1 / inverse) / inverse


def inverse_erf_ratio(w: Any) -> Any:
    """``x / erf(x)`` where ``w = -log(1 - erf(x)**2)``, by Newton's method for ``w``."""
    u = mp.sqrt(-mp.expm1(-w))
    x = u * mp.sqrt(mp.pi) / 2 if w < 1 else mp.sqrt(w)
    for _ in range(100):
        tail = mp.erfc(x)
        slope = 4 / mp.sqrt(mp.pi) * mp.exp(-x * x) * (1 - tail) / (tail * (2 - tail))
        step = (w + mp.log(tail * (2 - tail))) / slope
        x += step
        if abs(step) < mp.mpf(10) ** -45 * x:
            break
    return x / u


def tail_of_inverse_erf(r: Any) -> Any:
    return inverse_erf_ratio(r * r)


# name: (target, number of coefficients, low, high, dtype, options of fit)
SPECIAL_FITS: dict[str, tuple[Any, ...]] = {
    "stirling": (
        on_ray(lambda x: stirling_correction(x) * (x + 1), 1, 2), 21, -1, FAR, F64, None,
    ),
    "i0 small": (of_square(lambda x: mp.besseli(0, x)), 15, SMALL, 64, F64, None),
    "i1 small": (of_square(lambda x: mp.besseli(1, x) / x), 15, SMALL, 64, F64, None),
    "i2 small": (of_square(lambda x: mp.besseli(2, x) / x**2), 15, SMALL, 64, F64, None),
    **{
        f"i{n} small 32": (
            of_square(lambda x, n=n: mp.besseli(n, x) / x**n), 10, SMALL, 64, F32, None,
        )
        for n in (0, 1, 2)
    },
    **{f"i{n} large 32": (inverted(scaled_i(n), 8), 7, -FAR, 1, F32, None) for n in (0, 1)},
    "i0 large": (inverted(scaled_i(0), 8), 23, -FAR, 1, F64, None),
    "i1 large": (inverted(scaled_i(1), 8), 23, -FAR, 1, F64, None),
    "k0 small": (of_square(regular_k0), 8, SMALL, 1, F64, None),
    "k1 small": (of_square(regular_k1), 8, SMALL, 1, F64, None),
    "k0 large": (on_ray(scaled_k(0), 1, 2), 22, -1, FAR, F64, None),
    "k1 large": (on_ray(scaled_k(1), 1, 2), 22, -1, FAR, F64, None),
    "e1 small": (regular_e1, 11, SMALL, 1, F64, None),
    "e1 large": (on_ray(scaled_e1, 1, 3), 27, -1, FAR, F64, None),
    "ei small": (lambda u: regular_ei(u + 3), 20, -3 + SMALL, 3, F64, None),
    "ei middle": (centred(scaled_ei, 1 / mp.mpf(12), 1 / mp.mpf(6)), 20, -1, 1, F64, None),
    "ei large": (centred(scaled_ei, 1 / mp.mpf(24), 1 / mp.mpf(12)), 19, -1, 1, F64, None),
    "ei far": (centred(scaled_ei, 0, 1 / mp.mpf(24)), 20, -FAR, 1, F64, None),
    **{
        f"j{n} small": (zeros_apart(n), 14, -1 + SMALL, 1, F64, None) for n in (0, 1)
    },
    **{f"y{n} small": (regular_y(n), 16, -1 + SMALL, 1, F64, lambda t: mp.mpf(1)) for n in (0, 1)},
    **{f"p{n}": (modulus_part(n, 0), 12, -1 + 1e-9, 1, F64, None) for n in (0, 1)},
    **{f"q{n}": (modulus_part(n, 1), 15, -1 + 1e-9, 1, F64, None) for n in (0, 1)},
    "erfinv centre": (
        lambda u: inverse_erf_ratio(u + mp.mpf("3.125")), 24, -3.125 + 1e-9, 3.125, F64, None,
    ),
    "erfinv tail": (
        lambda u: tail_of_inverse_erf(u + mp.mpf("3.75")), 24, -1.25, 1.25, F64, None,
    ),
    "erfinv far": (
        centred(lambda u: tail_of_inverse_erf(1 / u) * u, 0.03649635, 0.2), 26, -1, 1, F64, None,
    ),
}  # fmt: skip
