"""Slopes where SciPy rounds a count, clips a solution, or leaves the support of a distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

from functrans import grad, jit

S = scipy.special

SMOOTH: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "bdtr, both counts rounded": (S.bdtr, (2.6, 7.4, 0.3)),
    "bdtrc": (S.bdtrc, (2.6, 7.4, 0.3)),
    "bdtri": (S.bdtri, (2.6, 7.4, 0.3)),
    "nbdtr": (S.nbdtr, (2.6, 4.4, 0.3)),
    "nbdtrc, count rounded towards 0": (S.nbdtrc, (-0.4, 4.4, 0.3)),
    "nbdtri": (S.nbdtri, (2.6, 4.4, 0.3)),
    "pdtri": (S.pdtri, (2.6, 0.4)),
    "expn": (S.expn, (2.6, 1.3)),
    "eval_chebyt of a degree below 1": (S.eval_chebyt, (0.3, 0.4)),
    "eval_chebyt of a negative degree": (S.eval_chebyt, (-2.0, 0.4)),
    "eval_chebyc": (S.eval_chebyc, (-1.7, 0.4)),
    "eval_sh_chebyt": (S.eval_sh_chebyt, (0.3, 0.4)),
    "pdtrik, no event is likelier": (S.pdtrik, (0.2, 0.5)),
    "nbdtrik": (S.nbdtrik, (0.03, 0.25, 0.3)),
    "bdtrik": (S.bdtrik, (0.01, 5.0, 0.1)),
    "tklmbda behind the support": (S.tklmbda, (3.7, 3.1)),
    "tklmbda in front of it": (S.tklmbda, (-3.7, 0.7)),
    "powm1": (S.powm1, (0.7, 1.3)),
    "spherical_jn": (S.spherical_jn, (1.6, 1.3)),
    "spherical_kn": (S.spherical_kn, (0.7, 1.3)),
    "slope of spherical_in": (lambda n, z: S.spherical_in(n, z, derivative=True), (2.6, 1.3)),
    "eval_legendre of a negative degree": (S.eval_legendre, (-3, 0.4)),
    "eval_sh_legendre of a negative degree": (S.eval_sh_legendre, (-2, 0.4)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", SMOOTH)
def test_slope_is_that_of_the_values(name: str) -> None:
    function, operands = SMOOTH[name]
    point, h = operands[-1], 1e-5

    def last(x: Any) -> Any:
        return function(*operands[:-1], x)

    difference = (last(point + h) - last(point - h)) / (2 * h)
    np.testing.assert_allclose(grad(last)(point), difference, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(jit(grad(last))(point), difference, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "number", "operands"),
    [
        (S.gammaincinv, 0, (2.5, 0.0)),
        (S.gammainccinv, 0, (2.5, 1.0)),
        (S.betaincinv, 0, (2.5, 1.5, 0.0)),
        (S.betaincinv, 1, (2.5, 1.5, 0.0)),
        (S.betainccinv, 1, (2.5, 1.5, 0.0)),
        (S.fdtr, 0, (1.3, 2.5, 0.0)),
        (S.fdtr, 1, (1.3, 2.5, 0.0)),
        (S.powm1, 1, (0.0, 1.3)),
        (S.tklmbda, 1, (3.7, 3.1)),
        (S.pdtrik, 0, (0.2, 0.5)),
        (S.nbdtrik, 1, (0.03, 0.25, 0.3)),
        (S.bdtrik, 1, (0.01, 5.0, 0.1)),
    ],
)
def test_slope_is_0_where_a_value_stays_the_same(
    function: Callable[..., Any], number: int, operands: tuple[float, ...]
) -> None:
    assert grad(function, number)(*operands) == 0


@pytest.mark.parametrize("s", [-100.3, -16.4, -4.0, -1.0, -0.5, 0.5, 3.0])
@pytest.mark.parametrize("function", [S.zeta, S.zetac])
def test_slopes_of_zeta(function: Callable[..., Any], s: float) -> None:
    first, second = (float(mpmath.diff(mpmath.zeta, mpmath.mpf(s), n)) for n in (1, 2))
    np.testing.assert_allclose(grad(function)(s), first, rtol=1e-12)
    np.testing.assert_allclose(jit(grad(grad(function)))(s), second, rtol=1e-11)


@pytest.mark.parametrize(
    ("function", "n"),
    [(S.polygamma, 1.6), (S.polygamma, -1), (lambda n, x: S.diric(x, n), 2.5),
     (lambda n, x: S.diric(x, n), 0), (S.spherical_yn, -1.3)],
)  # fmt: skip
def test_other_orders_are_nan(function: Callable[..., Any], n: float) -> None:
    assert np.isnan(function(n, 0.3))
    assert np.isnan(jit(lambda x: function(n, x))(0.3))


def test_degrees_that_scipy_refuses_are_refused() -> None:
    words = r"legendre_p: degrees and orders are integers, and one has dtype float64"
    with pytest.raises(TypeError, match=words):
        jit(lambda x: S.legendre_p(1.5, x))(0.3)
    for function in (S.assoc_legendre_p, S.sph_legendre_p):
        with pytest.raises(TypeError, match="degrees and orders are integers"):
            jit(lambda x, function=function: function(2, 0.5, x))(0.3)
    with pytest.raises(TypeError, match="degrees and orders are integers"):
        jit(lambda x: S.sph_harm_y(2.5, 1, x, 0.1))(0.3)
    with pytest.raises(ValueError, match="a degree is not negative; got -1"):
        jit(lambda x: S.legendre_p(-1, x))(0.3)
    with pytest.raises(ValueError, match=r"riccati_jn: n is an integer of at least 0, not 1\.5"):
        jit(lambda x: S.riccati_jn(1.5, x))(0.3)
