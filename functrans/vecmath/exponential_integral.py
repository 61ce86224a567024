"""The exponential integrals E1 and Ei.

Near zero they are a logarithm and an entire function; for Ei, which has a root there, both are
taken relative to the root. From 1 up ``(x + 2) e**x E1(x)`` is a smooth function of
``t = (x - 4) / (x + 2)``, and from 6 up ``x e**-x Ei(x)`` a function of ``1 / x``, in three pieces.

Both are computed in float64, also for float32.

References
----------
NIST Digital Library of Mathematical Functions, 6.6, 6.12.
W. J. Cody and H. C. Thacher, "Chebyshev approximations for the exponential integral Ei(x)" (1969),
for the root.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, eq, fma, where
from functrans.vecmath.exponential import exp, exp_scaled
from functrans.vecmath.logarithm import log, log_of_pair
from functrans.vecmath.polynomial import horner, in_float64, is_nan

_EULER = 0.5772156649015329

# (E1(x) + log(x) + Euler's constant) / x, up to 1
_E1_SMALL = (
    0.9999999999999999, -0.24999999999998546, 0.05555555555497916, -0.010416666657736677,
    0.0016666665955021643, -0.00023148114959223925, 2.834370256844298e-05, -3.0983732673924524e-06,
    3.039644777238244e-07, -2.584127040505602e-08, 1.5013779083029553e-09,
)  # fmt: skip

# (x + 2) e**x E1(x) in t, from 1 up
_E1_LARGE = (
    1.238073899406335, -0.33348270415565556, 0.13029088159639424, -0.049944964709418706,
    0.021210703496294843, -0.008911917744178462, 0.003948980165680219, -0.0017318386277754881,
    0.0007876281709073912, -0.0003540102036458376, 0.00016392392685617174, -7.482117467162084e-05,
    3.511782954498116e-05, -1.620145861617634e-05, 7.714764492779382e-06, -3.541235110311932e-06,
    1.6534998389556012e-06, -8.401430248625362e-07, 4.807261172900193e-07, -1.2233153485414513e-07,
    -1.6940599444802994e-08, -8.880958783004535e-08, 9.828400981630303e-08, 1.6350209201360426e-08,
    -3.0598054792057125e-08, -9.241780577352166e-09, 9.156973685842738e-09,
)  # fmt: skip

# (Ei(x) - log(x / root)) / (x - root) in x - 3, up to 6
_EI_SMALL = (
    2.986772243435986, 1.284522518341433, 0.3816411761263833, 0.08598963319595217,
    0.015635280018613466, 0.002387150639501506, 0.00031447936637797315, 3.64616188780657e-05,
    3.776933074453017e-06, 3.536979219228381e-07, 3.0231259004839795e-08, 2.3769727730037344e-09,
    1.7306124481123887e-10, 1.1733638858458485e-11, 7.445179321880777e-13, 4.436355546088166e-14,
    2.4829467416720803e-15, 1.3331571405220684e-16, 7.36974184933003e-18, 3.2524238007255697e-19,
)  # fmt: skip
_EI_ROOT = (0.3725074107813666, 1.3140183414386028e-17)

# x e**-x Ei(x) in a linear function of 1 / x, between each two of 6, 12, 24 and infinity
_EI_PIECES = (
    (12.0, 1 / 6, (
        1.181847986987208, 0.09097863630348536, 0.010157308753613557, -0.0033533886601711466,
        -0.001125891451095732, 0.0003731384222348684, 4.2059470709278506e-05,
        -4.555115381084187e-05, 9.1966424946425e-06, 1.433340520188421e-06, -1.4452394230353909e-06,
        4.245257110933272e-07, -2.9646488557475363e-08, -3.055683954978298e-08,
        1.68269604329331e-08, -4.76509865096941e-09, 5.776453458989134e-10, 2.810224389015849e-10,
        -2.2346355762970618e-10, 5.434750734516074e-11,
    )),
    (24.0, 1 / 12, (
        1.0723449766623854, 0.028391549978593562, 0.0019403040279314303, 0.00026840492461810834,
        3.961169113412257e-05, -5.372759750264384e-06, -5.160182441150205e-06,
        -2.254767805251042e-07, 4.92289645530347e-07, 4.0331596028788045e-09,
        -4.963306630703371e-08, 7.120961638813122e-09, 3.673135335274064e-09,
        -1.5906531719847878e-09, 3.31026474416199e-11, 1.6700191589490364e-10,
        -5.108481589212811e-11, -6.258240728351237e-12, 5.124258354404642e-12,
    )),
    (np.inf, 1 / 24, (
        1.0217607036601566, 0.022753072027360797, 0.001063768785544905, 7.863790798918998e-05,
        8.211967562621462e-06, 1.143018810390012e-06, 2.053117437074489e-07, 4.6845298117290825e-08,
        1.3576455162781777e-08, 5.034365071214231e-09, 2.425327539876207e-09,
        1.6546675728495172e-09, 1.128991579577994e-09, -7.674896088621402e-11,
        -1.0383267403298259e-09, -5.655102689757851e-10, 2.7333533198217237e-10,
        2.581435070316383e-10, -2.830380905713311e-11, -4.188850278576632e-11,
    )),
)  # fmt: skip


def _e1(x: Scalar) -> Scalar:
    """``E1(x)`` for positive ``x``."""
    small = fma(x, horner(x, _E1_SMALL), -_EULER) - log(x)
    reciprocal = 1.0 / (x + 2.0)
    scaled = horner(fma(reciprocal, -6.0, 1.0), _E1_LARGE) * reciprocal
    return where(x < 1.0, small, where(x < 745.0, scaled * exp(-x), 0.0))


@in_float64
def exp1(x: Scalar) -> Scalar:
    """The exponential integral E1 of positive numbers; NaN for negative ones."""
    result = where(eq(x, 0), np.inf, _e1(x))
    return where((x < 0) | is_nan(x), np.nan, result)


def _ei(x: Scalar) -> Scalar:
    """``Ei(x)`` for positive ``x``."""
    root, root_low = _EI_ROOT
    off = (x - root) - root_low
    ratio = x / root
    # the rounding errors of the quotient and of the root
    ratio_low = fma(fma(-ratio, root, x), 1 / root, ratio * (-root_low / root))
    logarithm = log_of_pair(ratio, where(x < 8.0, ratio_low, 0))
    small = fma(off, horner(x - 3.0, _EI_SMALL), logarithm)
    inverse = 1.0 / x
    scaled = None
    for bound, high, coefficients in reversed(_EI_PIECES):
        low = 0.0 if bound == np.inf else 1 / bound
        line = fma(inverse, 2 / (high - low), -(high + low) / (high - low))
        value = horner(line, coefficients)
        scaled = value if scaled is None else where(x < bound, value, scaled)
    assert scaled is not None
    # scaled by 2**-20, since e**x may overflow although the quotient does not
    large = (exp_scaled(x, -20) * (scaled * inverse)) * 2.0**20
    return where(x < 6.0, small, where(x < 720.0, large, np.inf))


@in_float64
def expi(x: Scalar) -> Scalar:
    """The exponential integral Ei."""
    a = abs(x)
    result = where(x < 0, -_e1(a), _ei(a))
    return where(is_nan(x), x, where(eq(x, 0), -np.inf, result))
