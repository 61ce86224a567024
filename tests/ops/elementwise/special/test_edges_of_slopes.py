"""Slopes of special functions at ends, poles and far out, against mpmath and closed forms."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from functrans import grad, jvp, testing
from functrans.scipy import special


def slope(name, number, *operands):
    return float(grad(getattr(special, name), argnums=number)(*operands))


def struve(modified, v, x):
    return mp.diff(lambda t: (mp.struvel if modified else mp.struveh)(v, t), mp.mpf(x))


def principal_value(x, y):
    """Carlson's degenerate integral for negative y, NIST DLMF 19.2.20."""
    return mp.sqrt(x / (x - y)) * mp.elliprc(x - y, -y)


def incomplete_beta(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def noncentral_density(x, df, nc):
    x, order = mp.mpf(x), mp.mpf(df) / 2 - 1
    bessel = mp.besseli(order, mp.sqrt(x * nc))
    return mp.exp(-(x + nc) / 2) * (x / nc) ** (order / 2) * bessel / 2


PRECISELY = {  # function, number of the operand, operands, and the slope with 40 digits
    "struve far out": ("struve", 1, (2.0, 1e5), lambda v, x: struve(False, v, x)),
    "struve of a large order": ("struve", 1, (200.0, 10.5), lambda v, x: struve(False, v, x)),
    "struve of a large order, far": ("struve", 1, (200.0, 300.0), lambda v, x: struve(False, v, x)),
    "struve near 0": ("struve", 1, (3.0, -0.5), lambda v, x: struve(False, v, x)),
    "modstruve of a large order": ("modstruve", 1, (200.0, 7.7), lambda v, x: struve(True, v, x)),
    "bdtr of a small p": (
        "bdtr", 2, (2.0, 5.0, 1e-20), lambda k, n, p: -30 * mp.mpf(p) ** 2 * (1 - mp.mpf(p)) ** 2,
    ),
    "voigt without a width, in the tail": (
        "voigt_profile", 0, (7.3, 0.5, 0.0), lambda x, s, g: -mp.mpf(x) / s**2 * mp.npdf(x, 0, s),
    ),
    "voigt of a negative width": (
        "voigt_profile", 0, (-0.5, 0.0, -3.0), lambda x, s, g: mp.diff(
            lambda t: g / (mp.pi * (t * t + g * g)), mp.mpf(x)
        ),
    ),
    "elliprc of a tiny operand": (
        "elliprc", 1, (1e-300, 0.7), lambda x, y: mp.diff(lambda t: mp.elliprc(x, t), mp.mpf(y)),
    ),
    "elliprc of a large quotient": (
        "elliprc", 0, (1e10, 1.0), lambda x, y: mp.diff(lambda t: mp.elliprc(t, y), mp.mpf(x)),
    ),
    "elliprc below 0": (
        "elliprc", 0, (2.0, -3.0), lambda x, y: mp.diff(lambda t: principal_value(t, y), mp.mpf(x)),
    ),
    "elliprc below 0, in y": (
        "elliprc", 1, (2.0, -3.0), lambda x, y: mp.diff(lambda t: principal_value(x, t), mp.mpf(y)),
    ),
    "chndtr of many degrees": ("chndtr", 0, (1e3, 1e3, 2.0), noncentral_density),
    "chndtr of many degrees, by the noncentrality": (
        "chndtr", 2, (2e3, 2e3, 0.5), lambda x, df, nc: -noncentral_density(x, df + 2, nc),
    ),
    "chndtr of a subnormal noncentrality": ("chndtr", 0, (2.0, 3.0, 1e-320), noncentral_density),
    "chndtr far out": ("chndtr", 0, (1e20, 3.0, 2.0), lambda x, df, nc: 0),
    "ellipkm1 of a tiny number": ("ellipkm1", 0, (1e-300,), lambda p: -1 / (2 * mp.mpf(p))),
    "ellipkinc at the parameter 1": (
        "ellipkinc", 1, (1.0, 1.0), lambda phi, m: mp.quad(
            lambda t: mp.sin(t) ** 2 / (2 * mp.cos(t) ** 3), [0, phi]
        ),
    ),
    "ellipeinc at the parameter 1": (
        "ellipeinc", 1, (1.0, 1.0), lambda phi, m: -mp.quad(
            lambda t: mp.sin(t) ** 2 / (2 * mp.cos(t)), [0, phi]
        ),
    ),
    "agm of numbers far apart": (
        "agm", 1, (1e-300, 1.0), lambda a, b: mp.diff(lambda t: mp.agm(a, t), mp.mpf(b)),
    ),
    "agm of large numbers": (
        "agm", 0, (1e300, 2e300), lambda a, b: mp.diff(lambda t: mp.agm(t, 2), mp.mpf(1)),
    ),
    "chebyu of a negative degree": (
        "eval_chebyu", 1, (-5.0, 0.3), lambda n, x: -mp.diff(lambda t: mp.chebyu(3, t), mp.mpf(x)),
    ),
    "chebys of a negative degree": (
        "eval_chebys", 1, (-5.0, 0.3),
        lambda n, x: -mp.diff(lambda t: mp.chebyu(3, t / 2), mp.mpf(x)),
    ),
    "sh_chebyu of a negative degree": (
        "eval_sh_chebyu", 1, (-5.0, 0.3),
        lambda n, x: -mp.diff(lambda t: mp.chebyu(3, 2 * t - 1), mp.mpf(x)),
    ),
    "lpmv of the lowest order": (
        "lpmv", 2, (-2.0, 2.0, -0.5), lambda m, v, x: -mp.mpf(x) / 4,
    ),
    "lpmv at 1": ("lpmv", 2, (0.0, 3.0, 1.0), lambda m, v, x: 6),
    "poch of a negative count": ("poch", 0, (-30.0, 2.0), lambda z, m: 2 * z + 1),
    "poch near a pole": ("poch", 0, (1e-6, -5.0), lambda z, m: mp.diff(lambda t: mp.rf(t, m), z)),
    "poch between poles": (
        "poch", 0, (-3.3, 1.5), lambda z, m: mp.diff(lambda t: mp.rf(t, m), mp.mpf(z)),
    ),
    "binom where a quotient of gamma functions is 1": (
        "binom", 0, (-1e-10, 2.5), lambda n, k: mp.diff(lambda t: mp.binomial(t, k), mp.mpf(n)),
    ),
    "betainc of a tiny parameter": (
        "betainc", 0, (1e-30, 5.0, 1e-30), lambda a, b, x: mp.diff(
            lambda t: incomplete_beta(t, b, x), mp.mpf(a)
        ),
    ),
    "zeta far on the left": ("zeta", 0, (-200.5,), lambda s: mp.zeta(mp.mpf(s), 1, 1)),
    "boxcox at infinity": ("boxcox", 1, (np.inf, -2.0), lambda x, lmbda: 0.25),
    "boxcox1p at its end": ("boxcox1p", 0, (-1.0, 1.0), lambda x, lmbda: 1),
    "owens_t of a huge factor": ("owens_t", 1, (0.0, 1e300), lambda h, a: 0),
    "it2struve0 at 0": ("it2struve0", 0, (0.0,), lambda x: -2 / mp.pi),
    "keip at 0": ("keip", 0, (0.0,), lambda x: mp.inf),
    "hyp1f1 of the first parameter 0": ("hyp1f1", 2, (0.0, 0.5, 1e3), lambda a, b, x: 0),
    "hyp1f1 of degree 1": ("hyp1f1", 2, (-1.0, -10.0, 1.5), lambda a, b, x: 0.1),
    "hyp2f1 of a parameter 0": ("hyp2f1", 3, (0.0, 0.5, 1.0, 1.5), lambda a, b, c, x: 0),
    "jacobi of degree 0": ("eval_jacobi", 3, (0.0, 0.5, 0.5, -1.5), lambda n, a, b, x: 0),
}  # fmt: skip


@pytest.mark.parametrize("case", PRECISELY.values(), ids=PRECISELY)
def test_slopes_with_forty_digits(case):
    name, number, operands, exactly = case
    with mp.workdps(40):
        expected = float(exactly(*operands))
    assert slope(name, number, *operands) == pytest.approx(expected, rel=2e-9, abs=0)


SMALL = 1e-7
CURVATURES = {  # slopes that are quotients by x, and their slopes at a small number
    "shi": (lambda x: special.shichi(x)[0], SMALL / 3),
    "si": (lambda x: special.sici(x)[0], -SMALL / 3),
    "it2struve0": (special.it2struve0, 4 * SMALL / (9 * math.pi)),
    "it2j0": (lambda x: grad(lambda t: special.it2j0y0(t)[0])(x), -3 * SMALL / 32),
    "it2i0": (lambda x: grad(lambda t: special.it2i0k0(t)[0])(x), 3 * SMALL / 32),
    "beip": (special.beip, -5 * SMALL**3 / 96),
}


@pytest.mark.parametrize("name", CURVATURES)
def test_curvature_near_0(name):
    function, expected = CURVATURES[name]
    assert grad(grad(function))(SMALL) == pytest.approx(expected, rel=1e-12, abs=0)


def test_curvature_of_incomplete_functions_of_tiny_parameters():
    """The gamma function's factors have poles there, which cancel."""
    tiny, one = 1e-12, mp.mpf(1)

    def curvature(function, *operands):
        return grad(grad(function, argnums=0), argnums=0)(*operands)

    with mp.workdps(60):
        by_a = mp.diff(lambda t: incomplete_beta(t, 0.5, 0.01), tiny * one, 2)
        by_b = mp.diff(lambda t: incomplete_beta(2.5, t, 0.98), tiny * one, 2)
        by_order = mp.diff(lambda t: mp.gammainc(t, 0, 1.5, regularized=True), tiny * one, 2)
    found = [
        curvature(special.betainc, tiny, 0.5, 0.01),
        curvature(lambda b: special.betainc(2.5, b, 0.98), tiny),
        curvature(special.gammainc, tiny, 1.5),
    ]
    np.testing.assert_allclose(found, np.array([by_a, by_b, by_order], float), rtol=1e-12)


SINGLY = {  # float32 operands of slopes whose factors overflow or underflow in float32
    "chndtr": (350, 300, 10),
    "binom": (23, 65),
    "ellipj": (-10, 1),
}


@pytest.mark.parametrize("name", SINGLY)
def test_slopes_of_single_precision_are_computed_in_double(name):
    """As SciPy computes the values."""
    operands = [np.float32(x) for x in SINGLY[name]]
    last = operands.pop()

    def slope(x):
        result = jvp(lambda x: getattr(special, name)(*operands, x), (x,), (np.ones_like(x),))[1]
        return result[1] if isinstance(result, tuple) else result

    change = slope(last)
    assert change.dtype == np.float32
    operands = [float(x) for x in operands]
    assert change == pytest.approx(slope(np.float64(last)), rel=1e-6, abs=0)


@pytest.mark.parametrize("order", [-1, 0, 1, 2])
def test_curvature_of_spherical_harmonics_at_the_poles(order):
    """That of the degree 1 is minus the function, that of the degree 2 known at the poles."""
    theta = np.array([0.0, 1e-8, 1e-3, np.pi])
    curvature = grad(grad(lambda t: special.sph_legendre_p(1 + (order == 2), order, t)[0]))
    function = scipy.special.sph_legendre_p(1, order, theta)[0]
    if order == 2:
        function = -0.5 * math.sqrt(15 / (2 * math.pi)) * np.cos(2 * theta)
    np.testing.assert_allclose(list(map(curvature, theta)), -function, rtol=1e-12, atol=1e-15)


def test_curvature_of_kl_div_far_from_the_diagonal():
    curvature = grad(grad(lambda y: special.kl_div(1e-20, y)))(3.0)
    assert curvature == pytest.approx(1e-20 / 9, rel=1e-12, abs=0)


@pytest.mark.parametrize(("function", "slope"), [(special.hankel1, -0.5), (special.hankel2, 1.5)])
def test_hankel_functions_of_whole_orders_below_0(function, slope):
    """Their real part is a multiple of the Bessel function, which is ``x / 2`` near 0."""
    value, change = jvp(lambda x: function(1.0, x).real, (-1e-10,), (1.0,))
    assert [value, change] == pytest.approx([-1e-10 * slope, slope], rel=1e-12, abs=0)


def test_dirichlet_kernel_of_single_precision():
    """The count makes the result double, so it is computed in double precision."""
    x = np.float32([5e-4])
    change = jvp(lambda x: special.diric(x, 3), (x,), (np.ones_like(x),))[1]
    assert change == pytest.approx(-2 / 3 * x.astype(float), rel=1e-6)


def test_curvature_of_struve_where_it_is_divided_by_0():
    """Of the order 1, which is ``2 x**2 / (3 pi)`` there."""
    curvature = grad(grad(lambda x: special.struve(1.0, x)))(0.0)
    assert curvature == pytest.approx(4 / (3 * math.pi), rel=1e-12)


def test_faddeeva_far_out_on_the_real_axis():
    """Where its asymptotic series is imaginary, and the real part is a Gaussian."""
    x = np.array([-7.3, 6.6, 10.0, 20.0])
    value, change = jvp(lambda x: special.wofz(x).real, (x,), (np.ones(4),))
    np.testing.assert_allclose(value, np.exp(-x * x), rtol=1e-13)
    np.testing.assert_allclose(change, -2 * x * np.exp(-x * x), rtol=1e-13)


def test_faddeeva_of_infinite_real_numbers():
    x = np.array([-np.inf, np.inf])
    np.testing.assert_array_equal(jvp(special.wofz, (x,), (x,))[0], scipy.special.wofz(x))


def test_infinitely_many_degrees_of_freedom():
    """Student's distribution is the normal one there."""
    slopes = grad(special.stdtr, argnums=(0, 1))(np.inf, 0.3)
    assert slopes == pytest.approx((0.0, math.exp(-0.045) / math.sqrt(2 * math.pi)), rel=1e-14)
    quantile = grad(special.stdtrit, argnums=1)(np.inf, scipy.special.ndtr(0.3))
    assert quantile == pytest.approx(1 / slopes[1], rel=1e-14)


def test_jacobi_elliptic_functions_at_the_parameter_1():
    u = 1.5
    amplitude = grad(lambda m: special.ellipj(u, m)[3])(1.0)
    numeric = -(scipy.special.ellipj(u, 1 - 1e-6)[3] - scipy.special.ellipj(u, 1.0)[3]) / 1e-6
    assert amplitude == pytest.approx(numeric, rel=1e-4)


def test_degrees_are_whole_numbers_one_by_one():
    """A fraction beside them does not send them to SciPy's loops for fractions, which lose more."""
    n, x = np.array([0.0, 200.0, 0.5]), np.array([0.2, 7.7, 0.2])
    slopes = jvp(lambda x: special.eval_legendre(n, x), (x,), (np.ones(3),))[1]
    alone = [slope("eval_legendre", 1, *pair) for pair in zip(n, x, strict=True)]
    np.testing.assert_array_equal(slopes, alone)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("operands", [(2.0, -3.0), (0.5, 3.0), (3.0, 0.5)])
def test_degenerate_integrals_to_the_second_order(operands):
    testing.check_grads(special.elliprc, operands, order=2)


@pytest.mark.parametrize("name", ["struve", "modstruve"])
def test_derivatives_of_struve_at_0(name):
    """Of the order 0, ``2 x / pi``, and terms of the third order on."""
    function = getattr(special, name)
    first = grad(lambda x: function(0.0, x))
    assert [first(0.0), grad(first)(0.0)] == pytest.approx([2 / math.pi, 0], rel=1e-12)


AT_NAN = [
    ("entr", (0.7,)), ("rel_entr", (0.7, 0.6)), ("kl_div", (0.7, 0.6)), ("tklmbda", (0.7, 0.6)),
    ("pdtrik", (0.4, 3.0)), ("bdtrik", (0.6, 8.0, 0.4)), ("nbdtrik", (0.6, 4.0, 0.4)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "number", "operands"),
    [
        (name, i, (*operands[:i], math.nan, *operands[i + 1 :]))
        for name, operands in AT_NAN
        for i in range(len(operands))
    ]
    + [(name, i, (math.nan, 0.7)) for name in ("huber", "pseudo_huber") for i in range(2)],
)
def test_slopes_at_nan_are_nan(name, number, operands):
    """NaN is not outside of the domain, where some of these are constant."""
    assert math.isnan(slope(name, number, *operands))


def test_slopes_where_the_next_order_underflows():
    """Where SciPy rounds `kn(2, x)` to 0, and its sum with `k0` was half of the slope of `k1`."""
    k0, k1 = (float(mp.besselk(n, 700)) for n in range(2))
    assert grad(special.k1)(700.0) == pytest.approx(-(k0 + k1 / 700), rel=1e-13, abs=0)
    assert grad(grad(special.k0))(700.0) == pytest.approx(k0 + k1 / 700, rel=1e-13, abs=0)
    assert grad(special.kv, argnums=1)(0.0, 0.0) == -math.inf
