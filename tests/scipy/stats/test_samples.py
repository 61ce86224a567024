"""Statistics of samples in typical programs: in a trace, against SciPy outside."""

import warnings

import numpy as np
import pytest
from scipy import stats

from functrans import errors, grad, jacfwd, jacrev, jit, testing, tree, vmap
from functrans.scipy.define import since_1_18

_rng = np.random.default_rng(6)
X, Y = _rng.normal(size=9), _rng.normal(size=9)
M, N = _rng.normal(size=(6, 2)), _rng.normal(size=(7, 2))
P = _rng.uniform(0.5, 1.5, size=5)
TIES = np.array([2.0, 1.0, 2.0, 3.0, 1.0, 2.0])

KERNELS = stats.gaussian_kde(X)
SMOOTH = {
    "pearsonr": (lambda x: tuple(stats.pearsonr(x, Y)), X),
    "tvar": (lambda x: stats.tvar(x, (-1, 1)), M), "tstd": (lambda x: stats.tstd(x, axis=1), M),
    "tsem": (lambda x: stats.tsem(x, (None, 0.5), (True, False), ddof=0), M),
    "one-sided": (lambda x: tuple(stats.pearsonr(x, Y, alternative="less")), X),
    "columns": (lambda x: tuple(stats.pearsonr(x, N[:6] + M, axis=0)), M),
    "two points": (lambda x: tuple(stats.pearsonr(x, Y[:2])), X[:2]),
    "pointbiserialr": (lambda x: tuple(stats.pointbiserialr(Y > 0, x)), X),
    "linregress": (lambda x: tuple(stats.linregress(x, Y))[:5], X),
    "intercept": (lambda x: stats.linregress(Y, x).intercept_stderr, X),
    "ttest_1samp": (lambda x: tuple(stats.ttest_1samp(x, 0.1)), X),
    "greater": (lambda x: tuple(stats.ttest_1samp(x, 0.1, alternative="greater")), M),
    "ttest_rel": (lambda x: tuple(stats.ttest_rel(x, Y)), X),
    "ttest_ind": (lambda x: tuple(stats.ttest_ind(x, N)), M),
    "welch": (lambda x: tuple(stats.ttest_ind(x, N, equal_var=False)), M),
    "df": (lambda x: stats.ttest_ind(x, N, equal_var=False).df, M),
    "f_oneway": (lambda x: tuple(stats.f_oneway(x, N, M + 1)), M),
    "chisquare": (lambda x: tuple(stats.chisquare(x)), P),
    "expected": (
        lambda x: tuple(stats.chisquare(x, P[::-1] + np.ones((2, 1)), 1, 1, sum_check=False)), P
    ),
    "of all": (lambda x: tuple(stats.chisquare(x, axis=None)), M**2),
    "gmean of weights": (lambda w: stats.gmean(M[:5, 0] ** 2, weights=w), P),
    "hmean of weights": (lambda w: stats.hmean(M[:5, 0] ** 2, weights=w), P),
    "pmean of weights": (lambda w: stats.pmean(M[:5, 0] ** 2, -2, weights=w), P),
    "jarque_bera": (lambda x: tuple(stats.jarque_bera(x)), X),
    "describe": (lambda x: tuple(stats.describe(x, bias=False))[2:], M),
    "minmax": (lambda x: stats.describe(x).minmax, M),
    "iqr": (lambda x: stats.iqr(x, rng=(20, 70), scale="normal"), X),
    "iqr of rows": (lambda x: stats.iqr(x, axis=1, keepdims=True), M),
    "deviation": (lambda x: stats.median_abs_deviation(x, scale="normal"), M),
    "trim_mean": (lambda x: stats.trim_mean(x, 0.2), M),
    "boxcox_llf": (lambda x: stats.boxcox_llf(0.3, x), P),
    "boxcox_llf of 0": (lambda x: stats.boxcox_llf(0.0, x), P),
    "circmean": (lambda x: stats.circmean(x, high=3.0, low=-1.0), X),
    "circvar": (lambda x: stats.circvar(x, axis=0), M),
    "circstd": (lambda x: stats.circstd(x, high=3.0), X),
    "wasserstein": (lambda x: stats.wasserstein_distance(x, Y[:5]), X),
    "weighted": (lambda x: stats.wasserstein_distance(x, Y[:4], P, P[:4]), X[:5]),
    "weights": (lambda w: stats.energy_distance(X[:5], Y[:4], w, P[:4]), P),
    "energy": (lambda x: stats.energy_distance(x, Y[:5]), X),
    "density": (lambda x: stats.gaussian_kde(x)([0.3, 0.4]), X),
    "silverman": (lambda x: stats.gaussian_kde(x.T, "silverman", np.r_[P, 1]).logpdf(N.T), M),
    "weights of a density": (lambda w: stats.gaussian_kde(X[:5], 0.3, w).pdf([0.3]), P),
    "probability": (lambda x: stats.gaussian_kde(x).integrate_box_1d(-0.1, 0.4), X),
    "places": (lambda t: KERNELS(t) + KERNELS.logpdf(t), P),
}  # fmt: skip
RANKED = {
    **{
        f"rankdata {method}": (lambda x, m=method: stats.rankdata(x, m), TIES)
        for method in ("average", "min", "max", "dense", "ordinal")
    },
    "rankdata of rows": (lambda x: stats.rankdata(x, axis=1), M),
    "chatterjeexi": (lambda x: tuple(stats.chatterjeexi(x, Y))[:2], X),
    "kendalltau": (lambda x: tuple(stats.kendalltau(x, Y)), X),
    "spearmanr": (lambda x: tuple(stats.spearmanr(x, Y)), X),
    "weightedtau": (lambda x: stats.weightedtau(x, Y)[0], X),
    "mannwhitneyu": (lambda x: tuple(stats.mannwhitneyu(x, Y)), X),
    "wilcoxon": (lambda x: tuple(stats.wilcoxon(x, Y)), X),
    "kruskal": (lambda x: tuple(stats.kruskal(x, Y)), X),
    "ks_2samp": (lambda x: tuple(stats.ks_2samp(x, Y))[:2], X),
}


def leaves(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", SMOOTH | RANKED)
def test_values(name):
    function, x = (SMOOTH | RANKED)[name]
    lanes = np.stack([x, 0.5 * x + 0.1])
    for i, lane in enumerate(lanes):
        expected, found = leaves(function(lane)), leaves(vmap(function)(lanes))
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == np.asarray(b).dtype
            np.testing.assert_allclose(a[i], b, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    function, x = SMOOTH[name]
    testing.check_grads(function, (x,), order=1, max_elements=3, rtol=1e-4)


def test_second_derivatives():
    for name in ("linregress", "density", "welch"):
        function, x = SMOOTH[name]
        testing.check_grads(function, (x,), order=2, max_elements=1, rtol=1e-4)


@pytest.mark.parametrize("name", ["tstd", "tsem", "circstd"])
def test_deviations_of_equal_elements_have_derivative_0(name):
    x = np.ones(3)
    np.testing.assert_allclose(grad(getattr(stats, name))(x), np.zeros(3), atol=1e-7)
    if name == "circstd":
        assert grad(stats.circstd)(x[:1]) == 0.0


def test_ranks_have_no_derivative():
    assert not np.any(grad(lambda x: stats.spearmanr(x, Y).statistic + stats.rankdata(x)[0])(X))


def test_when_compiled():
    function, x = SMOOTH["linregress"]
    np.testing.assert_allclose(jit(function)(x), function(x), rtol=1e-9)


def test_results_have_names():
    def named(x):
        found = stats.pearsonr(x, Y)
        return found.statistic - found.correlation + stats.ttest_rel(x, Y).df * x[0]

    np.testing.assert_allclose(grad(named)(X)[0], 8.0)


MEANS = {"gmean": (), "hmean": (), "pmean": (2.5,), "pmean of 0": (0,), "pmean of -2": (-2,)}
ELEMENTS = {
    "floats": M**2 + 0.5,
    "single": (M**2).astype(np.float32),
    "half": (M**2).astype(np.float16),
    "integers": (9 * abs(M)).astype(np.int8),
    "negative": M,
}


@pytest.mark.parametrize("dtype", [None, np.float32, np.float16, np.int8])
@pytest.mark.parametrize("of", ELEMENTS)
@pytest.mark.parametrize("name", MEANS)
def test_dtypes_of_means(name, of, dtype):
    mean = getattr(stats, name.split()[0])
    for weights in (None, N[:6] ** 2, (9 * abs(N[:6])).astype(int)):

        def function(x, weights=weights):
            return mean(x, *MEANS[name], dtype=dtype, weights=weights)

        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The .* mean is only defined", RuntimeWarning)
            expected, found = function(ELEMENTS[of]), vmap(function)(ELEMENTS[of][None])[0]
        assert found.dtype == expected.dtype
        rtol = 4 * float(np.finfo(expected.dtype).eps)
        np.testing.assert_allclose(found, expected, rtol=rtol)


def test_sums_of_frequencies_that_are_known():
    counts, others = np.array([[1.0, 3.0], [4.0, 2.0]]), np.array([2.0, 2.0])

    def of(x, **options):
        return stats.chisquare(x, others, axis=1, **options).statistic

    with pytest.raises(ValueError, match="must agree") as ours:
        grad(lambda x: of(x)[0])(counts)
    with pytest.raises(ValueError, match="must agree") as scipys:
        of(counts)
    assert str(ours.value).startswith(str(scipys.value).partition("but the percent")[0])
    expected = of(counts, sum_check=False)
    np.testing.assert_allclose(jit(of)(counts), expected)
    np.testing.assert_allclose(vmap(of)(counts[None])[0], expected)
    assert np.isfinite(grad(lambda x: of(x[:1])[0])(counts)).all()


MET_BY_NAN = {
    "gmean": lambda x: stats.gmean(abs(x)), "hmean": lambda x: stats.hmean(abs(x)),
    "pmean": lambda x: stats.pmean(abs(x), 3), "gstd": lambda x: stats.gstd(abs(x)),
    "entropy": lambda x: stats.entropy(abs(x)),
    "boxcox_llf": lambda x: stats.boxcox_llf(0.3, abs(x)),
    "chisquare": lambda x: tuple(stats.chisquare(abs(x))),
    **{name: (SMOOTH | RANKED)[name][0] for name in (
        "pearsonr", "linregress", "ttest_1samp", "ttest_rel", "jarque_bera", "iqr", "deviation",
        "trim_mean", "circmean", "circvar", "circstd", "rankdata average", "spearmanr",
        "wasserstein", "energy", "chatterjeexi",
    )},
    "tvar": stats.tvar, "tstd": stats.tstd, "tsem": lambda x: stats.tsem(x, (-1, 1)),
    "describe": lambda x: (stats.describe(x).minmax, *stats.describe(x)[2:]),
    "f_oneway": lambda x: tuple(stats.f_oneway(x, Y)),
    "ttest_ind": lambda x: tuple(stats.ttest_ind(x, Y)), "zscore": stats.zscore,
    "zmap": lambda x: stats.zmap(x, Y), "zmap of it": lambda x: stats.zmap(Y, x),
    "moment": lambda x: stats.moment(x, 2), "variation": stats.variation, "sem": stats.sem,
    "skew": stats.skew, "kurtosis": stats.kurtosis,
}  # fmt: skip


@pytest.mark.parametrize("name", MET_BY_NAN)
def test_nan_is_propagated(name):
    function = MET_BY_NAN[name]
    lanes = np.stack([X, X + 0.25])
    lanes[0, 3] = np.nan
    found = tree.leaves(vmap(function)(lanes))
    for i, lane in enumerate(lanes):
        for a, b in zip(found, tree.leaves(function(lane)), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-9)


def test_samples_without_degrees_of_freedom():
    x, y = np.array([1.0, 2.0, 4.0]), np.array([0.5])

    def of(x, y):
        by_ddof = stats.zscore, stats.gzscore, stats.gstd
        return (
            *(f(x, ddof=ddof) for f in by_ddof for ddof in (2, 3)),
            stats.zmap(x, y, ddof=1), *stats.ttest_ind(x, y)[:], *stats.ttest_ind(y, x[:1])[:],
        )  # fmt: skip

    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        for found, expected in zip(jit(of)(x, y), of(x, y), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e180, 1e-180, 0.0])
def test_a_correlation_has_no_scale(scale):
    """Squares overflow and underflow; equal numbers have none, although their mean is rounded."""
    x = X * scale if scale else np.full(9, 0.1)
    found = jit(lambda x: tuple(stats.pearsonr(x, Y)))(x)
    np.testing.assert_allclose(found, tuple(stats.pearsonr(x, Y)), rtol=1e-12)


@pytest.mark.parametrize("method", ["min", "max", "dense", "ordinal", "average"])
def test_ranks_beside_nan(method):
    table = np.array([[3.0, np.nan, 1.0], [1.0, 2.0, 2.0]])
    ranks = grad(lambda x: (np.sum(x), stats.rankdata(x, method, axis=1)), has_aux=True)(table)[1]
    expected = stats.rankdata(table, method, axis=1)
    np.testing.assert_array_equal(ranks, expected)
    assert ranks.dtype == expected.dtype


REFUSED = {
    r"ranksums along an axis is not .*: use vmap": lambda x: stats.ranksums(x, 2 * x)[0],
    r"theilslopes along an axis is not .*: use vmap": lambda x: stats.theilslopes(x, axis=0)[0],
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(words):
    with pytest.raises(errors.UnsupportedNumPyError, match=words):
        vmap(REFUSED[words])(M[None])


@pytest.mark.parametrize("weights", [[1.0, np.inf, 1.0], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("name", ["wasserstein_distance", "energy_distance"])
def test_known_weights_without_a_finite_sum(name, weights):
    with pytest.raises(ValueError, match="sum must be positive and finite"):
        jit(lambda u: getattr(stats, name)(u, [1.0, 1.0], weights))(X[:3])


def test_a_trimmed_sample():
    """SciPy before 1.18 trims arrays of NumPy only."""

    def statistic(x):
        return stats.ttest_ind(x, 2 * x + 0.3, trim=0.1).statistic

    if since_1_18():
        np.testing.assert_allclose(vmap(statistic)(M[None])[0], statistic(M), rtol=1e-12)
    else:
        words = "ttest_ind of traced values at test_samples.*: Use of `trim` is compatible only"
        with pytest.raises(errors.UnsupportedNumPyError, match=words):
            vmap(statistic)(M[None])


def test_a_weight_of_a_kernel_that_is_0():
    def density(w):
        return stats.gaussian_kde(X[:4], 0.5, weights=w)(X[5:7])

    w = np.array([0.0, 0.3, 0.5, 0.2])
    larger, smaller = (density(w + step * np.eye(4)[0]) for step in (1e-6, 0.0))
    slopes = jacfwd(density)(w)
    np.testing.assert_allclose(slopes[:, 0], (larger - smaller) / 1e-6, rtol=1e-4)
    assert np.isfinite(jacrev(density)(w)).all()


def test_kernels_of_single_precision():
    x, w = X.astype("f"), np.abs(Y).astype("f")
    found = vmap(lambda x, w: stats.gaussian_kde(x, weights=w)(x[:2]))(x[None], w[None])[0]
    expected = stats.gaussian_kde(x, weights=w)(x[:2])
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["kruskal", "mannwhitneyu", "chatterjeexi", "iqr", "linregress"])
def test_dtypes_of_single_precision(name):
    def call(x, y):
        return stats.iqr(x) if name == "iqr" else getattr(stats, name)(x, y)[0]

    x, y = X.astype("f"), Y.astype("f")
    assert vmap(call)(x[None], y[None]).dtype == call(x, y).dtype


@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((3, 0), 1)])
def test_ranks_of_nothing(shape, axis):
    x = np.zeros(shape)
    found = vmap(lambda x: stats.rankdata(x, axis=axis))(x[None])[0]
    np.testing.assert_array_equal(found, stats.rankdata(x, axis=axis))
