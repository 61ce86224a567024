"""Special functions against SciPy and mpmath: values, and derivatives in tails and at edges."""

import os
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc

from functrans import grad, hessian, jit, vmap
from functrans.errors import NotDifferentiableError
from functrans.scipy import special

X = np.array([0.3, 1.2, 2.5])

# name: traced form, SciPy's, where
FUNCTIONS = {
    "polygamma": (lambda m, x: m.polygamma(2, x), X),
    "zeta": (lambda m, x: m.zeta(x), X + 1),
    "hurwitz": (lambda m, x: m.zeta(x, 2.0), X + 1),
    "multigammaln": (lambda m, x: m.multigammaln(x, 3), X + 2),
    "comb": (lambda m, x: m.comb(x, 2), X + 1),
    "perm": (lambda m, x: m.perm(x, 2), X + 1),
    "factorial": (lambda m, x: m.factorial(x), X),
    "jvp": (lambda m, x: m.jvp(1.0, x, 2), X),
    "kvp": (lambda m, x: m.kvp(1.0, x, 3), X),
    "spherical_jn": (lambda m, x: m.spherical_jn(2, x), X),
    "spherical_kn": (lambda m, x: m.spherical_kn(2, x, True), X),
    "legendre_p": (lambda m, x: m.legendre_p(4, x, diff_n=2), X / 3),
    "legendre_p_all": (lambda m, x: m.legendre_p_all(3, x, diff_n=1), X / 3),
    "riccati_jn": (lambda m, x: np.stack(m.riccati_jn(3, x)), 0.7),
    "riccati_yn": (lambda m, x: np.stack(m.riccati_yn(3, x)), 0.7),
    "sph_harm_y": (lambda m, x: m.sph_harm_y(3, np.array([[-2], [1]]), x, 0.4 * x), X),
    "sph_legendre_p": (lambda m, x: m.sph_legendre_p(4, 2, x), X),
    "diric": (lambda m, x: m.diric(x, 4), np.array([0.3, 6.4, 13.0])),
    "logsumexp": (lambda m, x: m.logsumexp(x, b=np.array([1.0, -0.5, 2.0])), X),
    "softmax": (lambda m, x: m.softmax(x), X),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_scipys(name):
    function, x = FUNCTIONS[name]
    found = jit(lambda x: function(special, x))(x)
    np.testing.assert_allclose(found, function(sc, x), rtol=1e-12, atol=1e-15)


COMPLEX = np.array([1 + 1j, 2 - 1j, -2 + 3j])
OPTIONS = {
    "complex": (lambda m, z: m.logsumexp(z), COMPLEX),
    "complex, signs": (lambda m, z: m.logsumexp(z, return_sign=True), COMPLEX),
    "complex, negative": (lambda m, z: m.logsumexp(z, b=-1.5), COMPLEX * 400),
    "number": (lambda m, x: m.logsumexp(x, axis=0, keepdims=True), np.array(2.0)),
    "two dtypes": (lambda m, x: m.logsumexp(x, b=np.array([1.0, -1.0])), np.float32([2, 1])),
    "comb of nothing": (lambda m, n: m.comb(n, 0, repetition=True), np.array([0, 5])),
    "comb, repetition": (lambda m, n: m.comb(n, [2, 7, 0], repetition=True), np.array([5, 3, 0])),
    "factorial of NaN": (lambda m, n: m.factorial(n, exact=False), np.array([np.nan, -1, 3])),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_values_and_dtypes_with_options_are_scipys(name):
    function, x = OPTIONS[name]
    found, expected = jit(lambda x: function(special, x))(x), function(sc, x)
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-12)
        assert one.dtype == other.dtype


SINGLE = np.float32([0.5, 1.5])
OF_ORDERS = {
    "polygamma": lambda m, x: m.polygamma(1, x),
    "jvp": lambda m, x: m.jvp(1, x),
    "spherical_jn": lambda m, x: m.spherical_jn(2, x),
    "spherical_kn": lambda m, x: m.spherical_kn(2, x),
    "legendre_p": lambda m, x: m.legendre_p(2, x),
    "legendre_p_all": lambda m, x: m.legendre_p_all(2, x),
    "assoc_legendre_p": lambda m, x: m.assoc_legendre_p(2, 1, x / 4),
    "sph_harm_y": lambda m, x: m.sph_harm_y(2, 1, x, x),
    "multigammaln": lambda m, x: m.multigammaln(x + 2, 2),
    "factorial": lambda m, x: m.factorial(x),
}


@pytest.mark.parametrize("name", OF_ORDERS)
@pytest.mark.parametrize("dtype", ["i1", "f2", "f4"])
def test_narrow_numbers_beside_an_order_are_as_wide_as_scipys(name, dtype):
    function, x = OF_ORDERS[name], SINGLE.astype(dtype)
    found, expected = vmap(lambda x: function(special, x))(x[None])[0], function(sc, x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "f2" else 1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", ["i1", "i2", "i8"])
def test_exponentials_of_integers_have_the_dtype_of_numpys(name, dtype):
    x = np.arange(3, dtype=dtype)
    found, expected = jit(lambda x: getattr(special, name)(x))(x), getattr(sc, name)(x)
    np.testing.assert_allclose(found, expected, rtol=3 * np.finfo(expected.dtype).eps, strict=True)


def test_orders_that_there_are_not():
    with pytest.raises(ValueError, match=r"^n must be a non-negative integer, and it is -1$"):
        jit(lambda x: special.jvp(2, x, n=-1))(1.0)
    with pytest.raises(ValueError, match=r"^condition a > 0\.5 \* \(d-1\) \(2\.0+\) not met$"):
        grad(lambda x: special.multigammaln(x, 5))(1.5)


def test_a_double_factorial_of_floats_is_refused_as_by_scipy():
    with pytest.raises(ValueError, match="non-integer"):
        sc.factorial2(1.5)
    words = (
        r"^scipy.special.factorial2: n is an integer, and has dtype float64: write .astype\(int\)"
    )
    with pytest.raises(ValueError, match=words):
        vmap(special.factorial2)(np.array([1.5]))


def test_softplus_into_an_array():
    def into(x):
        out = np.zeros_like(x)
        special.softplus(x, out=out, where=x > 0)
        return out

    x = np.array([-1.0, 2.0])
    np.testing.assert_allclose(jit(into)(x), into(x))


# where cancellation would show: function, mpmath's, points
TAILS = {
    "erfcx": (sc.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), (0.7, 6.0, 50.0)),
    "log_ndtr": (
        sc.log_ndtr, lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), (-700.0, -3.0, 0.0, 3.0),
    ),
    "rgamma": (sc.rgamma, mp.rgamma, (-3.0, -2.5, 0.0, 0.5, 3.0)),
    "exprel": (sc.exprel, lambda x: mp.expm1(x) / x, (-50.0, 1e-3, 5.0)),
    "ellipk": (sc.ellipk, mp.ellipk, (-5.0, 1e-8, 0.5, 0.99)),
    "spence": (sc.spence, lambda x: mp.polylog(2, 1 - x), (0.3, 0.9, 5.0)),
    "betaln": (lambda a: sc.betaln(a, 1.5), lambda a: mp.log(mp.beta(a, 1.5)), (0.5, 1e5)),
    "boxcox of 0": (lambda lmbda: sc.boxcox(0.0, lmbda), lambda lmbda: -1 / lmbda, (0.3, 2.0)),
    "gammainc": (
        lambda a: sc.gammainc(a, 9.0),
        lambda a: mp.gammainc(a, 0, 9, regularized=True), (2.0, 30.0),
    ),
    "betainc": (
        lambda a: sc.betainc(a, 3.0, 0.4),
        lambda a: mp.betainc(a, 3, 0, mp.mpf(0.4), regularized=True), (0.5, 4.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAILS)
def test_derivatives_in_tails_and_at_edges(name):
    function, exact, points = TAILS[name]
    for order in (1, 2):
        function = grad(function)
        for x in points:
            with mp.workdps(50):
                expected = float(mp.diff(exact, mp.mpf(x), order))
            assert float(function(x)) == pytest.approx(expected, rel=1e-9), (order, x)


def test_a_log_sum_knows_what_the_small_terms_add():
    x = np.array([0.0, -40.0])
    assert jit(special.logsumexp)(x) == sc.logsumexp(x) > 0
    x = np.array([np.inf, 1.0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(jit(special.softmax)(x), sc.softmax(x))


@pytest.mark.parametrize(
    "x",
    [
        [0.0, 0.0, 0.0], [-np.inf, -np.inf], [np.inf, 1.0], [np.inf, -np.inf], [np.nan, 1.0], [3.0],
        [1000.0, 1000.0, -1000.0], [-1000.0, -1037.0], [0.0, -37.0, -37.0], [-np.inf, 2.0],
    ],
)  # fmt: skip
def test_a_log_sum_of_equal_and_of_infinite_terms(x):
    expected = sc.logsumexp(x)
    with np.errstate(all="ignore"):
        for found in (special.logsumexp(np.array(x)), jit(special.logsumexp)(np.array(x))):
            np.testing.assert_allclose(found, expected, rtol=3e-16)
        value, sign = jit(lambda x: special.logsumexp(x, return_sign=True))(np.array(x))
    np.testing.assert_allclose(value, expected, rtol=3e-16)
    np.testing.assert_array_equal(sign, sc.logsumexp(x, return_sign=True)[1])
    if np.isfinite(expected):
        np.testing.assert_allclose(jit(grad(special.logsumexp))(np.array(x)), sc.softmax(x))


_NO_ORDER = (
    "the derivative of a Bessel function in its order has no closed form; hold the order fixed"
)
_OF_ORDERS = {
    **dict.fromkeys("jv yv iv kv jve yve ive kve struve modstruve".split(), _NO_ORDER),
    **dict.fromkeys("jn jvp yvp ivp kvp hankel1 hankel2 hankel1e hankel2e".split(), _NO_ORDER),
    **dict.fromkeys(
        "spherical_jn spherical_yn spherical_in spherical_kn".split(), "the order is an integer"
    ),
}


@pytest.mark.parametrize("name", _OF_ORDERS)
@pytest.mark.parametrize("transform", [grad, lambda f: jit(grad(f)), lambda f: grad(jit(f))])
def test_an_order_is_refused_by_its_operand(name, transform):
    function = getattr(sc, name)
    words = r"^\w+ is not differentiable in operand 0 at test_special.py:\d+ [^\n]*"
    with pytest.raises(NotDifferentiableError, match=words + _OF_ORDERS[name]):
        transform(lambda v: np.real(function(v, 1.0)))(2.0)
    # the values are known
    found = jit(lambda v: function(v, 1.0))(2.0)
    np.testing.assert_allclose(found, function(2, 1.0), rtol=1e-12)


ARRAY_API = """
import numpy as np
import scipy.special
from functrans import grad

x = np.array([0.5, -1.0, 2.0])
slope = grad(lambda x: scipy.special.logsumexp(x))(x)
np.testing.assert_allclose(slope, scipy.special.softmax(x), rtol=1e-14)
of_first = grad(lambda x: scipy.special.softmax(x)[0])(x)
p = scipy.special.softmax(x)
np.testing.assert_allclose(of_first, p[0] * (np.array([1.0, 0.0, 0.0]) - p), rtol=1e-13)
grad(lambda x: np.sum(scipy.special.gammainc(1.5, x)))(np.abs(x))
"""


@pytest.mark.full
def test_scipys_own_functions_take_traced_values_where_its_array_api_is_on():
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", ARRAY_API], env=environment, check=True)


@pytest.mark.filterwarnings("ignore:floating point number truncated")
@pytest.mark.parametrize("name", ["kn", "yn"])
def test_an_integral_order_is_truncated(name):
    orders = np.array([-2.7, -2, -0.5, 0, 0.9, 2.5, np.nan])[:, None]
    function = getattr(special, name)
    np.testing.assert_allclose(jit(function)(orders, X), function(orders, X), rtol=1e-12)


def test_counts_beyond_32_bits():
    """SciPy's ufuncs take integers of 64 bits, and wrap them around."""
    for k, n in ((0.0, 2.0**40), (3.0, 2.0**33), (2.0, 5.0)):
        found, expected = jit(special.bdtr)(k, n, 0.3), sc.bdtr(k, n, 0.3)
        np.testing.assert_array_equal(found, expected)


def test_slopes_of_binomial_coefficients_at_roots():
    """Where the coefficient is 0, because a gamma function in its denominator has a pole."""
    h = 1e-5
    for name, *at in (("binom", 2.0, 5.0), ("binom", 0.3, 3.3), ("binom", 5.0, -1.0),
                      ("binom", 6.0, 2.0), ("poch", -2.0, 5.0), ("poch", 2.0, 3.0)):  # fmt: skip
        of = getattr(sc, name)
        found = jit(grad(getattr(special, name), argnums=(0, 1)))(*at)
        for i, slope in enumerate(found):
            left, right = ([*at[:i], at[i] + d, *at[i + 1 :]] for d in (-h, h))
            assert slope == pytest.approx((of(*right) - of(*left)) / (2 * h), rel=1e-5, abs=1e-7)


def test_slopes_of_a_mean_of_negative_numbers():
    found = grad(special.agm, argnums=(0, 1))(-2.5, -2.0)
    np.testing.assert_allclose(found, grad(special.agm, argnums=(0, 1))(2.5, 2.0), rtol=1e-14)
    assert grad(grad(special.agm))(-2.5, -2.0) == -grad(grad(special.agm))(2.5, 2.0)


@pytest.mark.parametrize("name", ["gdtr", "gdtrc"])
def test_a_gamma_share_at_0_does_not_depend_on_the_rate(name):
    """Where the density is infinite."""
    assert jit(grad(getattr(special, name)))(2.0, 0.5, 0.0) == 0


@pytest.mark.parametrize("delta", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("r", [1e-8, 1.0, 2e6, -1e8])
def test_derivatives_of_a_pseudo_huber_loss_do_not_cancel(delta, r):
    x = np.array([delta, r])
    width, step = mp.mpf(delta), mp.mpf(r)
    with mp.workdps(120):
        size = mp.sqrt(width**2 + step**2)
        mixed = step / size - width**2 * step / size**3
        expected = [
            [3 * width / size - (width / size) ** 3 - 2, mixed],
            [mixed, (width / size) ** 3],
        ]
        slopes = [(size - width) ** 2 / size, width * step / size]

    def loss(x):
        return special.pseudo_huber(x[0], x[1])

    np.testing.assert_allclose(jit(grad(loss))(x), np.array(slopes, float), rtol=4e-15)
    np.testing.assert_allclose(jit(hessian(loss))(x), np.array(expected, float), rtol=4e-15)


def test_slopes_of_a_pseudo_huber_loss_far_out():
    for delta, r in (np.array([1.0, -1e200]), np.array([1e-10, 1e10], np.float32)):
        slopes = grad(special.pseudo_huber, argnums=(0, 1))(delta, r)
        np.testing.assert_array_equal(slopes, [abs(r), np.copysign(delta, r)])


@pytest.mark.parametrize("z", [-7.3, -2.5, 0.5])
@pytest.mark.parametrize("m", [-1.0, 1.0, 2.0, 0.4])
def test_curvatures_of_rising_factorials_on_the_left(z, m):
    """Also where the second operand is whole, and the sine of its half turns 0."""
    value = mp.rf(z, m)
    (of_end, slope_of_end), (of_z, slope_of_z) = (
        [mp.psi(n, x) for n in (0, 1)] for x in (z + m, z)
    )
    across = value * ((of_end - of_z) * of_end + slope_of_end)
    first = value * ((of_end - of_z) ** 2 + slope_of_end - slope_of_z)
    expected = [[first, across], [across, value * (of_end**2 + slope_of_end)]]
    found = jit(hessian(lambda x: special.poch(x[0], x[1])))(np.array([z, m]))
    scale = float(abs(value * (of_end**2 + of_z**2 + slope_of_end + slope_of_z)))
    np.testing.assert_allclose(found, np.array(expected, float), rtol=1e-12, atol=1e-13 * scale)


def test_slopes_by_small_steps_on_the_left():
    """A binomial coefficient beside that of 0, and a beta function beside its pole."""
    n, step = -2.5, 1e-12
    found = jit(grad(special.binom))(n, step)
    assert found == pytest.approx(step * float(mp.psi(1, n + 1)), rel=1e-11)
    found = jit(grad(special.beta, argnums=1))(step, n)
    assert found == pytest.approx(-float(mp.psi(1, n)), rel=1e-11)


@pytest.mark.parametrize("x", [-1 + 1e-9, 1 - 1e-6, 1 - 1e-12, 1.0])
def test_slopes_of_legendre_functions_near_the_ends(x):
    def polynomial(x):
        return special.lpmv(0.0, 4.0, x)

    slope, curvature = (140 * x**3 - 60 * x) / 8, (420 * x**2 - 60) / 8
    assert jit(grad(polynomial))(x) == pytest.approx(slope, rel=1e-13)
    assert jit(grad(grad(polynomial)))(x) == pytest.approx(curvature, rel=1e-13)
