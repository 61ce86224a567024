"""The normal quantile of a uniform number, with the same arithmetic as XLA.

It is ``sqrt(2) erfinv(u)`` with polynomials in ``w = -log(1 - u**2)`` near the centre, and in
``sqrt(w)`` in the tails. Each operation, and each fused product and sum, is the one that compiled
XLA does on a CPU, so that random numbers are `jax.random`'s: in float32 to the last bit, in float64
up to the logarithms of its C library. The relative error is at most some units in the last place in
float64 (see tests/vecmath), and 3e-7 in float32.

References
----------
M. B. Giles, "Approximating the erfinv function" (GPU Computing Gems, Jade edition, 2011).
S. L. Moshier, Cephes mathematical library: logarithms (1984).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from functrans.loop.scalar import Scalar, const, convert, fma, ratio, sqrt, unlikely, where
from functrans.records import NamedTuple
from functrans.vecmath.logarithm import log1p_reduced, split
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    floating,
    format_of,
    rounded_product,
)


class _Piece(NamedTuple):
    """A polynomial in ``w - shift``, or in ``sqrt(w) - shift``, for ``w`` below a bound."""

    bound: float
    shift: float
    coefficients: tuple[float, ...]


class _Table(NamedTuple):
    pieces: tuple[_Piece, ...]
    numerator: tuple[float, ...]
    """With `denominator`: ``(log(1 + x) - x + x**2 / 2) / x**3``, for x from 1 - sqrt(2) up."""
    denominator: tuple[float, ...]
    near: float


_TABLES: dict[Format, _Table] = {
    FLOAT32: _Table(
        pieces=(
            _Piece(5.0, 2.5, (
                1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
                -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08,
            )),
            _Piece(math.inf, 3.0, (
                2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
                -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257,
            )),
        ),
        numerator=(
            20.039552688598633, 57.11296463012695, 60.949668884277344, 29.91191864013672,
            6.578732490539551, 0.4985410273075104, 4.527000055531971e-05,
        ),
        denominator=(
            60.11865997314453, 216.42788696289062, 309.0987243652344, 221.7624053955078,
            83.04756927490234, 15.062909126281738, 1.0,
        ),
        near=0.4142135679721832,
    ),
    FLOAT64: _Table(
        pieces=(
            _Piece(6.25, 3.125, (
                1.6536545626831027, 0.24015818242558962, -0.006033670871430149,
                -0.000740702534166267, 0.00018673420803405714, -1.3882523362786469e-05,
                -1.3654692000834679e-06, 4.2347877827932404e-07, -2.9070369957882005e-08,
                -4.112633980346984e-09, 1.0512122733215323e-09, -5.415412054294628e-11,
                -1.2975133253453532e-11, 2.6335093153082323e-12, -8.151934197605472e-14,
                -4.054566272975207e-14, 6.637638134358324e-15, 2.0972767875968562e-17,
                -1.333171662854621e-16, 1.1157877678025181e-17, 1.28584807152564e-18,
                -1.6850591381820166e-19, -3.64441206401782e-21,
            )),
            _Piece(16.0, 3.25, (
                3.0838856104922208, 1.0052589676941592, 0.005370914553590064,
                -0.003751208507569241, 0.002491442096107851, -0.0016882755560235047,
                0.0009532893797373805, -0.0003550375203628475, 2.4031110387097894e-05,
                6.828485145957318e-05, -4.7318229009055734e-05, 1.2475304481671779e-05,
                2.9234449089955446e-06, -4.013867526981546e-06, 1.5027403968909828e-06,
                1.8239629214389228e-08, -2.7517406297064545e-07, 9.075656193888539e-08,
                2.2137376921775787e-09,
            )),
            _Piece(math.inf, 5.0, (
                4.849906401408584, 1.0103004648645344, -0.00013871931833623122,
                -0.00021503011930044477, 7.599527703001776e-05, -1.968177810553167e-05,
                4.526062597223154e-06, -9.9298272942317e-07, 2.2900482228026655e-07,
                -6.771199775845234e-08, 2.914795345090108e-08, -1.496002662714924e-08,
                7.61570120807834e-09, -3.789465440126737e-09, 1.5076572693500548e-09,
                -2.555641816996525e-10, -2.7109920616438573e-11,
            )),
        ),
        numerator=(
            20.039553499201283, 57.11296359058554, 60.94966798098779, 29.911919328553072,
            6.578732594206104, 0.49854102823193375, 4.52700008624452e-05,
        ),
        denominator=(
            60.11866049760384, 216.42788614495947, 309.09872225312057, 221.76239823732857,
            83.04756596796722, 15.062909083469192, 1.0,
        ),
        near=0.41421356237309503,
    ),
}  # fmt: skip


def _horner(x: Scalar, coefficients: Sequence[Scalar | float]) -> Scalar:
    *rest, last = (c if isinstance(c, Scalar) else const(c, x.dtype) for c in coefficients)
    return reduce(lambda total, c: fma(total, x, c), reversed(rest), last)


def _log_float32(x: Scalar) -> Scalar:
    """Moshier's logarithm of a positive normal number in float32."""
    f, _, field = split(x)
    exponent, unit = convert(field, x.dtype), 2.0**-FLOAT32.fraction_bits
    square = rounded_product(f, f)
    cube = rounded_product(square, f)
    series = _horner(cube, (
        _horner(f, (0.3333333134651184, -0.24999994039535522, 0.2000071406364441)),
        _horner(f, (-0.16668057441711426, 0.14249323308467865, -0.12420140951871872)),
        _horner(f, (0.11676998436450958, -0.11514610052108765, 0.07037683576345444)),
    ))  # fmt: skip
    tail = fma(cube, series, rounded_product(exponent, -0.00021219444170128554 * unit))
    return fma(exponent, 0.693359375 * unit, fma(square, -0.5, f) + tail)


def _log_float64(x: Scalar) -> Scalar:
    """The logarithm of a positive normal number in float64, for which XLA calls the C library."""
    f, e, _ = split(x)
    return log1p_reduced(f, e)


_LOG = {FLOAT32: _log_float32, FLOAT64: _log_float64}


def _log1p(x: Scalar, form: Format) -> Scalar:
    """``log(1 + x)`` for ``x`` in (-1, 0]."""
    table = _TABLES[form]
    square = rounded_product(x, x)
    quotient = ratio(_horner(x, table.numerator), _horner(x, table.denominator))
    cubic = rounded_product(rounded_product(x, square), quotient)
    near = x + fma(square, -0.5, cubic)
    return where(abs(x) < table.near, near, _LOG[form](x + 1.0))


@floating
def normal_of_uniform(u: Scalar) -> Scalar:
    """``sqrt(2) erfinv(u)``: normally distributed for a uniform ``u`` in (-1, 1)."""
    form = format_of(u)
    w = -_log1p(rounded_product(u, -u), form)
    centre, *tails = _TABLES[form].pieces
    last = tails.pop()
    root = sqrt(w)
    tail = _horner(root - last.shift, last.coefficients)
    for piece in reversed(tails):
        tail = where(w < piece.bound, _horner(root - piece.shift, piece.coefficients), tail)
    value = unlikely(~(w < centre.bound), tail, _horner(w - centre.shift, centre.coefficients))
    result = rounded_product(rounded_product(value, u), math.sqrt(2))
    inside = abs(u) < 1.0
    return unlikely(~inside, where(abs(u) > 1.0, const(math.nan, u.dtype), u * math.inf), result)
