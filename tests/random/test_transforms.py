"""Random numbers inside of transforms: mapped over keys, compiled, in loops, differentiated."""

import numpy as np
import pytest
from scipy import special, stats

from functrans import grad, jit, jvp, lax, random, vmap
from functrans.random.gamma_family import log_gamma_slope
from functrans.testing import check_grads

KEY = random.key(3)
KEYS = random.split(KEY, 5)

DRAWS = {
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 7),
    "bits": lambda k: random.bits(k, (3,)),
    "uniform": lambda k: random.uniform(k, (17,), np.float32, -1.0, 2.0),
    "normal": lambda k: random.normal(k, (17,)),
    "randint": lambda k: random.randint(k, (3,), 0, 9),
    "permutation": lambda k: random.permutation(k, 7),
    "choice": lambda k: random.choice(k, 5, (3,), p=np.ones(5) / 5),
    "categorical": lambda k: random.categorical(k, np.zeros((2, 3))),
    "gamma": lambda k: random.gamma(k, 0.7, (3,)),
    "poisson": lambda k: random.poisson(k, np.array([3.0, 30.0])),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 1.0, (3,)),
}


@pytest.mark.full
@pytest.mark.parametrize("name", DRAWS)
def test_mapped_and_compiled(name):
    draw = DRAWS[name]
    one_by_one = np.stack([draw(key) for key in KEYS])
    np.testing.assert_array_equal(vmap(draw)(KEYS), one_by_one)
    np.testing.assert_array_equal(jit(vmap(draw))(KEYS), one_by_one)
    # known bounds of a truncated distribution are transformed by NumPy, which rounds otherwise
    last_digits = 1e-15 if name == "truncated_normal" else 0
    np.testing.assert_allclose(jit(draw)(KEYS[0]), one_by_one[0], rtol=last_digits)


def test_the_numbers_do_not_depend_on_how_they_are_used():
    draws = random.normal(KEY, (300,))
    compiled = jit(lambda key, x: random.normal(key, (300,)) + x)
    np.testing.assert_array_equal(compiled(KEY, 1.0), draws + 1.0)


def test_in_loops():
    keys, numbers = KEY, []
    for _ in range(4):
        numbers.append(random.normal(keys))
        keys, _ = random.split(keys)
    _, scanned = lax.scan(lambda k, _: (random.split(k)[0], random.normal(k)), KEY, length=4)
    np.testing.assert_array_equal(scanned, numbers)
    total = jit(
        lambda k: lax.fori_loop(0, 5, lambda i, s: s + random.normal(random.fold_in(k, i)), 0.0)
    )
    assert total(KEY) == sum(random.normal(random.fold_in(KEY, i)) for i in range(5))


def test_seeds_may_be_traced():
    seeds = np.array([0, 1, -1])
    np.testing.assert_array_equal(vmap(random.key)(seeds), [random.key(int(s)) for s in seeds])
    np.testing.assert_array_equal(jit(random.key)(7), random.key(7))


# -- derivatives -----------------------------------------------------------------------------------

PARAMETERS = {
    "uniform": (lambda a, b: random.uniform(KEY, (3,), minval=a, maxval=b), (1.0, 3.0)),
    "lognormal": (lambda s: random.lognormal(KEY, s, (3,)), (0.7,)),
    "pareto": (lambda b: random.pareto(KEY, b, (3,)), (2.5,)),
    "rayleigh": (lambda s: random.rayleigh(KEY, s, (3,)), (2.0,)),
    "weibull_min": (lambda s, c: random.weibull_min(KEY, s, c, (3,)), (2.0, 1.5)),
    "triangular": (lambda a, b, c: random.triangular(KEY, a, b, c, (3,)), (0.0, 1.0, 4.0)),
    "double_sided_maxwell": (
        lambda m, s: random.double_sided_maxwell(KEY, m, s, (3,)), (1.0, 2.0)),
    "truncated_normal": (lambda a, b: random.truncated_normal(KEY, a, b, (3,)), (-1.0, 0.5)),
    "truncated_normal far out": (
        lambda a, b: random.truncated_normal(KEY, a, b, (3,)), (6.0, 7.0)),
    "multivariate_normal": (
        lambda m, c: random.multivariate_normal(KEY, m, c + c.T, (3,)),
        (np.array([1.0, 2.0]), np.array([[1.0, 0.2], [0.3, 0.5]]))),
}  # fmt: skip


OFTEN = ("uniform", "triangular", "truncated_normal far out")
"""The others, which compile as much, are for long runs."""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name",
    [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in PARAMETERS],
)
def test_derivatives_with_respect_to_parameters(name):
    draw, parameters = PARAMETERS[name]
    check_grads(draw, parameters, order=2)


@pytest.mark.full
@pytest.mark.parametrize("a", [0.05, 0.4, 1.0, 2.5, 40.0, 3000.0])
def test_a_sample_moves_as_its_quantile(a):
    def draw(a):
        return random.gamma(KEY, a)

    x, step = draw(a), 1e-4 * a
    level = special.gammainc(a, x)
    low, high = (special.gammaincinv(b, level) for b in (a - step, a + step))
    assert grad(draw)(a) == pytest.approx((high - low) / (2 * step), rel=2e-6)
    second = grad(grad(draw))(a)
    expected = (high - 2 * x + low) / step**2
    assert second == pytest.approx(expected, rel=1e-3, abs=1e-6 * x / a**2 + 1e-7)


@pytest.mark.full
@pytest.mark.parametrize("mean", [0.05, 0.4, 2.0, 300.0])
def test_an_inverse_gaussian_sample_moves_as_its_quantile(mean):
    def draw(mean):
        return random.wald(KEY, mean, (5,))

    def slope(mean):
        return jvp(draw, (mean,), (1.0,))[1]

    x, step = draw(mean), 1e-4 * mean
    level = stats.invgauss.cdf(x, mean)
    low, high = (stats.invgauss.ppf(level, m) for m in (mean - step, mean + step))
    first, second = jit(lambda mean: jvp(slope, (mean,), (1.0,)))(mean)
    np.testing.assert_allclose(first, (high - low) / (2 * step), rtol=2e-6)
    expected = (high - 2 * x + low) / step**2
    np.testing.assert_allclose(second, expected, rtol=1e-3, atol=1e-4 / mean)


@pytest.mark.full
def test_the_slope_of_gamma_variables():
    """By the distribution function's derivative, which mpmath computes to 40 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):

        def exact(a, log_x):
            a, log_x = mpmath.mpf(a), mpmath.mpf(log_x)
            x = mpmath.exp(log_x)
            step = a * mpmath.mpf(10) ** -13

            def tail(b):
                return mpmath.gammainc(b, x, mpmath.inf, regularized=True)

            change = (tail(a + step) - tail(a - step)) / (2 * step)
            return float(change / mpmath.exp(a * log_x - x - mpmath.loggamma(a)))

        points = [
            (1e-3, -5000.0), (1e-3, -200.0), (0.05, -1.0), (0.05, 0.7), (0.9, -1e-9), (0.9, 1e-9),
            (1.0, 0.5), (2.0, -0.1), (2.0, 0.09), (2.0, 3.0), (17.0, 2.0), (17.0, 2.8),
            (17.0, 3.5), (300.0, 5.5), (300.0, 5.7), (300.0, 5.9),
        ]  # fmt: skip
        expected = np.array([exact(a, log_x) for a, log_x in points])
    a, log_x = np.array(points).T
    np.testing.assert_allclose(jit(log_gamma_slope)(a, log_x), expected, rtol=1e-12)
    single = jit(log_gamma_slope)(a.astype(np.float32), log_x.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=2e-5)


@pytest.mark.slow
def test_beta_and_dirichlet_move_as_their_quantiles():
    a, b = 2.0, 3.0

    def mean_power(a, draw):
        return np.mean(draw(a) ** 2)

    count = 2600
    # E[x**2] = a (a + 1) / ((a + b) (a + b + 1)), whose derivative the samples' estimates
    total = a + b
    expected = (
        (a + 1) * a / (total * (total + 1)) * (1 / a + 1 / (a + 1) - 1 / total - 1 / (total + 1))
    )
    found = grad(lambda a: mean_power(a, lambda a: random.beta(KEY, a, b, (count,))))(a)
    assert found == pytest.approx(expected, rel=0.03)
    found = grad(
        lambda w: np.mean(random.dirichlet(KEY, w, (count,))[:, 0] ** 2)
    )(np.array([a, 1.0, 2.0]))  # fmt: skip
    assert found[0] == pytest.approx(expected, rel=0.03)


@pytest.mark.full
def test_derivatives_under_vmap():
    slopes = vmap(grad(random.gamma, argnums=1), in_axes=(0, None))(KEYS, 2.0)
    np.testing.assert_array_equal(slopes, [grad(random.gamma, argnums=1)(k, 2.0) for k in KEYS])


def test_samples_without_a_derivative():
    value, tangent = jvp(lambda p: random.bernoulli(KEY, p, (3,)) * 1.0, (0.5,), (1.0,))
    np.testing.assert_array_equal(tangent, 0)
    assert value.shape == (3,)


@pytest.mark.full
def test_samples_that_underflow_have_no_slope():
    assert random.gamma(KEY, 1e-5) == 0
    assert grad(lambda a: random.gamma(KEY, a))(1e-5) == 0
    assert np.isfinite(grad(lambda a: random.loggamma(KEY, a))(1e-5))


@pytest.mark.dear
@pytest.mark.parametrize(("bound", "tolerance"), [(-1e3, 1e-10), (-1e6, 1e-11)])
def test_a_bound_far_out_moves_the_numbers_with_it(bound, tolerance):
    """Below ``b`` they are ``b`` less an exponential number by ``-b``: the slope is about 1."""

    def mean(bound):
        return np.mean(random.truncated_normal(KEY, -np.inf, bound, (50,)))

    step = np.asarray(mean(bound)) - bound
    assert grad(mean)(bound) == pytest.approx(1 - step / bound, abs=tolerance)
