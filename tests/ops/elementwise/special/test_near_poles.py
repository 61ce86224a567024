"""Derivatives close to poles, where a rounded distance loses all digits, against mpmath."""

import mpmath
import numpy as np
import pytest

from functrans import grad, jit
from functrans.scipy import special

B = mpmath.mpf(1.5)
SLOPES = {
    "psi": (special.psi, lambda x: mpmath.psi(1, x)),
    "slope of psi": (grad(special.psi), lambda x: mpmath.psi(2, x)),
    "slope of gammaln": (grad(special.gammaln), lambda x: mpmath.psi(1, x)),
    "gammaln": (special.gammaln, lambda x: mpmath.psi(0, x)),
    "loggamma": (lambda x: special.loggamma(x), lambda x: mpmath.psi(0, x)),
    "gamma": (special.gamma, lambda x: mpmath.gamma(x) * mpmath.psi(0, x)),
    "rgamma": (special.rgamma, lambda x: -mpmath.rgamma(x) * mpmath.psi(0, x)),
    "polygamma": (lambda x: special.polygamma(2, x), lambda x: mpmath.psi(3, x)),
    "betaln": (
        lambda x: special.betaln(x, 1.5),
        lambda x: mpmath.psi(0, x) - mpmath.psi(0, x + B),
    ),
    "beta": (
        lambda x: special.beta(x, 1.5),
        lambda x: mpmath.beta(x, B) * (mpmath.psi(0, x) - mpmath.psi(0, x + B)),
    ),
    "poch": (
        lambda x: special.poch(x, 1.5),
        lambda x: mpmath.rf(x, B) * (mpmath.psi(0, x + B) - mpmath.psi(0, x)),
    ),
    "spence": (special.spence, lambda x: mpmath.log(x) / (1 - x)),
}
NEAR_0 = [s * d for d in (1e-100, 1e-30, 1e-17, 1.2e-16, 1e-12, 1e-5) for s in (1, -1)]
NEAR_OTHERS = [
    float(x)
    for n in (-1.0, -2.0, -5.0, -20.0)
    for x in (np.nextafter(n, 0), np.nextafter(n, -99), n + 1e-12, n - 1e-5, n + 0.14, n + 0.4)
]
FAR = [-20000.6]


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_near_poles(name):
    function, slope = SLOPES[name]
    compiled = jit(grad(function))
    for x in NEAR_0 + NEAR_OTHERS + FAR:
        with mpmath.workdps(60):
            expected = mpmath.mpmathify(slope(mpmath.mpf(x)))
        if expected.imag == 0 and abs(expected) < 1e300:
            with np.errstate(all="ignore"):
                found = grad(function)(x), compiled(x)
            if name == "loggamma" and x < 0:
                continue  # a logarithm of a negative number
            np.testing.assert_allclose(found, float(expected.real), rtol=1e-10, err_msg=str(x))
