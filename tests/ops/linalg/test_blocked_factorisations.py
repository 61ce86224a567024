"""Our own tiled factorisations against SciPy, NumPy and mpmath, across all thresholds."""

import mpmath
import numpy as np
import pytest
import scipy.linalg

from functrans import config, grad, jit, jvp, lax, vmap
from functrans.ops.linalg.cholesky_derivative import cotangent_p
from functrans.scipy.linalg import solve_triangular
from tests.targets import machines_of, take_host_for

SIZES = [1, 2, 9, 17, 31, 32, 33, 63, 64, 65, 100, 129, 300]
DTYPES = [np.float32, np.float64]

ALWAYS = {"fewest_rows": 1}
MACHINES = machines_of(ALWAYS, {"short stretches": {"depth_bytes": 256, "panels": 1, "block": 32}})


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    take_host_for(monkeypatch, **MACHINES[request.param])


def positive_definite(n, dtype, *leading):
    rng = np.random.default_rng(n)
    a = rng.normal(size=(*leading, n, n))
    return (a @ a.mT / n + np.eye(n)).astype(dtype)


def lower_half(a):
    """With NaN where nobody may read, or what is read must not count."""
    return np.where(np.tri(a.shape[-1], dtype=bool), a, a.dtype.type(np.nan))


def tolerance(dtype, n):
    return 4 * (n + 10) * np.finfo(dtype).eps


def symmetric_cotangent(factor, ct):
    """Murray's equation, in float64."""
    factor, ct = np.tril(factor).astype(float), np.tril(ct).astype(float)
    inner = np.tril(factor.T @ ct)
    inner = inner + np.tril(inner, -1).T
    half = np.linalg.solve(factor.T, inner)
    whole = np.linalg.solve(factor.T, half.T) / 2
    return np.tril(whole) + np.tril(whole, -1)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n, dtype):
    a = positive_definite(n, dtype)
    factor = jit(np.linalg.cholesky)(lower_half(a))
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), atol=tolerance(dtype, n))
    assert not np.triu(factor, 1).any()


@pytest.mark.dear
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cotangents_of_cholesky(n, dtype):
    factor = np.linalg.cholesky(positive_definite(n, dtype))
    ct = np.random.default_rng(n).normal(size=(n, n)).astype(dtype)
    found = jit(lambda *x: cotangent_p(*x))(lower_half(factor), lower_half(ct))
    wanted = symmetric_cotangent(factor, ct)
    np.testing.assert_allclose(found, wanted, atol=tolerance(dtype, n) * abs(wanted).max())


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("unit_diagonal", [True, False])
@pytest.mark.parametrize("columns", [2, 17, 100])
@pytest.mark.parametrize("n", [9, 33, 64, 65, 129])
def test_triangular_systems(n, columns, lower, trans, unit_diagonal):
    for dtype in DTYPES:
        rng = np.random.default_rng(n)
        a = (rng.normal(size=(n, n)) / n + 2 * np.eye(n)).astype(dtype)
        b = rng.normal(size=(n, columns)).astype(dtype)
        options = {"lower": lower, "trans": trans, "unit_diagonal": unit_diagonal}
        found = jit(lambda a, b, options=options: solve_triangular(a, b, **options))(
            lower_half(a) if lower else lower_half(a.T).T, b
        )
        wanted = scipy.linalg.solve_triangular(a, b, **options)
        np.testing.assert_allclose(found, wanted, atol=tolerance(dtype, n) * abs(wanted).max())


@pytest.mark.dear
@pytest.mark.parametrize("leading", [(3,), (2, 2), (1,), (1, 2)])
def test_stacks(leading):
    a = positive_definite(70, float, *leading)
    b = np.random.default_rng(0).normal(size=(*leading, 70, 20))
    factor = jit(np.linalg.cholesky)(a)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), atol=1e-13)
    x = jit(lambda a, b: solve_triangular(a, b, lower=True, trans=1))(factor, b)
    np.testing.assert_allclose(factor.mT @ x, b, atol=1e-12)
    found = jit(lambda *x: cotangent_p(*x))(factor, a)
    for at in np.ndindex(*leading):
        np.testing.assert_allclose(found[at], symmetric_cotangent(factor[at], a[at]), atol=1e-11)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("n", [300, 517])
def test_bits_do_not_depend_on_the_number_of_threads(n, monkeypatch):
    a, b = positive_definite(n, float), np.random.default_rng(0).normal(size=(n, n - 9))

    def f(a, b):
        factor = np.linalg.cholesky(a)
        return solve_triangular(factor, b, lower=True), cotangent_p(factor, a)

    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append([x.tobytes() for x in jit(f)(a, b)])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("n", [9, 64, 65, 200])
def test_what_is_not_positive_definite(n):
    cholesky = jit(np.linalg.cholesky)
    for place in (0, n // 2, n - 1):
        for bad in (0.0, -1.0):
            a = np.eye(n)
            a[place, place] = bad
            with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
                cholesky(a)
        a[place, place] = np.nan
        np.testing.assert_array_equal(cholesky(a), np.linalg.cholesky(a))


@pytest.mark.dear
@pytest.mark.parametrize("n", [9, 65])
def test_triangles_with_a_zero_on_the_diagonal(n):
    a = np.eye(n)
    a[n // 2, n // 2] = 0
    for trans in (0, 1):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            jit(lambda a, b, trans=trans: solve_triangular(a, b, trans=trans))(a, np.ones((n, 3)))
        options = {"trans": trans, "unit_diagonal": True}
        x = jit(lambda a, b, options=options: solve_triangular(a, b, **options))(a, np.ones((n, 3)))
        np.testing.assert_array_equal(x, np.ones((n, 3)))


@pytest.mark.dear
def test_ill_conditioned_matrices_have_small_residuals():
    n = 100
    i = np.arange(n)
    a = np.exp(-((i[:, None] - i) ** 2) / 18) + 1e-13 * np.eye(n)
    assert np.linalg.cond(a) > 1e12
    factor = jit(np.linalg.cholesky)(a)
    assert abs(factor @ factor.T - a).max() < 1e-14
    b = np.ones((n, 4))
    x = jit(lambda a, b: solve_triangular(a, b, lower=True))(factor, b)
    size = abs(factor) @ abs(x)
    assert (abs(factor @ x - b) <= n * np.finfo(float).eps * size).all()


@pytest.mark.dear
def test_against_more_digits():
    n = 40
    a = positive_definite(n, float)
    ct = np.tril(np.random.default_rng(1).normal(size=(n, n)))
    with mpmath.workdps(40):
        factor = mpmath.cholesky(mpmath.matrix(a.tolist()))
        inner = factor.T * mpmath.matrix(ct.tolist())
        both = mpmath.matrix(n, n)
        for i in range(n):
            for j in range(i + 1):
                both[i, j] = both[j, i] = inner[i, j]
        inverse = factor**-1
        whole = inverse.T * both * inverse / 2
        exact = np.array(whole.tolist(), float)
        root = np.array(factor.tolist(), float)
    np.testing.assert_allclose(jit(np.linalg.cholesky)(a), root, atol=1e-15)
    wanted = np.tril(exact) + np.tril(exact, -1)
    np.testing.assert_allclose(jit(lambda *x: cotangent_p(*x))(root, ct), wanted, atol=1e-14)


# -- derivatives -----------------------------------------------------------------------------------

N = 40
WEIGHTS, DIRECTION = np.random.default_rng(2).normal(size=(2, N, N))


def weighted(a):
    return (np.linalg.cholesky(a) ** 2 * WEIGHTS).sum()


def slope(f, a, step=1e-6):
    return (f(a + step * DIRECTION) - f(a - step * DIRECTION)) / (2 * step)


@pytest.mark.few(1)
@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_to_third_order(compiled):
    f = jit(weighted) if compiled else weighted
    a = positive_definite(N, float)
    first = grad(f)
    assert (first(a) * DIRECTION).sum() == pytest.approx(slope(weighted, a), rel=1e-7)
    assert jvp(f, (a,), (DIRECTION,))[1] == pytest.approx((first(a) * DIRECTION).sum(), rel=1e-12)
    assert not np.triu(first(a), 1).any()

    def second(a):
        return grad(lambda a: (first(a) * DIRECTION).sum())(a)

    forward = jvp(first, (a,), (DIRECTION,))[1]
    np.testing.assert_allclose(second(a), forward, atol=1e-11)
    np.testing.assert_allclose(forward, slope(grad(weighted), a), atol=1e-7)
    third = grad(lambda a: (second(a) * WEIGHTS).sum())(a)
    wanted = slope(lambda a: (second(a) * WEIGHTS).sum(), a)
    assert (third * DIRECTION).sum() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.dear
def test_derivatives_of_stacks_and_in_loops():
    a = positive_definite(N, float, 3)
    wanted = np.stack([grad(weighted)(each) for each in a])
    np.testing.assert_allclose(jit(vmap(grad(weighted)))(a), wanted, atol=1e-12)
    np.testing.assert_allclose(vmap(grad(weighted))(a), wanted, atol=1e-12)

    def loop(a):
        def step(a, _):
            factor = np.linalg.cholesky(a)
            return a + 0.01 * factor @ factor.T, (factor**2 * WEIGHTS).sum()

        return lax.scan(step, a, None, length=3)[1].sum()

    found = jit(grad(loop))(a[0])
    assert (found * DIRECTION).sum() == pytest.approx(slope(loop, a[0]), rel=1e-7)


@pytest.mark.dear
@pytest.mark.parametrize("n", [31, 40, 130])
def test_what_is_given_up_is_not_overwritten_too_early(n):
    """Results are written behind all turns, which read the packed operands."""
    rng = np.random.default_rng(n)
    a = rng.standard_normal((n, n))
    a = a @ a.T + n * np.eye(n)
    factor = jit(np.linalg.cholesky, donate_argnums=0)
    np.testing.assert_allclose(factor(a.copy()), np.linalg.cholesky(a), rtol=1e-12, atol=1e-12)
    slope = grad(lambda a: np.sum(np.sin(np.linalg.cholesky(a))))
    given = jit(slope, donate_argnums=0)(a.copy())
    np.testing.assert_allclose(given, slope(a), rtol=1e-10, atol=1e-12)
    solve = jit(lambda a, b: solve_triangular(a, b, lower=True), donate_argnums=(0, 1))
    b = rng.standard_normal((n, n))
    found = solve(np.linalg.cholesky(a), b.copy())
    np.testing.assert_allclose(found, np.linalg.solve(np.linalg.cholesky(a), b), 1e-9, 1e-9)
