"""The incomplete gamma and beta functions compiled: against mpmath, and SciPy where it is right."""

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from functrans import config, grad, jit, vmap
from functrans.scipy import special

EPS = np.finfo(np.float64).eps


def compiled(f, *args):
    """The compiled function's result; it may not call SciPy."""
    made = jit(f)
    assert "call NumPy" not in made.lower(*args).schedule()
    return made(*args)


def ulps(found, exact):
    """Errors in units of the last place, of what is not tiny."""
    return [
        0.0 if e < mp.mpf(10) ** -290 else float(abs(mp.mpf(float(x)) - e) / e / EPS)
        for x, e in zip(found, exact, strict=True)
    ]


# -- gamma -----------------------------------------------------------------------------------------


def orders_and_points(count, seed=0):
    """Orders of all sizes, and points far from them, near them, and small ones."""
    rng = np.random.default_rng(seed)
    a = 10 ** rng.uniform(-12, 4, count)
    x = np.stack([
        a * 10 ** rng.uniform(-2, 1, count), a + rng.normal(size=count) * np.sqrt(a) * 6,
        10 ** rng.uniform(-12, 3, count), a * rng.uniform(0.5, 1.6, count),
    ])[rng.integers(4, size=count), np.arange(count)]  # fmt: skip
    return a[x > 0], x[x > 0]


def gamma_by_mpmath(a, x):
    """P and Q, by its function, or for large orders by an integral over what is around the peak."""
    a, x = mp.mpf(float(a)), mp.mpf(float(x))
    if a < 20_000:
        return mp.gammainc(a, 0, x, regularized=True), mp.gammainc(a, x, regularized=True)
    scale = a * mp.log(a) - a - mp.loggamma(a)
    # how soon the density falls off, behind the point
    width = 1 / (abs(1 - a / x) + 1 / mp.sqrt(a))
    far = x + (1 if x > a else -1) * width * mp.mpf(75)
    points = mp.linspace(x, max(far, mp.mpf(0)), 26)
    density = lambda t: mp.exp(a - t + a * mp.log(t / a) + scale) / t if t else mp.mpf(0)  # noqa: E731
    tail = abs(mp.quad(density, points))
    return (1 - tail, tail) if x > a else (tail, 1 - tail)


def check_gamma(count, seed=0):
    a, x = orders_and_points(count, seed)
    with mp.workdps(60):
        pairs = [gamma_by_mpmath(*each) for each in zip(a, x, strict=True)]
        lower, upper = zip(*pairs, strict=True)
        for name, exact in (("gammainc", lower), ("gammaincc", upper)):
            errors = ulps(compiled(getattr(special, name), a, x), exact)
            assert max(errors) < 45 and np.median(errors) < 1
            assert np.quantile(errors, 0.98) < 12
            assert max(errors) <= max(60, *ulps(getattr(scipy.special, name)(a, x), exact))


@pytest.mark.dear
def test_gamma():
    check_gamma(150)


@pytest.mark.slow
def test_gamma_at_many_points():
    check_gamma(3000, seed=1)


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("a", [300.0, 1e15, 20.0, 1e6, 1e10])
def test_gamma_of_a_large_order_near_it(a):
    """Where sums would be as long as the root of the order; SciPy's stop after 2000 terms."""
    x = a + np.sqrt(a) * np.array([-4, -3, -2, -0.1, 0.0, 1e-3, 1, 4, 7.5])
    with mp.workdps(40):
        pairs = [gamma_by_mpmath(a, each) for each in x]
        for name, exact in zip(("gammainc", "gammaincc"), zip(*pairs, strict=True), strict=True):
            assert max(ulps(compiled(getattr(special, name), np.full(x.shape, a), x), exact)) < 12


SPECIAL = [0.0, -0.0, 1e-300, 1e-10, 0.5, 1.0, 1.1, 2.0, 19.99, 20.0, 30.0, 1e5, 1e17, 1e300,
           np.inf, np.nan, -1.0, -np.inf]  # fmt: skip


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_gamma_at_the_ends(name):
    a, x = (each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL))
    expected = getattr(scipy.special, name)(a, x)
    found = compiled(getattr(special, name), a, x)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-290)


def test_gamma_of_the_smallest_order():
    # (SciPy says 0 for both)
    found = compiled(special.gammainc, np.array([1e-320]), np.array([0.5]))
    np.testing.assert_allclose(found, 1, rtol=1e-15)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
@pytest.mark.parametrize("shapes", [((), ()), ((3, 1), (5,)), ((2, 0), (1,)), ((7, 2600), ())])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gamma_broadcasts(name, shapes, dtype):
    rng = np.random.default_rng(0)
    a, x = (rng.uniform(0.2, 30, shape).astype(dtype) for shape in shapes)
    found = compiled(getattr(special, name), a, x)
    # in float64: SciPy's own float32 results have fewer digits
    expected = getattr(scipy.special, name)(*(each.astype(np.float64) for each in (a, x)))
    assert found.dtype == dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == np.float64 else 1e-6)


@pytest.mark.dear
def test_gamma_among_others():
    rng = np.random.default_rng(0)
    a, x = rng.uniform(0.2, 30, (2, 300))

    def f(a, x):
        return np.exp(special.gammainc(a + 1, x * 2)) * np.sum(special.gammaincc(a, x))

    np.testing.assert_allclose(compiled(f, a, x), f(a, x), rtol=1e-12)
    slopes = compiled(vmap(grad(lambda x, a: special.gammaincc(a, x))), x, a)
    density = -np.exp((a - 1) * np.log(x) - x - scipy.special.gammaln(a))
    np.testing.assert_allclose(slopes, density, rtol=1e-11)


@pytest.mark.dear
@pytest.mark.parametrize("threads", [1, 3])
def test_gamma_by_threads(threads, monkeypatch):
    a, x = orders_and_points(5000)
    expected = compiled(special.gammainc, a, x)
    monkeypatch.setattr(config, "threads", threads)
    monkeypatch.setattr(config, "parallel_threshold", 1)
    np.testing.assert_array_equal(compiled(special.gammainc, a, x), expected)


# -- beta ------------------------------------------------------------------------------------------


def beta_by_mpmath(a, b, x):
    """The function and its complement, by hypergeometric series of what is the smaller."""
    a, b, x = (mp.mpf(float(each)) for each in (a, b, x))
    log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    front = mp.exp(a * mp.log(x) + b * mp.log1p(-x) - log_beta)
    if x < a / (a + b):
        value = front / a * mp.hyp2f1(1, a + b, a + 1, x)
        return value, 1 - value
    value = front / b * mp.hyp2f1(1, a + b, b + 1, 1 - x)
    return 1 - value, value


def parameters_and_points(count, seed=0):
    rng = np.random.default_rng(seed)
    a, b = 10 ** rng.uniform(-3, 3.5, (2, count))
    mean = a / (a + b)
    spread = np.sqrt(mean * (1 - mean) / (a + b + 1))
    x = np.stack([
        rng.uniform(0, 1, count), mean + 5 * rng.normal(size=count) * spread,
        10 ** rng.uniform(-6, 0, count), 1 - 10 ** rng.uniform(-6, 0, count),
    ])[rng.integers(4, size=count), np.arange(count)]  # fmt: skip
    return a, b, np.clip(x, 1e-9, 1 - 1e-9)


def check_beta(count, seed=0):
    a, b, x = parameters_and_points(count, seed)
    with mp.workdps(60):
        pairs = [beta_by_mpmath(*each) for each in zip(a, b, x, strict=True)]
        lower, upper = zip(*pairs, strict=True)
        for name, exact in (("betainc", lower), ("betaincc", upper)):
            errors = ulps(compiled(getattr(special, name), a, b, x), exact)
            assert max(errors) < 45 and np.median(errors) < 1.5


@pytest.mark.dear
def test_beta():
    check_beta(150)


@pytest.mark.slow
def test_beta_at_many_points():
    check_beta(2000, seed=1)


@pytest.mark.parametrize("name", ["betainc", "betaincc"])
def test_beta_at_the_ends(name):
    sizes = [0.0, 1e-10, 0.5, 1.0, 2.0, 20.0, 1e5, 1e12, np.inf, np.nan, -1.0]
    places = [0.0, 1e-300, 1e-5, 0.3, 0.5, 0.9, 1 - 1e-10, 1.0, 1.5, -0.1, np.nan]
    a, b, x = (each.ravel() for each in np.meshgrid(sizes, sizes, places))
    expected = getattr(scipy.special, name)(a, b, x)
    found = compiled(getattr(special, name), a, b, x)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-290)


@pytest.mark.parametrize(
    "point", [(10.0, 1e9, 1e-8), (1e-8, 1e16, 1e-17), (0.3, 1e12, 1e-12), (3.0, 0.25, 1 - 1e-9)]
)
def test_beta_of_parameters_far_apart(point):
    """(For the first SciPy's has eight digits.)"""
    given = [np.array([each]) for each in point]
    with mp.workdps(60):
        lower, upper = beta_by_mpmath(*point)
        assert ulps(compiled(special.betainc, *given), [lower])[0] < 60
        assert ulps(compiled(special.betaincc, *given), [upper])[0] < 60


def test_beta_of_subnormal_arguments():
    """Most variates of a small first parameter are that small."""
    a, x = np.array([1e-3, 1e-2, 0.1, 0.3]), np.array([3e-310, 5e-324, 1e-306, 1e-320])
    with mp.workdps(60):
        pairs = [beta_by_mpmath(a, 2.0, x) for a, x in zip(a, x, strict=True)]
    for name, exact in zip(("betainc", "betaincc"), zip(*pairs, strict=True), strict=True):
        assert max(ulps(compiled(getattr(special, name), a, np.full(4, 2.0), x), exact)) < 60


@pytest.mark.parametrize("place", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("b", [1e12, 1e16, 1e22])
def test_slopes_of_beta_in_parameters_far_apart(b, place):
    """They are nearly those of ``gammainc(a, b * x)``."""
    a, step = 0.7, mp.mpf(10) ** -20
    x = place / b

    def gamma(da, db):
        return mp.gammainc(a + da, 0, mp.mpf(b) * (1 + db) * mp.mpf(x), regularized=True)

    with mp.workdps(60):
        by_a = (gamma(step, 0) - gamma(-step, 0)) / (2 * step)
        by_b = (gamma(0, step) - gamma(0, -step)) / (2 * step)
        rises = [gamma(da, step) - gamma(da, -step) for da in (step, -step)]
        both = (rises[0] - rises[1]) / (4 * step**2)
    slope = grad(special.betainc, (0, 1))(a, b, x)
    np.testing.assert_allclose([slope[0], b * slope[1]], [float(by_a), float(by_b)], rtol=1e-9)
    mixed = grad(lambda a: grad(special.betainc, 1)(a, b, x))(a)
    np.testing.assert_allclose(b * mixed, float(both), rtol=1e-8)


@pytest.mark.dear
def test_values_are_shares_whatever_the_numbers():
    sizes = np.array([5e-324, 1e-300, 1e-20, 0.3, 1.0, 20.0, 1e9, 1e100, 1e200, 1.7e308])
    x = np.array([5e-324, 1e-300, 1e-20, 0.3, 1 - 2**-53])
    a, b, x = (each.ravel() for each in np.meshgrid(sizes, sizes, x))
    for name, numbers in (("betainc", (a, b, x)), ("betaincc", (a, b, x)), ("gammainc", (a, b)),
                          ("gammaincc", (a, b))):  # fmt: skip
        found = compiled(getattr(special, name), *numbers)
        assert ((found >= 0) & (found <= 1)).all()


def test_beta_of_integers_is_a_binomial_sum():
    """The number of successes among 40: exact in rational numbers."""
    x, n = 0.375, 40
    with mp.workdps(50):
        share = mp.mpf(x)
        tails = [
            mp.fsum(mp.binomial(n, j) * share**j * (1 - share) ** (n - j) for j in range(k, n + 1))
            for k in range(1, n + 1)
        ]
        k = np.arange(1.0, n + 1)
        assert max(ulps(compiled(special.betainc, k, n + 1 - k, np.full(n, x)), tails)) < 30


@pytest.mark.parametrize("name", ["betainc", "betaincc"])
@pytest.mark.parametrize("shapes", [((), (), ()), ((3, 1), (5,), ()), ((2, 0), (1,), (1,))])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_beta_broadcasts(name, shapes, dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.2, 30, shape).astype(dtype) for shape in shapes[:2])
    x = rng.uniform(0.1, 0.9, shapes[2]).astype(dtype)
    found = compiled(getattr(special, name), a, b, x)
    expected = getattr(scipy.special, name)(*(each.astype(np.float64) for each in (a, b, x)))
    assert found.dtype == dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == np.float64 else 1e-6)


def test_beta_has_its_slope():
    rng = np.random.default_rng(0)
    a, b, x = rng.uniform(0.5, 20, 300), rng.uniform(0.5, 20, 300), rng.uniform(0.05, 0.95, 300)
    slopes = compiled(vmap(grad(lambda x, a, b: special.betainc(a, b, x))), x, a, b)
    log_density = (a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - scipy.special.betaln(a, b)
    np.testing.assert_allclose(slopes, np.exp(log_density), rtol=1e-11)


# -- inverses --------------------------------------------------------------------------------------


def shares(count, seed=0):
    rng = np.random.default_rng(seed)
    small = 10 ** rng.uniform(-280, 0, count)
    return 10 ** rng.uniform(-2, 7, count), np.where(
        rng.random(count) < 0.5, rng.uniform(0, 1, count), small
    )


@pytest.mark.dear
@pytest.mark.parametrize(
    ("inverse", "function"), [("gammaincinv", "gammainc"), ("gammainccinv", "gammaincc")]
)
def test_an_inverse_of_gamma_gives_its_argument_back(inverse, function):
    a, p = shares(400)
    x = compiled(getattr(special, inverse), a, p)
    back = compiled(getattr(special, function), a, x)
    known = x > 1e-290
    with np.errstate(all="ignore"):
        # how far off the argument is, in proportion to it
        slope = np.exp(a * np.log(x) - x - scipy.special.gammaln(a))
        error = np.abs(back - p) / slope
    assert known.sum() > 200
    # where a is small a unit of the last place of p is as many of x as a goes into one
    assert (error[known] < (4 + 2 / a[known]) * 4 * EPS).all()
    ordinary = known & (a < 1000) & (p > 1e-10)
    expected = getattr(scipy.special, inverse)(a, p)
    np.testing.assert_allclose(x[ordinary], expected[ordinary], rtol=1e-10)


@pytest.mark.dear
def test_inverses_of_gamma_of_tiny_shares():
    a = np.array([0.3, 0.5, 1.0, 1.56, 5.0, 39.0, 1e3])
    q = np.array([5e-324, 1e-310, 1e-300, 1e-200, 1e-30])[:, None]
    found = compiled(special.gammainccinv, a, q)
    np.testing.assert_allclose(found[2:], scipy.special.gammainccinv(a, q[2:]), rtol=1e-12)
    np.testing.assert_allclose(found[:2], scipy.special.gammainccinv(a, q[:2]), rtol=1e-2)


@pytest.mark.dear
@pytest.mark.parametrize("name", ["gammaincinv", "gammainccinv"])
def test_inverses_of_gamma_at_the_ends(name):
    orders = [1e-300, 1e-10, 0.01, 1.0, 5.0, 1e15, 1e300, np.inf, np.nan, -1.0]
    values = [0.0, 0.5, 1 - 2**-53, 1.0, np.nan]
    a, p = (each.ravel() for each in np.meshgrid(orders, values))
    found = compiled(getattr(special, name), a, p)
    np.testing.assert_allclose(found, getattr(scipy.special, name)(a, p), rtol=1e-8)
    outside = compiled(
        getattr(special, name), np.array([2.0, 2.0, 0.0]), np.array([-0.1, 1.1, 0.5])
    )
    np.testing.assert_array_equal(outside, [np.nan] * 3)


@pytest.mark.dear
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_inverse_of_gamma_broadcasts_and_has_its_slope(dtype):
    a, p = np.array([[0.5], [3.0]], dtype), np.array([0.1, 0.5, 0.99], dtype)
    found = compiled(special.gammaincinv, a, p)
    expected = scipy.special.gammaincinv(a, p)
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == np.float64 else 2e-6)
    slope = compiled(grad(lambda p: special.gammaincinv(2.0, p)), 0.3)
    h = 1e-5
    difference = scipy.special.gammaincinv(2, 0.3 + h) - scipy.special.gammaincinv(2, 0.3 - h)
    np.testing.assert_allclose(slope, difference / (2 * h), rtol=1e-8)


@pytest.mark.parametrize(
    ("inverse", "function"), [("betaincinv", "betainc"), ("betainccinv", "betaincc")]
)
def test_an_inverse_of_beta_gives_its_argument_back(inverse, function):
    rng = np.random.default_rng(0)
    a, p = shares(400)
    b = 10 ** rng.uniform(-2, 6, 400)
    x = compiled(getattr(special, inverse), a, b, p)
    back = compiled(getattr(special, function), a, b, x)
    with np.errstate(all="ignore"):
        slope = np.exp(a * np.log(x) + (b - 1) * np.log1p(-x) - scipy.special.betaln(a, b))
        error = np.abs(back - p) / slope
        # one unit of the last place of x is much where x is near 1
        resolved = x * EPS / (1 - x)
    known = (x > 1e-290) & (x < 1 - 1e-9) & np.isfinite(error)
    assert known.sum() > 200
    assert (error <= (1 + 1 / a + 1 / b) * 60 * EPS + resolved)[known].all()
    ordinary = known & (a < 300) & (b < 300) & (p > 1e-10)
    expected = getattr(scipy.special, inverse)(a, b, p)
    np.testing.assert_allclose(x[ordinary], expected[ordinary], rtol=1e-9)


@pytest.mark.dear
@pytest.mark.parametrize("name", ["betaincinv", "betainccinv"])
def test_inverses_of_beta_at_the_ends(name):
    sizes = [0.0, 0.5, 1.0, 30.0, 1e5, np.nan, -1.0]
    a, b, p = (each.ravel() for each in np.meshgrid(sizes, sizes, [0.5, 1e-5, -0.1, 1.1, np.nan]))
    expected = getattr(scipy.special, name)(a, b, p)
    found = compiled(getattr(special, name), a, b, p)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    ones, far = np.ones(2), np.array([np.inf, 1.0])
    at_one_end = compiled(getattr(special, name), far, far[::-1].copy(), ones / 2)
    np.testing.assert_array_equal(at_one_end, [1.0, 0.0])
    tiny = compiled(getattr(special, name), ones * 1e-10, ones, ones / 2)
    np.testing.assert_array_equal(tiny, [0.0, 0.0])
    end = compiled(getattr(special, name), ones, ones, np.array([0.0, 1.0]))
    np.testing.assert_array_equal(end, [0.0, 1.0] if name == "betaincinv" else [1.0, 0.0])


def test_the_inverse_of_beta_is_students_quantile():
    """Of ten degrees of freedom, from tables: 1.8125, 2.2281, 3.1693."""

    def quantile(p):
        y = special.betaincinv(5.0, 0.5, 2 * (1 - p))
        return np.sqrt(10 * (1 - y) / y)

    found = compiled(quantile, np.array([0.95, 0.975, 0.995]))
    np.testing.assert_allclose(found, [1.8125, 2.2281, 3.1693], atol=5e-5)
    np.testing.assert_allclose(found, scipy.special.stdtrit(10, [0.95, 0.975, 0.995]), rtol=1e-12)


@pytest.mark.parametrize("transform", [lambda f: f, jit])
def test_students_slope_in_its_degrees_of_freedom_far_away(transform):
    """There, the share is ``df**(df / 2 - 1) / beta(1/2, df/2) * abs(t)**-df``."""
    df, t = 2.5, -1e100
    psi = scipy.special.digamma
    relative = (
        0.5 * np.log(df) + 0.5 - 1 / df + 0.5 * (psi((df + 1) / 2) - psi(df / 2)) - np.log(-t)
    )
    found = transform(grad(special.stdtr))(df, t)
    assert found == pytest.approx(scipy.special.stdtr(df, t) * relative, rel=1e-10)
