"""`functrans.scipy.spatial.distance`, and SciPy's functions on traced values, against SciPy."""

import numpy as np
import pytest
from scipy.spatial import distance as scipys

from functrans import grad, jit, vmap
from functrans.errors import UnsupportedNumPyError
from functrans.scipy.spatial import distance as ours
from functrans.testing import check_grads

rng = np.random.default_rng(0)
A, B, X, W = (
    rng.normal(size=(4, 3)),
    rng.normal(size=(5, 3)),
    rng.normal(size=(6, 3)),
    rng.random(3),
)
METRICS = [
    "braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean",
    "mahalanobis", "minkowski", "seuclidean", "sqeuclidean",
]  # fmt: skip
CASES = [(name, {}) for name in METRICS]
CASES += [(name, {"w": W}) for name in METRICS if name not in ("mahalanobis", "seuclidean")]
CASES += [
    ("minkowski", {"p": 3}),
    ("minkowski", {"p": 1.5, "w": W}),
    ("mahalanobis", {"VI": A.T @ A}),
]
CASES += [("seuclidean", {"V": W})]


def close(found, expected, rtol=1e-11):
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-13)


@pytest.mark.few(10)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_all_pairs(name, options):
    def between(module, a, b):
        return module.cdist(a, b, name, **options)

    def among(module, x):
        return module.pdist(x, name, **options)

    for module in (ours, scipys):
        close(jit(lambda a, b, module=module: between(module, a, b))(A, B), between(scipys, A, B))
        close(jit(lambda x, module=module: among(module, x))(X), among(scipys, X))
    stacked = vmap(lambda x: among(ours, x))(np.stack([X, X * 2]))
    close(stacked, np.stack([among(scipys, X), among(scipys, X * 2)]))
    single = A.astype(np.float32), B.astype(np.float32)
    close(jit(lambda a, b: between(ours, a, b))(*single), between(scipys, *single), 1e-6)
    check_grads(lambda a, b: between(ours, a, b), (A, B), order=1, max_elements=4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_two_vectors(name, options, dtype):
    needed = {"mahalanobis": {"VI": np.eye(3) * 2}, "seuclidean": {"V": W}}.get(name, {})
    options = needed | options
    u, v = (4 * A[0]).astype(dtype), (4 * B[0]).astype(dtype)
    expected = getattr(scipys, name)(u, v, **options)
    for module in (ours, scipys):
        found = jit(lambda u, v, m=module: getattr(m, name)(u, v, **options))(u, v)
        close(found, expected, 1e-5 if dtype is np.float32 else 1e-11)


@pytest.mark.parametrize("size", [0, 1, 3, 6, 10])
def test_squareform(size):
    vector = np.arange(1.0, size + 1)
    matrix = scipys.squareform(vector)
    close(jit(scipys.squareform)(vector), matrix)
    close(jit(ours.squareform)(matrix), scipys.squareform(matrix))
    with pytest.raises(ValueError, match="Incompatible vector size"):
        jit(ours.squareform)(np.ones(5))
    with pytest.raises(ValueError, match="must be symmetric"):
        grad(lambda x: np.sum(ours.squareform(x)))(np.arange(9.0).reshape(3, 3))


@pytest.mark.parametrize("name", ["euclidean", "mahalanobis", "minkowski", "canberra", "chebyshev"])
def test_equal_points_have_slope_0(name):
    options = {"VI": np.eye(3)} if name == "mahalanobis" else {}
    slopes = grad(lambda x: np.sum(ours.cdist(x, x[:1], name, **options)))
    np.testing.assert_array_equal(slopes(np.zeros((2, 3))), np.zeros((2, 3)))


def test_what_is_refused():
    for metric in ("jaccard", lambda u, v: u @ v):
        with pytest.raises(UnsupportedNumPyError, match=r"metric.*is not supported on traced"):
            jit(lambda a, metric=metric: ours.cdist(a, a, metric))(A)
    np.testing.assert_array_equal(ours.cdist(A, A, "jaccard"), scipys.cdist(A, A, "jaccard"))


def test_a_covariance_of_the_points():
    x = np.array([[0.3], [1.0], [2.5]])
    np.testing.assert_allclose(
        jit(lambda x: ours.pdist(x, "mahalanobis"))(x), scipys.pdist(x, "mahalanobis")
    )
    words = "the covariance of 2 points of 3 coordinates is singular at .*: pass more points"
    with pytest.raises(ValueError, match=words):
        jit(lambda x: ours.pdist(x, "mahalanobis"))(np.ones((2, 3)))


def test_a_correlation_that_is_not_centred():
    u, v = np.array([0.3, -0.5, 0.1]), np.array([0.2, 0.6, 0.9])
    for w in (None, [1.0, 2.0, 0.5]):
        found = jit(lambda u, w=w: ours.correlation(u, v, w, centered=False))(u)
        np.testing.assert_allclose(found, scipys.correlation(u, v, w, centered=False), rtol=1e-12)


@pytest.mark.parametrize("of_pairs", [ours.pdist, lambda x, **kwargs: ours.cdist(x, x, **kwargs)])
def test_weights_of_pairs_are_not_negative(of_pairs):
    with pytest.raises(ValueError, match="weights should be all non-negative"):
        jit(lambda x: of_pairs(x, metric="cityblock", w=[1.0, -1.0]))(np.ones((3, 2)))
