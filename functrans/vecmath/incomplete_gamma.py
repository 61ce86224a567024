"""The regularised incomplete gamma functions P and Q: the parts without loops.

Where the order is at least `LARGE` and the argument near it, both are the complementary error
function, and a correction that is uniform in their ratio: a power series in ``eta``, where
``eta**2 / 2 = x / a - 1 - log(x / a)``, for each power of ``1 / a``. Elsewhere they are sums, or
continued fractions, times the front ``x**a e**-x / gamma(a + 1)``; those are loops
(`functrans.ops.elementwise.compiled.incomplete_gamma`). The logarithm of the power in the front is
a pair, since rounding it would cost digits.

References
----------
N. M. Temme, "The asymptotic expansion of the incomplete gamma functions" (1979).
A. R. DiDonato and A. H. Morris, "Computation of the incomplete gamma function ratios and their
inverse" (1986).
NIST Digital Library of Mathematical Functions, 8.7, 8.9, 8.12.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, const, copysign, eq, fma, maximum, minimum, sqrt, where
from functrans.vecmath.exponential import clamp, exp, expm1
from functrans.vecmath.gamma_functions import LGAMMA
from functrans.vecmath.logarithm import log
from functrans.vecmath.polynomial import Pair, fast_two_sum, horner, two_product, two_sum
from functrans.vecmath.powers import accurate_log, power
from functrans.vecmath.special import erfcx
from functrans.vecmath.stirling import correction, gamma

LARGE = 20.0
"""From this order up, Stirling's formula and the uniform expansion are used."""

NEAR = 0.4
"""The largest distance of the argument from the order, relative to it, for this expansion."""

# the coefficient of each power of 1 / a, in eta
_UNIFORM = (
    (
        -0.3333333333333333, 0.08333333333333333, -0.014814814814814815,
        0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
        3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
        8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
        1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,
        -2.5514193994946248e-11, -5.830772132550426e-11, 2.4361948020667415e-11,
        -5.0276692801141755e-12,
    ),
    (
        -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
        -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
        -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
        4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
        1.1951628599778148e-08, -1.7543241719747647e-11, -1.0091543710600413e-09,
        4.162792991842583e-10, -8.56390702649298e-11,
    ),
    (
        0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
        2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
        -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06,
        -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10,
        -1.409252991086752e-08, 6.228974084922022e-09, -1.3670488396617114e-09,
    ),
    (
        0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
        0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
        1.1082654115347302e-05, -5.6749528269915965e-06, 1.4230900732435883e-06,
        -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08,
        -1.9111168485973655e-08, 2.3928620439808118e-12, 2.0620131815488797e-09,
    ),
    (
        -0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
        -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
        1.1375726970678419e-05, 2.507497226237533e-10, -1.6954149536558305e-06,
        8.907507532205309e-07, -2.292934834000805e-07, 2.956794137544049e-11,
        2.8865829742708783e-08, -1.4189739437803219e-08,
    ),
    (
        -0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392,
        -0.00019932570516188847, 6.797780477937208e-05, 1.419062920643967e-07,
        -1.3594048189768693e-05, 8.018470256334202e-06, -2.291481176508095e-06,
        -3.252473551298454e-10, 3.4652846491085265e-07, -1.8447187191171344e-07,
    ),
    (
        0.0005313079364639922, -0.0005921664373536939, 0.0002708782096718045,
        7.902353232660328e-07, -8.153969367561969e-05, 5.61168275310625e-05,
        -1.8329116582843375e-05, -3.0796134506033047e-09, 3.465155368803609e-06,
        -2.0291327396058603e-06, 5.788792863149004e-07,
    ),
    (
        0.00034436760689237765, 5.171790908260592e-05, -0.00033493161081142234,
        0.0002812695154763237, -0.00010976582244684731, -1.2741009095484485e-07,
        2.7744451511563645e-05, -1.8263488805711332e-05, 5.7876949497350525e-06,
    ),
    (
        -0.0006526239185953094, 0.0008394987206720873, -0.000438297098541721,
        -6.969091458420552e-07, 0.00016644846642067547, -0.00012783517679769218,
        4.629953263691304e-05,
    ),
    (
        -0.0005967612901927463, -7.204895416020011e-05, 0.0006782308837667328,
        -0.0006401475260262758, 0.00027750107634328704,
    ),
    (
        0.0013324454494800656, -0.0019144384985654776, 0.0011089369134596636,
    ),
    (
        0.001579727660730835,
    ),
)  # fmt: skip

_TINY = 1e-290


def exponent(a: Scalar, x: Scalar) -> Pair:
    """``x - a - a log(x / a)`` for orders from `LARGE` up, about to twice the digits."""
    quotient = x / a
    ratio = minimum(maximum(quotient, _TINY), 1e290)
    high, low = accurate_log(ratio)
    difference, difference_low = two_sum(x, -a)
    product, product_low = two_product(a, high)
    total, total_low = two_sum(difference, -product)
    # the rounding error of the quotient, times the order
    rest = fma(-ratio, a, x) / ratio
    far_low = ((total_low + difference_low) - product_low) - (fma(a, low, rest))
    mu = difference / a
    # mu**2 / 2 is the leading term of the series there
    square, square_low = two_product(difference, mu)
    square_low = fma(difference, fma(-mu, a, difference) / a, square_low)
    rest = fma(square, mu * horner(mu, (-1 / 3, 1 / 4, -1 / 5, 1 / 6)), square_low * 0.5)
    near, near_low = fast_two_sum(square * 0.5, rest)
    is_near = abs(mu) < 2.0**-10
    # the rounding error of the difference may be large relative to it
    far, far_low = fast_two_sum(total, far_low)
    return where(is_near, near, far), where(is_near, near_low, far_low)


def exp_of_negative(argument: Pair) -> Scalar:
    """``e**-argument``, and 0 for large arguments, whose low part may be anything."""
    high, low = argument
    return where(high < 760.0, exp(-high) * (1.0 - where(high < 760.0, low, 0.0)), 0.0)


def front_of_small(a: Scalar, x: Scalar) -> Scalar:
    """``x**a e**-x / gamma(a + 1)`` for positive numbers, and orders below `LARGE`."""
    bounded = minimum(x, 1400.0)
    half = exp(bounded * -0.5)
    value = ((power(bounded, a) * half) / gamma(a + 1.0)) * half
    return where(x < 1400.0, value, 0.0)


def front_of_large(a: Scalar, x: Scalar) -> Scalar:
    """The same for orders from `LARGE` up."""
    return exp_of_negative(exponent(a, x)) * (exp(-correction(a)) / sqrt(a * (2 * np.pi)))


def is_uniform(a: Scalar, x: Scalar) -> Scalar:
    """Whether the uniform expansion holds."""
    return (a >= LARGE) & (abs(x - a) < a * NEAR)


def uniform(a: Scalar, x: Scalar) -> Pair:
    """P and Q by the uniform expansion, both with their full relative precision."""
    depth = exponent(a, x)
    above = x > a
    eta = copysign(sqrt(depth[0] * 2.0 / a), x - a)
    total, inverse = const(0.0, a.dtype), 1.0 / a
    for coefficients in reversed(_UNIFORM):
        total = fma(total, inverse, horner(eta, coefficients))
    added = total / sqrt(a * (2 * np.pi))
    scaled = fma(erfcx(sqrt(depth[0])), 0.5, where(above, added, -added))
    smaller = exp_of_negative(depth) * scaled
    return where(above, 1.0 - smaller, smaller), where(above, smaller, 1.0 - smaller)


def power_over_gamma(a: Scalar, x: Scalar) -> Scalar:
    """``x**a / gamma(a + 1)`` for small orders."""
    return power(x, a) / gamma(a + 1.0)


def one_less_power_over_gamma(a: Scalar, x: Scalar) -> Scalar:
    """``1 - x**a / gamma(a + 1)`` for orders to 1.5, with no cancellation where they are small."""
    log_gamma = a * (a - 1.0) * horner(a - 0.625, LGAMMA)
    return -expm1(fma(a, log(x), -log_gamma))


def in_domain(a: Scalar, x: Scalar, lower: Scalar, upper: Scalar) -> Pair:
    """P and Q, also where a number is zero, negative, infinite or NaN."""
    wrong = ~((a >= 0) & (x >= 0)) | (eq(a, 0) & eq(x, 0)) | (eq(a, np.inf) & eq(x, np.inf))
    # the whole integral is below the argument, or above it
    all_below = eq(a, 0) | eq(x, np.inf)
    all_above = eq(x, 0) | eq(a, np.inf)
    results = []
    for value, at_all_below in ((lower, 1.0), (upper, 0.0)):
        known = where(all_below, at_all_below, clamp(value, 0.0, 1.0))
        known = where(all_above, 1.0 - at_all_below, known)
        results.append(where(wrong, np.nan, known))
    return results[0], results[1]
