"""Axis arguments of statistics: one, several, all, keepdims; and samples as keywords."""

import warnings

import numpy as np
import pytest
from scipy import stats

from functrans import errors, grad, jit, jvp, vmap
from functrans.scipy import stats as traced

_rng = np.random.default_rng(7)
A, B = _rng.normal(size=(2, 4, 5, 3))
P = _rng.uniform(1, 2, size=(4, 5, 3))

STATISTICS = {
    "boxcox_llf": (0.3, P), "chisquare": (P,), "circmean": (A,), "circstd": (A,), "circvar": (A,),
    "entropy": (P,), "f_oneway": (A, B, 2 * A), "gmean": (P,), "gstd": (P,), "hmean": (P,),
    "iqr": (A,), "jarque_bera": (A,), "kendalltau": (A, B), "kruskal": (A, B), "kurtosis": (A,),
    "linregress": (A, B), "mannwhitneyu": (A, B), "median_abs_deviation": (A,), "moment": (A, 2),
    "pointbiserialr": (B > 0, A), "power_divergence": (P,), "sem": (A,), "skew": (A,),
    "trim_mean": (A, 0.2), "ttest_1samp": (A, 0.1), "ttest_ind": (A, B), "ttest_rel": (A, B),
    "tsem": (A,), "tstd": (A, (-1, 1)), "tvar": (A, (-1, 1)), "chatterjeexi": (A, B),
    "variation": (A,), "wilcoxon": (A, B),
}  # fmt: skip


def parts(result):
    found = list(result) if isinstance(result, tuple) else [result]
    further = ("df", "intercept_stderr")
    return [*found, *(getattr(result, name) for name in further if hasattr(result, name))]


@pytest.mark.parametrize("axis", [1, -1, None, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", STATISTICS)
def test_axes(name, keepdims, axis):
    operands = STATISTICS[name]
    at = next(i for i, x in enumerate(operands) if isinstance(x, np.ndarray) and x.dtype != bool)

    def statistic(x, of=traced):
        given = [*operands[:at], x, *operands[at + 1 :]]
        return parts(getattr(of, name)(*given, axis=axis, keepdims=keepdims))

    expected = statistic(operands[at], stats)
    found, _ = jvp(statistic, (operands[at],), (operands[at],))
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("lambda_", [
    None, "pearson", "log-likelihood", "freeman-tukey", "mod-log-likelihood", "neyman",
    "cressie-read", 0.3,
])  # fmt: skip
def test_powers(lambda_):
    expected = P[:, ::-1] / P[:, ::-1].sum(0) * P.sum(0)

    def divergence(x, of=traced):
        return tuple(of.power_divergence(x, expected, 1, lambda_=lambda_))

    found, slope = jvp(divergence, (P,), (0 * P,))
    for x, y in zip(found, divergence(P, stats), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)
    assert np.all(slope[0] == 0)


def test_the_derivative_of_a_power():
    def divergence(x, of=traced):
        return of.power_divergence(x, ddof=1, lambda_="neyman")[1].sum()

    step = 1e-6 * B
    difference = divergence(P + step, stats) - divergence(P - step, stats)
    np.testing.assert_allclose(jvp(divergence, (P,), (B,))[1], difference / 2e-6, rtol=1e-6)


WORDS = {
    "another name": (
        ValueError, "invalid string for lambda_: 'gini'",
        lambda x: traced.power_divergence(x, lambda_="gini")[0],
    ),
    "means by axis": (
        ValueError, "`popmean.shape\\[axis\\]` must equal 1",
        lambda x: traced.ttest_1samp(x, [1.0, 2.0])[0],
    ),
    "pairs": (
        ValueError, "incompatible for broadcasting",
        lambda x: traced.ttest_rel(x, [1.0, 2.0, 3.0])[0],
    ),
    "one sample": (TypeError, "least two samples", lambda x: traced.f_oneway(x)[0]),
    "policy": (
        errors.UnsupportedNumPyError,
        r"chisquare\(\.\.\., nan_policy='omit'\) is not supported on traced .*: leave NaN out",
        lambda x: vmap(lambda x: traced.chisquare(x, nan_policy="omit")[0])(x[None])[0],
    ),
    **{name: (
        errors.UnsupportedNumPyError, f"{name} of several samples with NaN is not supported",
        lambda x, name=name: getattr(traced, name)(
            np.stack([x, x * np.nan]), B[:2, :, 0], axis=1
        )[0][0],
    ) for name in ("ansari", "cramervonmises_2samp", "fligner", "mood")},
    "policy of rows": (
        errors.UnsupportedNumPyError, r"levene\(\.\.\., nan_policy='omit'\) is not supported",
        lambda x: traced.levene(x[None], 2 * x[None], axis=1, nan_policy="omit")[0][0],
    ),
    "policy of a list": (
        errors.UnsupportedNumPyError, "nan_policy='raise'",
        lambda x: jit(lambda a: traced.kstat([a, 2.0, 3.0], nan_policy="raise"))(x[0]),
    ),
    "unknown policy": (
        ValueError, "nan_policy must be one of",
        lambda x: traced.f_oneway(x, x, nan_policy="drop")[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_words(name):
    error, words, function = WORDS[name]
    with pytest.raises(error, match=words):
        grad(function)(np.arange(4.0))


def test_known_nan_are_left_out():
    sample = np.array([1.0, np.nan, 2.0, 4.0])
    slope = grad(lambda x: traced.zmap([1.0], x, nan_policy="omit")[0])(sample)
    step = np.array([0.0, 0.0, 1e-6, 0.0])
    ends = [stats.zmap([1.0], sample + s * step, nan_policy="omit")[0] for s in (1, -1)]
    np.testing.assert_allclose(slope[2], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_a_mean_for_each_slice():
    means = _rng.normal(size=(4, 1, 3))
    expected = stats.ttest_1samp(A, means, axis=1)
    found, _ = jvp(lambda x: tuple(traced.ttest_1samp(x, means, axis=1)), (A,), (A,))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_samples_by_name():
    x, y = A[:, 0, 0], B[0, :, 0]
    slope = grad(lambda x: traced.mannwhitneyu(x=x, y=y).statistic)(x)
    np.testing.assert_array_equal(slope, 0)
    found = jvp(lambda y: tuple(traced.mannwhitneyu(x=x, y=y)), (y,), (y,))[0]
    np.testing.assert_allclose(found, stats.mannwhitneyu(x, y))


def test_a_line_through_two_points():
    x, y = np.array([1.0, 3.0]), np.array([2.0, -1.0])
    found = jvp(lambda y: parts(traced.linregress(x, y)), (y,), (y,))[0]
    np.testing.assert_allclose(found, parts(stats.linregress(x, y)), rtol=1e-12, atol=1e-15)


def test_a_line_is_five_numbers():
    slope = grad(lambda y: (lambda a, b, r, p, e: a + b)(*traced.linregress(A[:, 0, 0], y)))
    step = 1e-6 * B[:, 0, 0]
    ends = [sum(stats.linregress(A[:, 0, 0], B[:, 1, 0] + s * step)[:2]) for s in (1, -1)]
    expected = (ends[0] - ends[1]) / 2
    np.testing.assert_allclose(slope(B[:, 1, 0]) @ step, expected, rtol=1e-6)


def test_a_trimmed_mean_of_nothing():
    for shape in ((0,), (0, 3), (3, 0)):
        found = jit(lambda x: traced.trim_mean(x, 0.2))(np.ones(shape))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_array_equal(found, stats.trim_mean(np.ones(shape), 0.2))
