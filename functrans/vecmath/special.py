"""erf, erfc, erfcx and the logarithm of the normal distribution function.

For ``a >= 0``, ``erfc(a) = e**(-a**2) erfcx(a)``, and ``(a + K) erfcx(a)`` is a smooth function of
``t = (a - K) / (a + K)``, which maps the whole positive axis to [-1, 1]: one polynomial suffices.

References
----------
M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x**2) erfc(x) in
0 <= x < infinity" (1981).
"""

from __future__ import annotations

import math

from functrans.loop.scalar import Scalar, const, copysign, fma, maximum, where
from functrans.records import NamedTuple
from functrans.vecmath.exponential import at_most, exp, exp_of_pair
from functrans.vecmath.logarithm import log_of_ordinary_pair
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    fast_two_sum,
    first_nan,
    floating,
    format_of,
    horner,
    horner_pair,
    scale,
    two_product,
    two_sum,
)

SQRT_HALF = 0.7071067811865476
SQRT_HALF_LOW = {FLOAT64: -4.833646656726457e-17, FLOAT32: 1.210161710447897e-08}

NORMAL_AT_0 = 1 / math.sqrt(2 * math.pi)
"""The density of the normal distribution at 0."""

K = 2.5
CENTRE = 1.125


class _Table(NamedTuple):
    erf: tuple[float, ...]  # ``erf(x) / x - 1`` in ``x**2``, up to `CENTRE`
    # the fourth root of ``erfc(a)`` in ``a - CENTRE``, from there to `erf_one`
    root_of_erfc: tuple[float, ...]
    ndtr: tuple[float, ...]  # ``(ndtr(x) - 1/2) / x - 1/2`` in ``x**2``, up to 1.4
    erfcx: tuple[float, ...]  # ``(a + K) e**(a**2) erfc(a)`` in ``t``, for ``a`` from 0.47 up
    erfcx_low: tuple[float, float, float]  # the rounding errors of the first three coefficients
    last: float  # beyond this erfc is zero
    erf_one: float  # beyond this erf rounds to 1


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        erf=(
            0.12837916709551256, -0.37612638903183393, 0.11283791670941173, -0.02686617064299859,
            0.005223977608476149, -0.0008548326219545352, 0.00012055308529165194,
            -1.492515214971993e-05, 1.64551691945163e-06, -1.6299331225618414e-07,
            1.4375325318747015e-08, -1.0454897676367509e-09, 4.651679611202113e-11,
        ),
        root_of_erfc=(
            0.5779995458866929, -0.4120582584744936, 0.022928494652038597, 0.048137363067646835,
            -0.006911732318118986, -0.004259364586457013, 0.0010024189440822886,
            0.00021821507438390933, -8.143165805736186e-05, -4.87408421019188e-06,
            3.926654691824464e-06, -2.871380379682849e-08, -9.185427413424381e-08,
            -3.004077626440521e-08, 1.7206305066601416e-08, -3.105749344990441e-09,
            2.5520216579035586e-10, -9.659981920276772e-12, 1.124233275845154e-12,
            -2.0527656509259244e-13, 1.163353887193161e-14,
        ),
        ndtr=(
            -0.10105771959856732, -0.06649038006690502, 0.009973557010025854,
            -0.0011873282153884307, 0.00011543468717659405, -9.444655018272494e-06,
            6.659671236934805e-07, -4.122403187359025e-08, 2.2714278635682254e-09,
            -1.118971919740976e-10, 4.731085490665395e-12, -1.340264692257633e-13,
        ),
        erfcx=(
            1.054031820305718, -0.8046518494391489, 0.4539141166480978, -0.17125114524603893,
            0.02836155013188682, 0.00839304430214629, -0.004818785520417789,
            -0.0004392082601750469, 0.0007026936840218338, 5.830771657498435e-05,
            -0.00011260448081696448, -1.953154454991504e-05, 1.8242341807369727e-05,
            6.751453045265331e-06, -2.324512292735402e-06, -1.9561017408511336e-06,
            -2.539678499144383e-08, 4.411373178234714e-07, 1.6821730894743227e-07,
            -7.11730930268401e-08, -7.869728621548947e-08, 1.4532393950421415e-08,
            1.9591738963752493e-08, -6.141956228004171e-09,
        ),
        erfcx_low=(-5.662786079184387e-17, -1.0678896756990062e-17, -2.4046947227871086e-17),
        last=28.0,
        erf_one=6.0,
    ),
    FLOAT32: _Table(
        erf=(
            0.12837916612625122, -0.3761260211467743, 0.11283255368471146, -0.02683918923139572,
            0.005160185508430004, -0.0007765140617266297, 7.06143255229108e-05,
        ),
        root_of_erfc=(
            0.5779995322227478, -0.412058562040329, 0.02294352278113365, 0.048007167875766754,
            -0.006448295433074236, -0.005086190532892942, 0.0017914549680426717,
            -0.00017466511053498834,
        ),
        ndtr=(
            -0.10105772316455841, -0.06649024784564972, 0.00997274648398161, -0.00118545803707093,
            0.00011338420154061168, -8.294800863950513e-06, 3.4227366541017545e-07,
        ),
        erfcx=(
            1.0540318489074707, -0.8046518564224243, 0.4539140462875366, -0.17125087976455688,
            0.028362803161144257, 0.008389631286263466, -0.004825159907341003,
            -0.0004211411578580737, 0.0007130284793674946, 1.578175761096645e-05,
            -0.00010818176087923348, 1.9698229152709246e-05,
        ),
        erfcx_low=(-2.782051033989319e-08, 1.1088455709185041e-09, -9.614707252580956e-09),
        last=11.0,
        erf_one=4.0,
    ),
}  # fmt: skip


def _erfcx(a: Scalar, a_low: Scalar | float) -> Pair:
    """``e**(a**2) erfc(a)`` for finite ``a`` from 0.47 up, with a small correction `a_low`."""
    total = a + K
    reciprocal = 1.0 / total
    t = fma(reciprocal, -2.0 * K, 1.0)
    table = _TABLES[format_of(a)]
    series, series_low = horner_pair(t, table.erfcx, table.erfcx_low)
    value, low = two_product(series, reciprocal)
    # Corrects the rounding of the sum and of the reciprocal: the relative derivative with respect
    # to the reciprocal, -(a + K) erfcx'(a) / erfcx(a), is about linear in t.
    error = fma(-reciprocal, total, 1.0) - reciprocal * ((a - (total - K)) + a_low)
    return value, fma(series_low, reciprocal, fma(value * error, fma(t, -1.1, 1.9), low))


def _erfc_tail(square: Pair, erfcx: Pair) -> Pair:
    """``erfc(a)`` for ``a`` from 0.47 up, given its square; not rounded."""
    (high, low), exponent = exp_of_pair((-square[0], -square[1]), erfcx)
    high, low = fast_two_sum(high, low)
    return scale(high, exponent), scale(low, exponent)


def _odd(x: Scalar, leading: Scalar, coefficients: tuple[float, ...]) -> Pair:
    """``leading + x p(x**2)``."""
    series = horner(x * x, coefficients)
    high = fma(x, series, leading)
    return high, fma(x, series, leading - high)


def _erf_centre(x: Scalar) -> Scalar:
    """``erf(x)`` for ``abs(x) <= CENTRE``."""
    return _odd(x, x, _TABLES[format_of(x)].erf)[0]


@floating
def erf(x: Scalar) -> Scalar:
    """The error function."""
    table = _TABLES[format_of(x)]
    a = at_most(abs(x), table.erf_one)
    # the subtrahend is at most 1/9, so that its error matters less
    root = horner(a - CENTRE, table.root_of_erfc)
    square = root * root
    large = fma(-square, square, 1.0)
    # a NaN is not large
    return where(a >= CENTRE, copysign(large, x), _erf_centre(x))


@floating
def erfc(x: Scalar) -> Scalar:
    """``1 - erf(x)``."""
    a = at_most(abs(x), _TABLES[format_of(x)].last)
    tail, _ = _erfc_tail(two_product(a, a), _erfcx(a, 0.0))
    return where(abs(x) < 0.65, 1.0 - _erf_centre(x), where(x < 0, 2.0 - tail, tail))


@floating
def erfcx(x: Scalar) -> Scalar:
    """``e**(x**2) erfc(x)``."""
    a = abs(x)
    high, low = _erfcx(maximum(at_most(a, 2.0**100), 0.47), 0.0)
    right = where(a > 2.0**100, (1 / math.sqrt(math.pi)) / a, high + low)
    bounded = at_most(a, _TABLES[format_of(x)].last)
    one, zero = const(1.0, x.dtype), const(0.0, x.dtype)
    (power, power_low), exponent = exp_of_pair(two_product(bounded, bounded), (one, zero))
    gauss = scale(power + power_low, exponent)
    rest, rest_low = fast_two_sum(one, -_erf_centre(x))
    small = scale(fma(power, rest, fma(power, rest_low, power_low * rest)), exponent)
    return where(a < 0.65, small, where(x < 0, fma(gauss, 2.0, -right), right))


@floating
def normal_hazard(x: Scalar) -> Scalar:
    """The density of the normal distribution divided by its distribution function.

    This is the derivative of `log_ndtr`: about ``-x`` far to the left.
    """
    a, a_low = two_product(at_most(abs(x), 2.0**60), SQRT_HALF)
    a_low = fma(at_most(abs(x), 2.0**60), SQRT_HALF_LOW[format_of(x)], a_low)
    erfcx, erfcx_low = _erfcx(maximum(a, 0.47), a_low)
    scaled = erfcx + erfcx_low
    bounded = at_most(abs(x), _TABLES[format_of(x)].last * 2.0**0.5)
    square, square_low = two_product(bounded, bounded * 0.5)
    power = exp(-square)
    gauss = fma(power, -square_low, power)
    middle, _ = _odd(x, x * 0.5, _TABLES[format_of(x)].ndtr)
    far = (x < 0) & (a >= 0.65)
    centre_or_right = where(a < 0.65, middle + 0.5, fma(gauss * -0.5, scaled, 1.0))
    numerator = where(far, 2.0 * NORMAL_AT_0, gauss * NORMAL_AT_0)
    result = numerator / where(far, scaled, centre_or_right)
    return first_nan(where(x < -(2.0**60), -x, result), x)


class _Normal(NamedTuple):
    """The normal distribution function: ``high + low``, or ``tail`` where ``far`` to the left."""

    far: Scalar
    tail: Scalar
    high: Scalar
    low: Scalar
    scaled: Pair  # ``e**(x**2 / 2)`` times the tail


def _normal(x: Scalar) -> _Normal:
    """``1/2 + erf / 2`` and ``1 - erfc / 2``, and ``erfc / 2`` on the left."""
    bounded = at_most(abs(x), 2.0**60)
    a, a_low = two_product(bounded, SQRT_HALF)
    a_low = fma(bounded, SQRT_HALF_LOW[format_of(x)], a_low)
    centre = a < 0.65
    half, one = const(0.5, x.dtype), const(1.0, x.dtype)
    erfcx, erfcx_low = _erfcx(a, a_low)
    scaled = erfcx * 0.5, erfcx_low * 0.5
    bounded = at_most(abs(x), _TABLES[format_of(x)].last * 2.0**0.5)
    tail, tail_low = _erfc_tail(two_product(bounded, bounded * 0.5), scaled)
    middle, middle_low = _odd(x, x * 0.5, _TABLES[format_of(x)].ndtr)
    high, low = two_sum(where(centre, half, one), where(centre, middle, -tail))
    low = low + where(centre, middle_low, -tail_low)
    return _Normal((x < 0) & ~centre, tail + tail_low, high, low, scaled)


@floating
def ndtr(x: Scalar) -> Scalar:
    """The normal distribution function, ``erfc(-x / sqrt(2)) / 2`` of an exact quotient."""
    normal = _normal(x)
    return first_nan(where(normal.far, normal.tail, normal.high + normal.low), x)


@floating
def log_ndtr(x: Scalar) -> Scalar:
    """The logarithm of the normal distribution function, ``-x**2 / 2 + log(erfcx / 2)`` if far."""
    far, _, high, low, scaled = _normal(x)
    logarithm = log_of_ordinary_pair(where(far, scaled[0], high), where(far, scaled[1], low))
    return first_nan(where(far, fma(x * -0.5, x, logarithm), logarithm), x)
