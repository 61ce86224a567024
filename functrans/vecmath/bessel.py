"""Modified Bessel functions of integer orders from 0 up.

Up to 8, I is an even (or odd) polynomial in ``x``; from 8 up, ``sqrt(x) e**-x I(x)`` is a
polynomial in ``1 / x`` for the orders 0 and 1, from which that of order 2 follows.
Near zero, K is computed as a logarithm times I, plus a polynomial; from 1 up, ``sqrt(x) e**x K(x)``
is a smooth function of ``t = (x - 3) / (x + 1)``. Higher orders of I are computed by the power
series, whose terms are positive, or by upward recurrence, which loses little if the argument is
larger than the order; higher orders of K by upward recurrence.

All are computed in float64, also for float32, except I of orders up to 2.

References
----------
NIST Digital Library of Mathematical Functions, 10.25, 10.29, 10.31, 10.40.
"""

from __future__ import annotations

import math

import numpy as np

from functrans.loop.scalar import Scalar, const, convert, copysign, eq, fma, minimum, sqrt, where
from functrans.records import NamedTuple
from functrans.vecmath.exponential import exp, exp_scaled
from functrans.vecmath.logarithm import log
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    floating,
    format_of,
    horner,
    in_float64,
    is_nan,
    two_product,
)


class _Table(NamedTuple):
    last: float
    """Beyond this argument, I is infinite."""
    small: tuple[tuple[float, ...], ...]
    """``I(x) / x**n`` in ``x**2``, up to 8, of the orders 0, 1 and 2."""
    large: tuple[tuple[float, ...], ...]
    """``sqrt(x) e**-x I(x)`` in ``16 / x - 1``, from 8 up, of the orders 0 and 1."""


_I_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        last=720.0,
        small=(
            (
                1.0, 0.2499999999999993, 0.015625000000001228, 0.0004340277777769622,
                6.781684028047907e-06, 6.781684022607329e-08, 4.709502859467859e-10,
                2.4028070480928134e-12, 9.385994745760811e-15, 2.8967955483660886e-17,
                7.245217148728827e-20, 1.4906483255760745e-22, 2.672372120249259e-25,
                3.212716890643403e-28, 7.919821436675072e-31,
            ),
            (
                0.5, 0.06249999999999995, 0.0026041666666667407, 5.4253472222178126e-05,
                6.78168402791107e-07, 5.651403354120084e-09, 3.36393059600997e-11,
                1.5017545159727632e-13, 5.214436771354988e-16, 1.4484120155475346e-18,
                3.292983456999851e-21, 6.215259439924694e-24, 1.0239324390951375e-26,
                1.1685019609448686e-29, 2.5892819425567567e-32,
            ),
            (
                0.125, 0.010416666666666664, 0.0003255208333333365, 5.425347222220434e-06,
                5.6514033565328516e-08, 4.0367166823301835e-10, 2.1024566153006413e-12,
                8.343081074501743e-15, 2.6072166043799407e-17, 6.583742673464019e-20,
                1.3719716968684265e-22, 2.391935008426052e-25, 3.6438216517284524e-28,
                3.964173363061175e-31, 7.928822002200366e-34,
            ),
        ),
        large=(
            (
                0.4021765094450081, 0.0033605519836677937, 0.0001362160743896994,
                1.1143033797333459e-05, 1.483847672687968e-06, 2.973596815038256e-07,
                8.872020201989812e-08, 3.9328096324809756e-08, 2.1567564354710076e-08,
                7.538882021524036e-09, -6.8562472493543745e-09, -1.334147418579533e-08,
                -5.015863992205031e-09, 7.368610266022399e-09, 6.514807965220366e-09,
                -3.1782401338396578e-09, -4.516870565014536e-09, 1.1406886538278723e-09,
                2.1501454548893528e-09, -2.9659455774314844e-10, -6.424402022210318e-10,
                3.9465590818131955e-11, 8.964502051820516e-11,
            ),
            (
                0.38939845902587233, -0.009749577193235678, -0.0002192357638315744,
                -1.5038547206170066e-05, -1.8349102435542613e-06, -3.483854199407212e-07,
                -1.000108126593352e-07, -4.313117199248055e-08, -2.3393839917790883e-08,
                -8.413697654597781e-09, 6.8471886543904544e-09, 1.3973942020970623e-08,
                5.570621724942407e-09, -7.477198582556998e-09, -6.937379724133349e-09,
                3.1307660683976593e-09, 4.7503375731719515e-09, -1.0953898145683606e-09,
                -2.2489173048280337e-09, 2.798378129417785e-10, 6.70186996955608e-10,
                -3.686671970877195e-11, -9.339049660417372e-11,
            ),
        ),
    ),
    FLOAT32: _Table(
        last=95.0,
        small=(
            (
                1.0, 0.2500000298023224, 0.015624962747097015, 0.0004340409650467336,
                6.779599061701447e-06, 6.798936169616354e-08, 4.6284165389209875e-10,
                2.6254246172918716e-12, 5.898687046218586e-15, 5.683779011511527e-17,
            ),
            (
                0.5, 0.0625, 0.002604165580123663, 5.4254029237199575e-05, 6.780736043765501e-07,
                5.659389845646956e-09, 3.32646063472275e-11, 1.6037021157658954e-13,
                3.634278240000321e-16, 2.7013487486279522e-18,
            ),
            (
                0.125, 0.010416666977107525, 0.00032552058110013604, 5.425415565696312e-06,
                5.6505410128693256e-08, 4.042632617551334e-10, 2.0787267306782153e-12,
                8.911237226643179e-15, 1.8175088697339717e-17, 1.2273378934225925e-19,
            ),
        ),
        large=(
            (
                0.40217649936676025, 0.0033605555072426796, 0.00013621740799862891,
                1.1112771062471438e-05, 1.4756367363588652e-06, 3.6216331977811933e-07,
                1.0892871671330795e-07,
            ),
            (
                0.389398455619812, -0.0097495811060071, -0.00021923778695054352,
                -1.5004640772531275e-05, -1.8240770032207365e-06, -4.204852643852064e-07,
                -1.2374746916066215e-07,
            ),
        ),
    ),
}  # fmt: skip

# K0(x) + log(x / 2) I0(x), and (K1(x) - 1 / x - log(x / 2) I1(x)) / x, in x**2, up to 1
_K_SMALL = (
    (
        -0.5772156649015329, 0.10569608377461687, 0.014418505235911766, 0.000545189960270893,
        1.0214014081564644e-05, 1.1570362408012545e-07, 8.81854259816969e-10,
        4.9247918704556995e-12,
    ),
    (
        0.03860783245076643, -0.04204902094365421, -0.0028371119837631666, -7.493042906124316e-05,
        -1.0892182492902605e-06, -1.0112917972229654e-08, -6.539293332627043e-11,
        -3.1711482259694773e-13,
    ),
)  # fmt: skip

# sqrt(x) e**x K(x) in t, from 1 up
_K_LARGE = (
    (
        1.2085585393824039, 0.05190414200070004, -0.009047854303702613, 0.0023443540383549424,
        -0.0005746200406113912, 0.0001627828239877031, -4.352561031450051e-05,
        1.3010580050605091e-05, -3.591146019699652e-06, 1.1249632449824647e-06,
        -3.1009679640941944e-07, 1.0306594833732914e-07, -2.70937981358487e-08,
        1.0133002608065035e-08, -2.456861572880519e-09, 9.067101850149384e-10,
        -3.810833166862233e-12, 2.8017705644762534e-10, -1.0415108524909026e-10,
        -6.552815168549223e-11, 3.4860040650095344e-11, 2.7654309373152734e-11,
    ),
    (
        1.3970089271126294, -0.1775377338208505, 0.04365061563750153, -0.012635408079169477,
        0.003692846928799872, -0.0011269348878039948, 0.000344126850705769, -0.00010771773864698667,
        3.3556311529733646e-05, -1.0673207836051311e-05, 3.358384664223185e-06,
        -1.0819830685470371e-06, 3.4150753213436493e-07, -1.1174596047911672e-07,
        3.5085702061121294e-08, -1.1472107663748553e-08, 3.5530165959611872e-09,
        -1.4733051891460903e-09, 3.833914411591792e-10, -1.0455458393382373e-11,
        3.390642617021594e-11, -5.4674645592427204e-11,
    ),
)  # fmt: skip


def _small_i(a: Scalar, order: int) -> Scalar:
    """``I(a)`` up to 8."""
    square, low = two_product(a, a)
    value = horner(square, _I_TABLES[format_of(a)].small[order])
    # corrects the rounding error of the square; the relative derivative is about 0.06 from 4 up
    value = fma(value * low, 0.06, value)
    return math.prod([a] * order, start=value)


def _large_i(a: Scalar, order: int) -> Scalar:
    """``e**-a I(a)`` from 8 up."""
    inverse = 1.0 / a
    if order == 2:
        return fma(inverse * -2.0, _large_i(a, 1), _large_i(a, 0))
    return horner(fma(inverse, 16.0, -1.0), _I_TABLES[format_of(a)].large[order]) / sqrt(a)


def _odd(x: Scalar, value: Scalar, order: int) -> Scalar:
    return copysign(value, x) if order % 2 else value


def _i(x: Scalar, order: int) -> Scalar:
    a = abs(x)
    last = _I_TABLES[format_of(x)].last
    bounded = minimum(a, last)
    small, scaled = _small_i(minimum(a, 8.0), order), _large_i(bounded, order)
    # scaled by 2**-20, since e**x may overflow although the product does not
    large = (exp_scaled(bounded, -20) * scaled) * 2.0**20
    value = where(a < 8.0, small, where(a < last, large, np.inf))
    # NaN at infinity, as in SciPy
    return _odd(x, where(a < np.inf, value, np.nan), order)


def _scaled_i(x: Scalar, order: int) -> Scalar:
    a = abs(x)
    small = _small_i(minimum(a, 8.0), order) * exp(-minimum(a, 8.0))
    value = where(eq(a, np.inf), 0.0, _large_i(a, order))
    return _odd(x, where(is_nan(x), x, where(a < 8.0, small, value)), order)


def _small_k(x: Scalar, order: int) -> Scalar:
    """``K(x)`` up to 1."""
    regular = horner(x * x, _K_SMALL[order])
    logarithm = log(x * 0.5) * _small_i(x, order)
    if order:
        return fma(x, regular, logarithm) + 1.0 / x
    return regular - logarithm


def _large_k(x: Scalar, order: int) -> Scalar:
    """``e**x K(x)`` from 1 up."""
    reciprocal = 1.0 / (x + 1.0)
    return horner(fma(reciprocal, -4.0, 1.0), _K_LARGE[order]) / sqrt(x)


def _k(x: Scalar, order: int, scaled: bool) -> Scalar:
    small = _small_k(minimum(x, 1.0), order)
    large = _large_k(x, order)
    if scaled:
        small = small * exp(minimum(x, 1.0))
        large = where(eq(x, np.inf), 0.0, large)
    else:
        # e**-x is 0 from 746 up, and `large` is NaN at infinity
        large = where(x < 746.0, exp(-x) * large, 0.0)
    value = where(eq(x, 0), np.inf, where(x < 1.0, small, large))
    return where((x < 0) | is_nan(x), np.nan, value)


# -- any order -------------------------------------------------------------------------------------


def power_series(a: Scalar, n: int, terms: int, sign: int) -> Scalar:
    """The power series of ``I(a)``; with alternating signs, if ``sign`` is -1, that of ``J(a)``."""
    quarter = a * a * (0.25 * sign)
    total = const(1.0, a.dtype)
    for k in range(terms, 0, -1):
        total = fma(total * quarter, 1 / (k * (k + n)), 1.0)
    return math.prod([a * 0.5] * n, start=total) * (1 / math.factorial(n))


@floating
def bessel_i(x: Scalar, *, n: int, scaled: bool) -> Scalar:
    """The modified Bessel function of the first kind of order `n`, times ``e**-abs(x)`` if scaled.

    The error is some units in the last place for small orders, and grows with them.
    """
    if n <= 2:
        return (_scaled_i if scaled else _i)(x, n)
    return convert(_high_i(convert(x, np.float64), n, scaled), x.dtype)


def _high_i(x: Scalar, n: int, scaled: bool) -> Scalar:
    a = abs(x)
    bound = 8.0 + 2 * n
    near, far = minimum(a, bound), where(a < bound, bound, minimum(a, 2.0**500))
    below, value = _large_i(far, 0), _large_i(far, 1)
    for k in range(1, n):
        below, value = value, fma(value / far, -2.0 * k, below)
    small = power_series(near, n, 26 + 2 * n, 1)
    if scaled:
        small = small * exp(-near)
    else:
        value = (exp_scaled(minimum(far, 800.0), -20) * value) * 2.0**20
        value = where(far < 750.0, value, np.inf)
    limit = 0.0 if scaled else np.nan
    result = where(a < np.inf, where(a < bound, small, value), where(is_nan(x), x, limit))
    return _odd(x, result, n)


@in_float64
def bessel_k(x: Scalar, *, n: int, scaled: bool) -> Scalar:
    """The modified Bessel function of the second kind of order `n`, times ``e**x`` if scaled."""
    below, value = _k(x, 0, scaled), _k(x, 1, scaled)
    if n == 0:
        return below
    for k in range(1, n):
        below, value = value, fma(value / x, 2.0 * k, below)
    if n > 1:
        value = where(eq(x, 0), np.inf, where(eq(x, np.inf), 0.0, value))
    return value
