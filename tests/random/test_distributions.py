"""Samples against SciPy's distributions; with fixed keys, so that no test fails by chance."""

import inspect
import re

import numpy as np
import pytest
from scipy import stats

from functrans import random

KEY = random.key(2024)
COUNT = 2600

CONTINUOUS = {
    "uniform": (lambda **o: random.uniform(KEY, (COUNT,), minval=-1.0, maxval=3.0, **o),
                stats.uniform(-1, 4)),
    "normal": (lambda **o: random.normal(KEY, (COUNT,), **o), stats.norm()),
    "exponential": (lambda **o: random.exponential(KEY, (COUNT,), **o), stats.expon()),
    "gumbel": (lambda **o: random.gumbel(KEY, (COUNT,), **o), stats.gumbel_r()),
    "laplace": (lambda **o: random.laplace(KEY, (COUNT,), **o), stats.laplace()),
    "logistic": (lambda **o: random.logistic(KEY, (COUNT,), **o), stats.logistic()),
    "cauchy": (lambda **o: random.cauchy(KEY, (COUNT,), **o), stats.cauchy()),
    "maxwell": (lambda **o: random.maxwell(KEY, (COUNT,), **o), stats.maxwell()),
    "lognormal": (lambda **o: random.lognormal(KEY, 0.7, (COUNT,), **o), stats.lognorm(0.7)),
    "pareto": (lambda **o: random.pareto(KEY, 2.5, (COUNT,), **o), stats.pareto(2.5)),
    "rayleigh": (lambda **o: random.rayleigh(KEY, 2.0, (COUNT,), **o), stats.rayleigh(scale=2)),
    "weibull_min": (lambda **o: random.weibull_min(KEY, 2.0, 1.5, (COUNT,), **o),
                    stats.weibull_min(1.5, scale=2)),
    "triangular": (lambda **o: random.triangular(KEY, 0.0, 1.0, 4.0, (COUNT,), **o),
                   stats.triang(0.25, 0, 4)),
    "wald": (lambda **o: random.wald(KEY, 0.7, (COUNT,), **o), stats.invgauss(0.7)),
    "double_sided_maxwell": (
        lambda **o: np.abs(random.double_sided_maxwell(KEY, 0.0, 1.0, (COUNT,), **o)),
        stats.maxwell()),
    "gamma": (lambda **o: random.gamma(KEY, 2.3, (COUNT,), **o), stats.gamma(2.3)),
    "gamma below 1": (lambda **o: random.gamma(KEY, 0.3, (COUNT,), **o), stats.gamma(0.3)),
    "loggamma": (lambda **o: random.loggamma(KEY, 0.3, (COUNT,), **o), stats.loggamma(0.3)),
    "beta": (lambda **o: random.beta(KEY, 0.5, 2.0, (COUNT,), **o), stats.beta(0.5, 2)),
    "chisquare": (lambda **o: random.chisquare(KEY, 3.0, (COUNT,), **o), stats.chi2(3)),
    "f": (lambda **o: random.f(KEY, 3.0, 5.0, (COUNT,), **o), stats.f(3, 5)),
    "t": (lambda **o: random.t(KEY, 3.0, (COUNT,), **o), stats.t(3)),
    "generalized_normal": (lambda **o: random.generalized_normal(KEY, 1.5, (COUNT,), **o),
                           stats.gennorm(1.5)),
    "truncated_normal": (lambda **o: random.truncated_normal(KEY, -1.0, 0.5, (COUNT,), **o),
                         stats.truncnorm(-1, 0.5)),
    "truncated_normal to the right": (
        lambda **o: random.truncated_normal(KEY, 8.0, 9.0, (COUNT,), **o), stats.truncnorm(8, 9)),
    "truncated_normal to the left": (
        lambda **o: random.truncated_normal(KEY, -np.inf, -20.0, (COUNT,), **o),
        stats.truncnorm(-np.inf, -20)),
    "truncated_normal in part": (
        lambda **o: random.truncated_normal(KEY, -10.0, -2.5, (COUNT,), **o),
        stats.truncnorm(-10, -2.5)),
    "dirichlet": (
        lambda **o: random.dirichlet(KEY, np.array([0.5, 1.0, 1.0]), (COUNT,), **o)[:, 0],
        stats.beta(0.5, 2)),
    "orthogonal": (lambda **o: random.orthogonal(KEY, 4, (COUNT,), **o)[:, 1, 2] ** 2,
                   stats.beta(0.5, 1.5)),
    "ball": (lambda **o: np.sum(random.ball(KEY, 3, shape=(COUNT,), **o) ** 2, -1) ** 1.5,
             stats.uniform()),
    "multivariate_normal": (
        lambda **o: random.multivariate_normal(
            KEY, np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]]), (COUNT,), **o
        ) @ np.array([1.0, -1.0]),
        stats.norm(-1, np.sqrt(2))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name):
    draw, distribution = CONTINUOUS[name]
    x = draw()
    assert x.shape == (COUNT,)
    assert x.dtype == np.float64
    assert stats.kstest(x, distribution.cdf).pvalue > 0.01


@pytest.mark.parametrize("method", ["svd", "eigh"])
def test_normal_vectors_with_a_singular_covariance(method):
    mean, cov = np.array([1.0, 2.0]), np.array([[4.0, 2.0], [2.0, 1.0]])
    x = random.multivariate_normal(KEY, mean, cov, (COUNT,), method=method)
    np.testing.assert_allclose(x[:, 0] - 1, 2 * (x[:, 1] - 2), atol=1e-6)
    assert stats.kstest(x[:, 1], stats.norm(2, 1).cdf).pvalue > 0.01


def test_unknown_method():
    with pytest.raises(ValueError, match="is one of cholesky, svd, eigh, not 'qr'"):
        random.multivariate_normal(KEY, np.zeros(2), np.eye(2), method="qr")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["normal", "gamma", "t", "truncated_normal to the right"])
def test_distribution_in_float32(name):
    draw, distribution = CONTINUOUS[name]
    x = draw(dtype=np.float32)
    assert x.dtype == np.float32
    assert stats.kstest(x, distribution.cdf).pvalue > 0.01


WEIGHTS = np.array([0.2, 0.3, 0.5])
OF_WEIGHTS = stats.rv_discrete(values=(range(3), WEIGHTS))

DISCRETE = {
    "randint": (lambda: random.randint(KEY, (COUNT,), 3, 17), stats.randint(3, 17)),
    "bernoulli": (lambda: random.bernoulli(KEY, 0.3, (COUNT,)), stats.bernoulli(0.3)),
    "rademacher": (lambda: random.rademacher(KEY, (COUNT,)) > 0, stats.bernoulli(0.5)),
    "poisson, few": (lambda: random.poisson(KEY, 3.0, (COUNT,)), stats.poisson(3)),
    "poisson": (lambda: random.poisson(KEY, 50.0, (COUNT,)), stats.poisson(50)),
    "binomial, few": (lambda: random.binomial(KEY, 10, 0.3, (COUNT,)), stats.binom(10, 0.3)),
    "binomial": (lambda: random.binomial(KEY, 1000, 0.7, (COUNT,)), stats.binom(1000, 0.7)),
    "geometric": (lambda: random.geometric(KEY, 0.2, (COUNT,)), stats.geom(0.2)),
    "categorical": (lambda: random.categorical(KEY, np.log(WEIGHTS), shape=(COUNT,)), OF_WEIGHTS),
    "choice": (lambda: random.choice(KEY, 3, (COUNT,), p=WEIGHTS), OF_WEIGHTS),
    "multinomial": (
        lambda: random.multinomial(KEY, 20, WEIGHTS, (COUNT,))[:, 1], stats.binom(20, 0.3)),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_counts(name):
    draw, distribution = DISCRETE[name]
    values, counts = np.unique(np.asarray(draw()).astype(int), return_counts=True)
    expected = COUNT * distribution.pmf(values)
    often = expected > 5
    chi_squared = np.sum((counts - expected)[often] ** 2 / expected[often])
    assert stats.chi2(often.sum()).sf(chi_squared) > 0.01


# -- where probability leaves no choice ------------------------------------------------------------


@pytest.mark.full
def test_certain_counts():
    np.testing.assert_array_equal(random.binomial(KEY, 10, np.array([0.0, 1.0])), [0, 10])
    np.testing.assert_array_equal(random.poisson(KEY, np.zeros(3)), [0, 0, 0])
    assert random.geometric(KEY, 1.0) == 1
    assert random.bernoulli(KEY, np.array([0.0, 1.0])).tolist() == [False, True]
    assert set(random.choice(KEY, 3, (300,), p=np.array([0.0, 1.0, 0.0]))) == {1}
    np.testing.assert_array_equal(random.multinomial(KEY, 9, np.array([0.0, 1.0])), [0, 9])


@pytest.mark.full
def test_parameters_out_of_range():
    np.testing.assert_array_equal(
        random.binomial(KEY, 10, np.array([-0.1, 1.1, np.nan])), [np.nan] * 3
    )
    np.testing.assert_array_equal(random.binomial(KEY, -1, 0.5, dtype=np.int64), -1)
    np.testing.assert_array_equal(random.poisson(KEY, np.array([-1.0, np.nan])), [-1, -1])


@pytest.mark.full
def test_what_is_conserved():
    parts = random.dirichlet(KEY, np.array([1e-3, 0.5, 70.0]), (17,))
    np.testing.assert_allclose(parts.sum(-1), 1, rtol=1e-14)
    counts = random.multinomial(KEY, np.array([0, 9, 1000]), WEIGHTS)
    np.testing.assert_array_equal(counts.sum(-1), [0, 9, 1000])
    for n, m in ((3, 3), (2, 4), (4, 2)):
        q = random.orthogonal(KEY, n, (2,), m=m)
        assert q.shape == (2, n, m)
        product = q @ q.mT if n < m else q.mT @ q
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(min(n, m)), product.shape),
                                   atol=1e-14)  # fmt: skip
    assert sorted(random.permutation(KEY, 300)) == list(range(300))
    assert len(set(random.choice(KEY, 300, (200,), replace=False))) == 200
    rows = random.categorical(KEY, np.zeros((4, 3)), axis=0, shape=(4, 3), replace=False)
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.arange(4)[:, None] + np.zeros((4, 3)))


@pytest.mark.dear
def test_all_numbers_are_finite_where_small():
    assert np.isfinite(random.loggamma(KEY, np.full(300, 1e-4))).all()
    assert np.isfinite(random.gumbel(KEY, (2600,), np.float32)).all()
    x = random.truncated_normal(KEY, 30.0, 30.5, (300,))
    assert np.all((x >= 30) & (x <= 30.5))
    assert len(np.unique(x)) == 300


@pytest.mark.full
@pytest.mark.parametrize("shape", [(), (2, 0), (17,)])
def test_shapes(shape):
    for draw in (random.uniform, random.normal, random.bits, random.exponential, random.maxwell):
        assert np.shape(draw(KEY, shape)) == shape
    for draw in (random.gamma, random.poisson, random.lognormal):
        assert np.shape(draw(KEY, np.ones(shape))) == shape
        assert np.shape(draw(KEY, 1.0, (3, *shape))) == (3, *shape)
    assert random.split(KEY, shape).shape == (*shape, 2)
    assert random.ball(KEY, 4, shape=shape).shape == (*shape, 4)
    assert np.shape(random.categorical(KEY, np.zeros((*shape, 3)))) == shape
    assert random.dirichlet(KEY, np.ones((*shape, 3))).shape == (*shape, 3)


def test_keys_beyond_32_bits_of_counters():
    """The counter has 64 bits: what would come after 2**32 numbers, without drawing them."""
    first = random.fold_in(KEY, 0)
    np.testing.assert_array_equal(first, random.split(KEY, 1)[0])
    np.testing.assert_array_equal(random.fold_in(KEY, -1), random.fold_in(KEY, 2**32 - 1))


def test_arguments_by_name():
    by_place = random.beta(random.key(0), 2.0, 3.0, (2,), np.float32)
    by_name = random.beta(random.key(0), b=3.0, a=2.0, dtype=np.float32, shape=(2,))
    np.testing.assert_array_equal(by_name, by_place)
    with pytest.raises(TypeError, match=r"random\.beta: missing a required argument: 'b'"):
        random.beta(random.key(0), 2.0)


def test_common_parameters_are_in_each_docstring():
    for function in (random.beta, random.bits, random.normal, random.poisson, random.gumbel):
        names = list(inspect.signature(function).parameters)
        entries = re.findall(r"^([a-z, ]+) : ", function.__doc__, re.MULTILINE)
        assert ", ".join(entries) == ", ".join(names)
