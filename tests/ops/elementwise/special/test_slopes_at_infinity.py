"""Slopes at infinity and at poles, which are limits where formulas divide infinity by infinity."""

import numpy as np
import pytest

from functrans import jit, jvp
from functrans.scipy import special

inf = np.inf

LIMITS = {  # the function, a point, the slope and the curvature there
    "dawsn": (special.dawsn, -inf, 0, 0),
    "erfcx far right": (special.erfcx, inf, 0, 0),
    "erfcx far left": (special.erfcx, -inf, -inf, inf),
    "erfcx where it overflows": (special.erfcx, -30.0, -inf, inf),
    "expi": (special.expi, inf, inf, inf),
    "expi far left": (special.expi, -inf, 0, 0),
    "si": (lambda x: special.sici(x)[0], -inf, 0, 0),
    "ci": (lambda x: special.sici(x)[1], inf, 0, 0),
    "shi": (lambda x: special.shichi(x)[0], -inf, inf, -inf),
    "chi": (lambda x: special.shichi(x)[1], -inf, -inf, inf),
    "rgamma": (special.rgamma, inf, 0, 0),
    "wrightomega": (special.wrightomega, inf, 1, 0),
    "zeta": (special.zeta, inf, 0, 0),
    "zeta with an offset": (lambda s: special.zeta(s, 2.0), inf, 0, 0),
    "y0 at its pole": (special.y0, 0.0, inf, -inf),
    "y1 at its pole": (special.y1, 0.0, inf, -inf),
    "k1e at its pole": (special.k1e, 0.0, -inf, inf),
    "kve at its pole": (lambda x: special.kve(2.5, x), 0.0, -inf, inf),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LIMITS)
def test_limits(name, dtype):
    function, point, *expected = LIMITS[name]
    x, one = np.full(1, point, dtype), np.ones(1, dtype)

    def slopes(x):
        return jvp(lambda x: jvp(function, (x,), (one,))[1], (x,), (one,))

    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.concatenate(slopes(x)), expected)
    np.testing.assert_array_equal(np.concatenate(jit(slopes)(x)), expected)
